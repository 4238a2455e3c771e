"""``omega cell limits``: limits on the total use of all jobs of a kind."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from omega.cellstate.errors import BadInput
from omega.cellstate.replies import KindUse
from omega.cellstate.resources import Dimensions, format_amount, shown
from omega.cli import render
from omega.cli.app import App
from omega.cli.columns import Columns, answered, columns_option
from omega.cli.options import amount_options, named
from omega.cli.over_limit import over_option, settle
from omega.limits import excess_of_kind, set_limits
from omega.queries.cells import kinds_of, limits_json

if TYPE_CHECKING:
    from omega.cellstate.model import Job

NONE = "none"
MOST_DIGITS = 15


@click.command()
@click.argument("kind", required=False)
@amount_options("that all jobs of the kind may use together", "; none removes the limit")
@click.option(
    "--jobs", metavar="N", help="Maximum number of jobs of the kind with placed tasks; none removes the limit."
)
@click.option(
    "--precedence", metavar="LOW..HIGH", help="Precedences that jobs of the kind may have; none removes the limit."
)
@click.option("--clear", is_flag=True, help="Remove all limits of the kind.")
@over_option
@columns_option
@click.pass_obj
def command(
    app: App,
    *,
    kind: str | None,
    cpu: str | None,
    memory: str | None,
    others: Mapping[str, str],
    jobs: str | None,
    precedence: str | None,
    clear: bool,
    over: str,
    columns: Columns,
) -> None:
    """Show the limits, or change those of KIND. Limits that are not given stay; the value none removes one.

    A limit below the present use ends nothing: no task of the kind starts until enough have ended. --over evict evicts
    the difference, lowest precedence and newest tasks first; the evicted tasks are pending again.
    """
    amounts = named(cpu, memory, others)
    changes = bool(amounts or jobs or precedence)
    if clear and changes:
        raise click.UsageError("--clear removes all limits; leave out the other options")
    if (clear or changes) and kind is None:
        raise click.UsageError("missing KIND: omega cell limits KIND …")
    cell = app.open(to_change=True)
    evicted = 0
    if kind is not None and (clear or changes):
        set_limits(cell, kind, _wanted(amounts, jobs, precedence), app.now_ms(), app.by, clear=clear)
    if kind is not None and (clear or changes or over == "evict"):
        _, evicted = settle(app, cell, f"kind {kind}", over, partial(excess_of_kind, cell, kind), partial(_is_of, kind))
    kinds = kinds_of(cell, kind)
    limits = {name: limits_json(cell.dimensions, use) for name, use in kinds.items()}
    if columns:
        rows = [{"kind": name, **each} for name, each in limits.items()]
        answered(app, {"cell": cell.name, "limits": rows}, "limits", columns)
    elif app.as_json:
        render.document({"cell": cell.name, "limits": limits} | ({"evicted": evicted} if over == "evict" else {}))
    elif any(use != KindUse.none(len(cell.dimensions)) for use in kinds.values()):
        show(cell.dimensions, kinds)
    else:
        render.note(f"no limits{f' of {kind}' if kind else ''}; set some with omega cell limits KIND --cpu …")


def _is_of(kind: str, job: "Job") -> bool:
    return job.kind == kind


def _wanted(amounts: Mapping[str, str], jobs: str | None, precedence: str | None) -> dict[str, Any]:
    """Return the given limits as `omega.limits.changed` takes them."""
    changes: dict[str, Any] = {
        "resources": {name: None if amount == NONE else amount for name, amount in amounts.items()}
    }
    if jobs is not None:
        changes["jobs"] = None if jobs == NONE else _whole(jobs, "--jobs")
    if precedence is not None:
        changes["precedence"] = None if precedence == NONE else _range(precedence)
    return changes


def _whole(text: str, option: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS):
        raise BadInput(f"{option}: {shown(text)} is not a number; write for example 100, or none")
    return int(text)


def _range(text: str) -> tuple[int, int]:
    from omega.cellstate.model import MOST_PRECEDENCE

    low, dots, high = text.partition("..")
    if not dots:
        raise BadInput(f"--precedence: {text!r} is not a range; write for example 0..99 or 100..")
    lowest, highest = _whole(low or "0", "--precedence"), _whole(high or str(MOST_PRECEDENCE), "--precedence")
    if not lowest <= highest <= MOST_PRECEDENCE:
        raise BadInput(f"--precedence: {text!r} is not a range within 0..{MOST_PRECEDENCE}")
    return lowest, highest


def show(dimensions: Dimensions, kinds: "Mapping[str, KindUse]") -> None:
    """Print use and limits by kind as ``used / limit``."""

    def pair(name: str, used: int, limit: int | None) -> str:
        over = f" (over by {format_amount(name, used - limit)})" if limit is not None and used > limit else ""
        return f"{format_amount(name, used)} / {'–' if limit is None else format_amount(name, limit)}{over}"

    rows = []
    for kind, use in kinds.items():
        amounts = [pair(*each) for each in zip(dimensions.names, use.used, use.limits.resources, strict=True)]
        jobs = pair("jobs", use.jobs, use.limits.jobs)
        low, high = use.limits.precedence
        rows.append((kind, jobs, *amounts, f"{low}..{high}"))
    render.table(("kind", ">jobs used / limit", *(f">{name}" for name in dimensions.names), "precedence"), rows)
