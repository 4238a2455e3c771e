"""Reasons that hold jobs of the twin back, and their end; ``lua/parts/links.lua``."""

from omega.cellstate.memory.ledger import Ledger
from omega.cellstate.memory.ranges import NONE
from omega.cellstate.memory.records import JobRow
from omega.cellstate.model import JobState


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
    """Return whether an ended job finished: all its tasks did, and it was not stopped."""
    stopped = j.state in (JobState.STOPPED, JobState.ABANDONED)
    return not stopped and all(g.finished == g.total for g in j.groups)


def stop_unplaced(j: JobRow) -> int:
    """Stop the unplaced tasks of a job, also delayed ones. Returns their number."""
    count = j.unplaced + j.delayed
    for g in j.groups:
        g.stopped += g.unplaced + g.delayed
        g.unplaced, g.delayed, g.waiting, g.losses = 0, 0, NONE, []
    j.unplaced = j.delayed = 0
    return count


def give_up(ledger: Ledger, j: JobRow, awaited: JobRow) -> None:
    """Stop a job with a dependency that can no longer be satisfied; its record keeps that dependency."""
    count = stop_unplaced(j)
    j.state = JobState.STOPPED
    ledger.fact("stop", j.id, count, f"after:{awaited.id}")


def end_waits(ledger: Ledger) -> None:
    """End the waits of jobs for jobs that ended in this call: they are released or stopped."""
    todo = list(ledger.changed_jobs)
    for j in todo:
        if j.unplaced or j.placed or j.delayed:
            continue
        well = finished(j)
        for other in (ledger.J[job_id] for job_id in j.awaited if job_id in ledger.J):
            end_wait(ledger, other, j, todo, well=well)
        j.awaited = []


def end_wait(ledger: Ledger, other: JobRow, j: JobRow, todo: list[JobRow], *, well: bool) -> None:
    """Process the end of a job for one that waits, or waited, for it."""
    met = {f"{j.id}+", j.id}
    if other.state is not JobState.HELD or met.isdisjoint(other.waits):
        return
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
