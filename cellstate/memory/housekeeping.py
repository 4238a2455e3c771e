"""Housekeeping of the twin: ``lua/housekeep.lua``."""

from omega.cellstate.memory.ledger import Ledger
from omega.cellstate.memory.losses import due_of, requeue
from omega.cellstate.memory.publish import publish
from omega.cellstate.memory.ranges import span_count
from omega.cellstate.memory.records import JobRow
from omega.cellstate.memory.tasks import end_tasks, live_runs
from omega.cellstate.model import JobState
from omega.cellstate.replies import Housekept
from omega.cellstate.tasks import EndKind

JOBS, TICK_MS, WEEK_MS = 100, 60_000, 604_800_000


def housekeep(ledger: Ledger, at_ms: int, by: str, most: int = 1_000) -> Housekept:
    """End tasks of stopped and abandoned jobs, at most `most` runs; queue lost tasks again (semantics 24, 26).

    Release jobs that wait for ended ones.

    `at_ms` stands for the server's time.
    """
    ledger.unfold()
    ledger.open()
    ledger.now_ms = at_ms
    tick(ledger, at_ms)
    due = sorted((when, job_id) for job_id, when in ledger.due.items() if when <= at_ms)[:JOBS]
    ids = [job_id for _, job_id in due]
    runs = [
        run
        for j in map(ledger.J.get, ids) if j is not None and j.state > JobState.HELD
        for g in j.groups for run in live_runs(ledger, g)
    ]  # fmt: skip
    ended = sum(
        end_tasks(ledger, ledger.M[index], placement, None, EndKind.STOPPED, "-", ledger.stamp)
        for placement, index in runs[:most]
    )
    queued, resumed = 0, list[JobRow]()
    for job_id in ids:
        j = ledger.J.get(job_id)
        if j is not None and j.state <= JobState.HELD:
            queued += requeue_due(ledger, j, at_ms)
        if j is not None and j.complete and j.awaited:
            resumed.append(j)
        if j is None or not (j.delayed if j.state <= JobState.HELD else j.placed):
            ledger.due.pop(job_id, None)
    if ended + queued or resumed:
        ledger.transactions += bool(ended)
        publish(ledger, at_ms, by, ended_before=resumed)
    more = len(runs) > most or len(ids) == JOBS or bool(ledger.releasing)
    return Housekept(ended, queued, more=more)


def tick(ledger: Ledger, now: int) -> None:
    """Record the last placement id of this minute; older entries are thinned out."""
    if now - (ledger.ticks[0][0] if ledger.ticks else 0) < TICK_MS:
        return
    kept = list[tuple[int, int]]()
    for at, last in reversed(((now, ledger.placements), *ledger.ticks)):
        span = TICK_MS
        while span * 16 <= now - at:
            span *= 2
        if now - at <= WEEK_MS and (not kept or at // span > kept[-1][0] // span):
            kept.append((at, last))
    ledger.ticks = tuple(reversed(kept))


def requeue_due(ledger: Ledger, j: JobRow, now: int) -> int:
    """Queue the delayed tasks of a job that are due; return their number."""
    due, count = due_of(j), 0
    for g in j.groups if due is not None and due <= now else ():
        back = requeue(ledger, g, now)
        if back:
            ledger.fact("requeue", j.id, g.number, back)
            count += span_count(back)
    return count
