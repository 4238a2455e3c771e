"""Why tasks of a job failed: what its history has, and the newest entries of the log that the history lacks."""

from collections.abc import Collection
from typing import TYPE_CHECKING

from omega.cellstate.digest.history import FAILS, History
from omega.cellstate.digest.hours import Position, readable
from omega.cellstate.events import job_of

if TYPE_CHECKING:
    from omega.cellstate.model import Job
    from omega.cellstate.ports import Queries


def failed_tasks(cell: "Queries", job: "Job", groups: Collection[int]) -> dict[str, int]:
    """Return the number of failed tasks of these groups of a job by reason, such as ``exit 3``."""
    position, record = cell.job_history(job.id)
    history = (readable(History.unpack, record, None) if record else None) or History.of(job)
    for fact in cell.newest_facts(readable(Position.unpack, position, Position()).version, job.id).facts:
        if fact.event.word in FAILS and job_of(fact.event) == job.id:
            history.add(fact)
    return history.failures_of(groups)
