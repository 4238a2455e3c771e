"""Finding a job by id, name or prefix of an id."""

from typing import TYPE_CHECKING

from omega.cellstate.errors import Refused
from omega.queries.wording import listing

if TYPE_CHECKING:
    from omega.cellstate.model import Job
    from omega.cellstate.ports import Queries


def find_job(cell: "Queries", asked: str) -> "Job":
    """Return a job by its id, the name of a live job, a prefix of an id, or the name of an ended job, in this order.

    Raises Refused when there is none, or several ids begin like this.
    """
    job = cell.job(asked)
    if job is None and asked in (names := cell.job_names()):
        job = cell.job(names[asked])
    if job is None and asked:
        near = sorted(job_id for job_id in cell.job_ids() if job_id.startswith(asked))
        if len(near) > 1:
            begin = f"{len(near):,} jobs of cell {cell.name} begin so ({listing(near)})"
            raise Refused(f"job {asked!r}: {begin}; write more of the id")
        job = cell.job(near[0]) if near else _ended(cell, asked)
    if job is None:
        raise Refused(f"job {asked!r}: not in cell {cell.name}; see omega job list")
    return job


def _ended(cell: "Queries", name: str) -> "Job | None":
    """Return the newest job of a name; only ended ones share theirs with others."""
    return next((job for job in reversed(cell.jobs()) if job.name == name), None)
