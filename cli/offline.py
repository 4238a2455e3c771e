"""A hint for machines that were added although their executor does not run."""

from typing import TYPE_CHECKING

from omega.cli import render
from omega.live.simulated import DEFAULT_EXECUTOR

if TYPE_CHECKING:
    from omega.cellstate.ports import Queries


def lives(cell: "Queries", executor: str) -> bool:
    """Return whether an executor holds its lease."""
    known = cell.executor_records()
    return executor in known and known[executor].lives


def note_offline(executor: str) -> None:
    """Print that machines are offline, and the command that starts their executor."""
    option = "" if executor == DEFAULT_EXECUTOR else f" --executor {executor}"
    render.note(f"offline: executor {executor} does not run; start it with omega machine simulate{option}")
