"""Versions of a job as plain values: `omega job history`."""

from typing import TYPE_CHECKING, Any

from omega.versions import Version, differences, earlier, present

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell
    from omega.cellstate.model import Job


def history(cell: "Cell", job: "Job") -> list[dict[str, Any]]:
    """Return the versions that a job keeps, newest first, each with its differences from the one before."""
    kept = [*earlier(job), present(job)]
    rows = []
    for before, version in zip([None, *kept], kept, strict=False):
        changes = [] if before is None else compared(cell, before, version)
        row = {"version": version.number, "at_ms": version.at_ms, "by": version.by or None}
        rows.append(row | {"tasks": sum(group.count for group in version.groups), "changes": changes})
    return rows[::-1]


def compared(cell: "Cell", before: Version, after: Version) -> list[dict[str, Any]]:
    """Return the fields in which two versions differ."""
    return [each._asdict() for each in differences(before, after, cell.dimensions.names)]
