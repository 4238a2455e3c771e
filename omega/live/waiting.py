"""Waiting for jobs: read them repeatedly until they end, also through short outages of the store."""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from omega.cellstate.errors import Refused, Unreachable
from omega.queries.job_state import counts, ended, state

if TYPE_CHECKING:
    from omega.cellstate.model import Job
    from omega.cellstate.ports import Queries

FINISHED, OTHERWISE, TIMED_OUT = 0, 1, 124
"""Exit statuses of waiting commands: all tasks finished; failed, stopped or abandoned; time-out."""
FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.25
TIMEOUT_SECONDS = 5.0
"""Time a store may be unavailable during a wait."""
ONE_BY_ONE = 64
"""Number of jobs above which all jobs are read in one call."""
T = TypeVar("T")


def patiently(call: Callable[[], T]) -> T:
    """Return what `call` returns, trying again while the store is out of reach; raises Unreachable in the end."""
    limit = time.monotonic() + TIMEOUT_SECONDS
    while True:
        try:
            return call()
        except Unreachable:
            if time.monotonic() >= limit:
                raise
            time.sleep(LONGEST_PAUSE)


def read(cell: "Queries", ids: Sequence[str]) -> "list[Job]":
    """Return the jobs of these ids; Refused when one is no longer kept."""

    def look() -> "list[Job | None]":
        if len(ids) <= ONE_BY_ONE:
            return [cell.job(job_id) for job_id in ids]
        by_id = {job.id: job for job in cell.jobs()}
        return [by_id.get(job_id) for job_id in ids]

    jobs = []
    for job_id, job in zip(ids, patiently(look), strict=True):
        if job is None:
            raise Refused(f"job {job_id}: ended long ago, cell {cell.name} does not keep it any more")
        jobs.append(job)
    return jobs


def watch(
    cell: "Queries", ids: Sequence[str], see: "Callable[[Sequence[Job]], None]", seconds: float | None = None
) -> "list[Job]":
    """Pass the jobs to `see` repeatedly until all have ended, or for at most `seconds`; returns their last state."""
    limit = None if seconds is None else time.monotonic() + seconds
    known: dict[str, Job] = {}
    pause = FIRST_PAUSE
    while True:
        going = [job_id for job_id in ids if job_id not in known or not ended(known[job_id])]
        known.update((job.id, job) for job in read(cell, going))
        jobs = [known[job_id] for job_id in ids]
        see(jobs)
        if all(ended(job) for job in jobs):
            return jobs
        left = LONGEST_PAUSE if limit is None else limit - time.monotonic()
        if left <= 0:
            return jobs
        time.sleep(min(pause, left))
        pause = min(LONGEST_PAUSE, pause * 1.5)


def exit_status(jobs: "Sequence[Job]") -> int:
    """Return the exit status for the results of jobs."""
    if not all(ended(job) for job in jobs):
        return TIMED_OUT
    return FINISHED if all(state(job) == "finished" for job in jobs) else OTHERWISE


def waited_json(cell: "Queries", job: "Job", seconds: float) -> dict[str, Any]:
    """Return a job that was waited for, as plain values."""
    return {
        "cell": cell.name,
        "id": job.id,
        "name": job.name,
        "state": state(job),
        "counts": counts(job.groups),
        "timed_out": exit_status([job]) == TIMED_OUT,
        "waited_seconds": seconds,
    }
