"""Waiting for jobs: read them repeatedly until they end, also through short outages of the store."""

import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from omega.cellstate.errors import JobLost, Refused, Unreachable
from omega.queries.job_state import gone, job_counts, state

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell
    from omega.cellstate.model import Job

FINISHED, OTHERWISE, TIMED_OUT = 0, 1, 124
"""Exit statuses of waiting commands: all tasks finished; failed, stopped or abandoned; time-out."""
FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.25
RETRY_SECONDS = 60.0
"""Time a store may be unavailable at a stretch during a wait: enough for a restart that reads its data."""
ONE_BY_ONE = 64
"""Number of jobs above which all jobs are read in one call."""
T = TypeVar("T")


class Outage:
    """Bounds the time for which a wait survives a store that does not answer."""

    def __init__(self, most: float | None = None, left: float | None = None) -> None:
        """Set the bounds in seconds of each outage (None: RETRY_SECONDS; 0: raise the first error) and of the wait."""
        self._most = RETRY_SECONDS if most is None else most
        self._until = math.inf if left is None else time.monotonic() + left
        self._since: float | None = None

    def pause(self, error: Unreachable) -> float:
        """Return the seconds until the next try; raises `error` when the store was away for too long."""
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        if now - self._since >= self._most or now >= self._until:
            raise error
        return LONGEST_PAUSE

    def over(self) -> None:
        """Record that the store answered."""
        self._since = None

    def survive(self, call: Callable[[], T]) -> T:
        """Return what `call` returns, trying again while the store is out of reach."""
        while True:
            try:
                answer = call()
            except Unreachable as error:
                time.sleep(self.pause(error))
            else:
                self.over()
                return answer


def patiently(call: Callable[[], T]) -> T:
    """Return what `call` returns, trying again while the store is out of reach; raises Unreachable in the end."""
    return Outage().survive(call)


def explained(cell: "Cell", job: "Job", cuts: int) -> Refused:
    """Return why a job is missing that was there before, when the store reported so many cuts of its history."""
    cell.look_back()
    last = cell.cuts().last
    if last is not None and last.number > cuts and last.agreed < job.modified:
        return JobLost.of(job.name, job.modified, last.agreed)
    return no_longer_kept(cell, job.id)


def no_longer_kept(cell: "Cell", job_id: str) -> Refused:
    """Return the error for a job that a cell deleted."""
    return Refused(f"job {job_id}: ended long ago, cell {cell.name} does not keep it any more")


def read(cell: "Cell", ids: Sequence[str], outage: Outage) -> "list[Job | None]":
    """Return the jobs of these ids, None for one that is no longer kept."""

    def look() -> "list[Job | None]":
        if len(ids) <= ONE_BY_ONE:
            return [cell.jobs.get(job_id) for job_id in ids]
        by_id = {job.id: job for job in cell.jobs.all()}
        return [by_id.get(job_id) for job_id in ids]

    return outage.survive(look)


def watch(
    cell: "Cell",
    ids: Sequence[str],
    see: "Callable[[Sequence[Job]], None]",
    seconds: float | None = None,
    outage: Outage | None = None,
) -> "list[Job]":
    """Pass the jobs to `see` repeatedly until all have ended, or for at most `seconds`; returns their last state.

    Raises JobLost when the store lost one of them, Refused when one is no longer kept.
    """
    limit = None if seconds is None else time.monotonic() + seconds
    known: dict[str, Job] = {}
    pause, outage, cuts = FIRST_PAUSE, outage or Outage(), -1
    while True:
        going = [job_id for job_id in ids if job_id not in known or not gone(known[job_id])]
        for job_id, job in zip(going, read(cell, going, outage), strict=True):
            if job is None:
                raise explained(cell, known[job_id], cuts) if job_id in known else no_longer_kept(cell, job_id)
            known[job_id] = job
        jobs = [known[job_id] for job_id in ids]
        see(jobs)
        if all(gone(job) for job in jobs):
            return jobs
        left = LONGEST_PAUSE if limit is None else limit - time.monotonic()
        if left <= 0:
            return jobs
        if cuts < 0:
            outage.survive(cell.look_back)
            cuts = cell.sightings.known
        time.sleep(min(pause, left))
        pause = min(LONGEST_PAUSE, pause * 1.5)


def exit_status(jobs: "Sequence[Job]") -> int:
    """Return the exit status for the results of jobs."""
    if not all(gone(job) for job in jobs):
        return TIMED_OUT
    return FINISHED if all(state(job) == "finished" for job in jobs) else OTHERWISE


def waited_json(cell: "Cell", job: "Job", seconds: float, again: int = 0) -> dict[str, Any]:
    """Return a job that was waited for, as plain values; `again`: lost jobs that were submitted again meanwhile."""
    return {
        "cell": cell.name,
        "id": job.id,
        "name": job.name,
        "state": state(job),
        "counts": job_counts(job),
        "timed_out": exit_status([job]) == TIMED_OUT,
        "waited_seconds": seconds,
        "submitted_again": again,
    }
