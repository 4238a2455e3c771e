"""The audit of a cell, with what this layer knows of its pools."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from omega.cellstate.errors import Unreadable
from omega.cellstate.server import check_suitable, server_info
from omega.queries.pool_shares import machine_warnings_of, wrong_epoch

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell
    from omega.cellstate.verify import Report


def verified(url: str, cell: "Cell", since: int = 0, told: Callable[[str], object] = str) -> tuple["Report", list[str]]:
    """Check every invariant of a cell of the store at `url`, and the log after `since`.

    Return the report, and warnings about machines. `told` is called with what is being read or checked.

    Raises Unsuitable when the store is configured to evict or lose data.
    """
    from omega.cellstate.verify import verify  # noqa: PLC0415 - numpy, after the first call to the store

    check_store(url)
    report, warnings = with_epoch(cell, verify(cell, told, since)), list[str]()
    with suppress(Unreadable):  # the report says so
        warnings = machine_warnings_of(cell)
    return report, warnings


def check_store(url: str) -> None:
    """Raise Unsuitable when the store is configured to evict or lose data."""
    check_suitable(server_info(url))


def with_epoch(cell: "Cell", report: "Report") -> "Report":
    """Add pools whose published fair share is not the one that the epoch's input gives."""
    from omega.cellstate.invariants import Violation  # noqa: PLC0415 - as above

    try:
        wrong = [Violation(6, what, f"pool {name}") for name, what in wrong_epoch(cell)]
    except Unreadable:
        return report  # which says so
    return replace(report, violations=(*report.violations, *wrong)) if wrong else report
