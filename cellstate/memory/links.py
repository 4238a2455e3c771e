"""Reasons that hold jobs of the twin back, and their end; ``lua/parts/links.lua``."""

from collections.abc import Iterable
from itertools import islice

from omega.cellstate.memory.copies import remove
from omega.cellstate.memory.ledger import Ledger
from omega.cellstate.memory.ranges import NONE
from omega.cellstate.memory.records import JobRow
from omega.cellstate.model import JobState

RELEASES = 200
"""Jobs that one call releases or stops because others ended."""


def modify(ledger: Ledger, j: JobRow) -> None:
    """Record a change by a user: the modify index is the version of this call."""
    j.modified = ledger.version + 1
    ledger.touch_job(j)


def gate_of(j: JobRow) -> str:
    """Return why the gate of its scheduler holds a job; "" when it does not."""
    return next((wait[1:] for wait in j.waits if wait[0] == "!"), "")


def set_free(ledger: Ledger, j: JobRow) -> None:
    """Release a job that nothing holds back: it becomes pending again."""
    ledger.touch_job(j)
    j.state, j.returned = JobState.ACTIVE, True


def finished(j: JobRow) -> bool:
    """Return whether an ended job finished: all tasks of its present version did, and it was not stopped."""
    stopped = j.state in (JobState.STOPPED, JobState.ABANDONED)
    return not stopped and all(g.finished + g.failed * g.replaced == g.total for g in j.groups)


def stop_unplaced(ledger: Ledger, j: JobRow) -> int:
    """Stop the unplaced tasks of a job, also delayed ones. Returns their number."""
    for g in j.groups:
        if g.copies and g.unplaced:
            remove(ledger, g, g.waiting)
    count = j.unplaced + j.delayed
    for g in j.groups:
        if g.copies:
            continue
        g.stopped += g.unplaced + g.delayed
        g.unplaced, g.delayed, g.waiting, g.losses = 0, 0, NONE, []
    j.unplaced = j.delayed = 0
    return count


def give_up(ledger: Ledger, j: JobRow, awaited: JobRow) -> None:
    """Stop a job with a dependency that can no longer be satisfied; its record keeps that dependency."""
    count = stop_unplaced(ledger, j)
    j.state = JobState.STOPPED
    ledger.fact("stop", j.id, count, f"after:{awaited.id}")


def end_waits(ledger: Ledger, before: Iterable[JobRow]) -> None:
    """End the waits of jobs for jobs that ended in this call, or `before` it: they are released or stopped.

    At most RELEASES of them; housekeeping continues.
    """
    left, met = RELEASES, list[tuple[str, str]]()
    todo = [*before, *(j for j in ledger.changed_jobs if not (j.complete or j.unplaced or j.placed or j.delayed))]
    for j in todo:
        if not j.complete:  # it waits no longer, however it ended
            met += [(wait.rstrip("+"), j.id) for wait in j.waits]
        if j.awaited and left:
            ids = list(islice(ledger.waiters.get(j.id, ()), left))
            release_waiters(ledger, j, ids, todo)
            met += [(j.id, job_id) for job_id in ids]
            j.awaited, left = len(ids) == left, left - len(ids)
            if not j.awaited:
                ledger.touch_job(j)
        if j.awaited:
            ledger.releasing.append(j.id)
    for job_id, waiter in met:
        waiters = ledger.waiters.get(job_id, {})
        waiters.pop(waiter, None)
        if not waiters:
            ledger.waiters.pop(job_id, None)


def release_waiters(ledger: Ledger, j: JobRow, ids: Iterable[str], todo: list[JobRow]) -> None:
    """Release or stop jobs that wait for one that ended."""
    well = finished(j)
    for job_id in ids:
        end_wait(ledger, ledger.J[job_id], j, todo, well=well)


def end_wait(ledger: Ledger, other: JobRow, j: JobRow, todo: list[JobRow], *, well: bool) -> None:
    """Process the end of a job for one that waits for it."""
    if other.state is not JobState.HELD:  # stopped by this call, because of another job
        return
    met = {f"{j.id}+", j.id}
    never = j.id in other.waits and not well
    ledger.touch_job(other)
    other.waits = [wait for wait in other.waits if wait not in met or (never and wait == j.id)]
    if never:
        give_up(ledger, other, j)
        todo.append(other)
    elif not other.waits:
        set_free(ledger, other)
        ledger.fact("release", other.id, j.id)
    else:
        ledger.fact("met", other.id, j.id)
