"""Jobs of several cells: one list in pages, and one job wherever it is."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from omega.cellstate.errors import BadInput, Refused
from omega.many_cells.opened import OpenCells
from omega.queries.jobs import MOST_BEGUN, list_jobs
from omega.queries.wording import listing

if TYPE_CHECKING:
    from omega.cellstate.model import Job
    from omega.cellstate.pages import JobPage, Keep
    from omega.cellstate.redis import RedisCell
    from omega.cellstate.redis.jobs import RedisJobs

FIRST = 1
"""A page before the first submission is empty."""
MOST_NAMED = 10


def read_position(text: str | int | None) -> dict[str, int]:
    """Return the position ``CELL:N,…`` of a page: for each cell the submission before which its jobs begin."""
    position = {}
    for each in str(text or "").split(","):
        name, _, number = each.rpartition(":")
        if name and number.isdigit() and int(number) >= FIRST:
            position[name] = int(number)
        elif text is not None:
            raise BadInput(f"before {text!r}: want CELL:N,…, as the page before has it (next)")
    return position


def write_position(position: Mapping[str, int]) -> str:
    """Return a position as text."""
    return ",".join(f"{name}:{number}" for name, number in sorted(position.items()))


def job_pages(
    found: OpenCells, most: int | None, position: Mapping[str, int], keep: "Keep | None", user: str | None
) -> "tuple[dict[str, JobPage], str | None]":
    """Return the newest jobs of all cells, `most` in all, by cell, and the position of the next page.

    Cells number their submissions themselves; between cells the time of submission by the submitter's clock decides.
    """
    pages = found.ask(lambda cell: cell.jobs.page(most, position.get(cell.name), keep, user))
    if most is None:
        return pages, None
    left = {name: page.jobs[::-1] for name, page in pages.items()}  # newest first
    taken = dict.fromkeys(left, 0)
    for _ in range(most):
        heads = {name: jobs[taken[name]].submitted_ms for name, jobs in left.items() if taken[name] < len(jobs)}
        if not heads:
            break
        taken[max(sorted(heads), key=heads.__getitem__)] += 1
    following, more, parts = dict(position), False, dict[str, "JobPage"]()
    for name, page in pages.items():
        shown = left[name][: taken[name]][::-1]
        rest = len(page.jobs) - len(shown)
        more = more or rest > 0 or page.before is not None
        if shown and rest:
            following[name] = shown[0].order
        elif not rest:
            following[name] = FIRST if page.before is None else page.before
        parts[name] = page._replace(jobs=shown)
    return parts, write_position(following) if more else None


def list_all(
    found: OpenCells, parts: "Mapping[str, JobPage]", following: str | None, now_ms: int
) -> dict[str, Any]:  # fmt: skip
    """Return jobs of several cells as plain values, the oldest first; every job has the name of its cell.

    ``total`` counts the jobs of all lists, None when a filter filled a page; ``next`` is the `before` of the next page.
    """
    rows = list[dict[str, Any]]()
    for name, page in parts.items():
        rows += [{"cell": name, **row} for row in list_jobs(found.cells[name], page, now_ms)["jobs"]]
    totals = [page.total for page in parts.values()]
    total = None if None in totals else sum(each or 0 for each in totals)
    rows.sort(key=_submitted)
    return {"cells": sorted(parts), "skipped": found.skipped, "total": total, "next": following, "jobs": rows}


def _submitted(row: Mapping[str, Any]) -> int:
    return int(row["submitted_ms"])


def find_anywhere(found: OpenCells, asked: str) -> "tuple[RedisCell, Job]":
    """Return a job, and its cell, by its id, else its name, else a prefix of its id.

    Raises Refused when no cell has it, or several have.
    """
    found.check_some()
    by_id = found.ask(lambda cell: cell.jobs.get(asked))
    there = {name: job for name, job in by_id.items() if job is not None}
    if not there:
        by_name = found.ask(lambda cell: _named(cell.jobs, asked))
        there = {name: job for name, job in by_name.items() if job is not None}
    if not there:
        there = _near(found, asked)
    if not there:
        told = "".join(f"; {name} was not asked: {why}" for name, why in found.skipped.items())
        raise Refused(f"job {asked!r}: not in {listing(sorted(found.cells), MOST_NAMED)}{told}")
    if len(there) > 1:
        raise Refused(f"job {asked!r}: is in several cells: {listing(sorted(there), MOST_NAMED)}; name one with --cell")
    ((name, job),) = there.items()
    return found.cells[name], job


def _named(jobs: "RedisJobs", asked: str) -> "Job | None":
    held = jobs.ids_by_name([asked])
    return jobs.get(held[asked]) if asked in held else None


def _near(found: OpenCells, asked: str) -> "dict[str, Job]":
    """Return the job whose id begins so, by its cell. Raises Refused when several do."""
    ids = found.ask(
        lambda cell: [each for each in cell.jobs.newest_ids(MOST_BEGUN) if asked and each.startswith(asked)]
    )
    pairs = [(each, name) for name, near in ids.items() for each in near]
    if len(pairs) > 1:
        told = listing([f"{each} of {name}" for each, name in sorted(pairs)])
        raise Refused(f"job {asked!r}: {len(pairs):,} jobs begin so ({told}); write more of the id")
    jobs = {name: found.cells[name].jobs.get(each) for each, name in pairs}
    return {name: job for name, job in jobs.items() if job is not None}
