"""When a job started and ended, from its history, which the digest of the log keeps with it.

A list reads the histories of its rows in one call, and entries of the log that the digest has not reached not at all:
what these say is not known yet.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from omega.cellstate.digest.history import start_and_end
from omega.cellstate.digest.hours import Position, readable
from omega.cellstate.model import JobState
from omega.queries.job_state import ended

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell
    from omega.cellstate.model import Job

AT_ONCE = 1_000
"""Histories per read: some hundred kilobytes, at most 10 MB."""


class JobTimes(NamedTuple):
    """First placement of a task of a job, and its end, in ms; None: not yet, or not known."""

    started_ms: int | None = None
    ended_ms: int | None = None

    def as_json(self, job: "Job", now_ms: int) -> Mapping[str, int | None]:
        """Return them as plain values, with the time from start to end, of a job that has not ended until now."""
        start, end = self
        if start is None and end is None:
            return _NOT_KNOWN
        over = _has_ended(job)  # the history may be newer than the job
        end, until = (end, end) if over else (None, now_ms)
        elapsed = None if start is None or until is None else max(0, until - start)
        return {"started_ms": start, "ended_ms": end, "elapsed_ms": elapsed}

    def lacks(self, job: "Job") -> bool:
        """Return whether a job was placed or has ended at a time that is not known."""
        start, end = self
        return (start is None and not _never_placed(job)) or (end is None and _has_ended(job))


NOT_KNOWN = JobTimes()
_NOT_KNOWN: Mapping[str, int | None] = dict.fromkeys(("started_ms", "ended_ms", "elapsed_ms"))


def job_times(cell: "Cell", jobs: Sequence["Job"], since_order: int | None = None) -> dict[str, JobTimes]:
    """Return when jobs started and ended: one read, and one for each `AT_ONCE` of those that were ever placed.

    Not known of a job of whose log entries some were lost before the digest reached them: `since_order` of the
    digest's position, if that was read.
    """
    found = dict.fromkeys((job.id for job in jobs), NOT_KNOWN)
    began = [job for job in jobs if not _never_placed(job)]
    if began:
        if since_order is None:
            since_order = readable(Position.unpack, cell.digest.position(), Position()).since_order
        ids = [job.id for job in began if job.order > since_order]
        for at in range(0, len(ids), AT_ONCE):
            for job_id, record in cell.digest.histories(ids[at : at + AT_ONCE]).items():
                found[job_id] = readable(_times_of, record, NOT_KNOWN)
    return found


def _times_of(record: bytes) -> JobTimes:
    return JobTimes(*start_and_end(record))


def _has_ended(job: "Job") -> bool:
    return job.state > JobState.HELD and (job.state is JobState.DONE or ended(job))


def _never_placed(job: "Job") -> bool:
    """Return whether no task was ever placed and the job has not ended, so that it has no times."""
    return not job.begun and job.state <= JobState.HELD and all(group.unplaced == group.total for group in job.groups)
