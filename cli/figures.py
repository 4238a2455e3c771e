"""Text forms of scheduler figures and of an audit's result."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from omega.cli import render

if TYPE_CHECKING:
    from omega.cellstate.audit import Report


def seconds(value: float) -> str:
    """Return a duration as short text."""
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.2f} s" if value < 100 else f"{value:.0f} s"


def scheduler_table(figures: Mapping[str, Mapping[str, Any]]) -> None:
    """Print the figures of each scheduler."""
    rows = [
        (
            member,
            each["jobs"],
            each["tasks"],
            each["transactions"],
            f"{seconds(each['wait_mean'])} / {seconds(each['wait_p90'])}",
            f"{each['busyness']:.2f}",
            f"{each['conflict_fraction']:.3f}",
            each["abandoned"],
        )
        for member, each in sorted(figures.items())
    ]
    counts = (">jobs", ">tasks", ">transactions")
    render.table(("scheduler", *counts, ">wait mean / p90", ">busy", ">conflict fraction", ">abandoned"), rows)


def verified(report: "Report") -> str:
    """Return an audit's result in one line."""
    checked = report.as_json()["checked"]
    found = f"{checked['machines']:,} machines · {checked['tasks']:,} tasks · {checked['jobs']:,} jobs"
    return f"ok · {found}" if report.ok else f"{len(report.violations)} violations · {found}"
