"""Ends of tasks in the twin: ``lua/end.lua``."""

from collections.abc import Sequence

from omega.cellstate.memory.ledger import Ledger
from omega.cellstate.memory.losses import end_late
from omega.cellstate.memory.publish import publish
from omega.cellstate.memory.tasks import acknowledge, end_tasks, evict_gangs, part_of
from omega.cellstate.tasks import UNPLACING, EndKind, TaskEnd


def end(ledger: Ledger, endings: Sequence[TaskEnd], at_ms: int, by: str) -> list[int]:
    """End tasks; returns for each ending the number of tasks it ended."""
    ledger.unfold()
    ledger.open()
    ledger.lost_at = at_ms if any(ending.how in UNPLACING for ending in endings) else 0
    counts = end_each(ledger, endings)
    if any(counts):
        ledger.transactions += 1
        publish(ledger, at_ms, by)
    return counts


def end_each(ledger: Ledger, endings: Sequence[TaskEnd]) -> list[int]:
    """End tasks in any way."""
    counts = []
    for machine, placement, how, tasks, reason, job_id, submitted_ms in endings:
        m, n = ledger.M.get(machine), 0
        run = m.runs.get(-placement if how is EndKind.LEFT else placement) if m else None
        meant = ledger.J.get(job_id)
        if meant is not None and submitted_ms and meant.submitted != submitted_ms:
            meant = None
        if run is not None and job_id and (run[0].job.id != job_id or meant is None):
            pass  # a store that lost versions gives placement ids and ids of jobs again
        elif m and how is EndKind.LEFT:
            n = acknowledge(ledger, m, placement, part_of(tasks), reason)
            if n:
                ledger.trail.append(m.index)
        elif m:
            why = reason or "-"
            moves = ledger.release_moves_number
            n = end_tasks(ledger, m, placement, part_of(tasks), how, why, ledger.stamp, moves=moves)
            if ledger.strict:
                n += evict_gangs(ledger, why, ledger.stamp)
        if n == 0 and meant is not None and how in (EndKind.FINISHED, EndKind.FAILED):
            n = end_late(ledger, meant, machine, placement, part_of(tasks), how)
        counts.append(n)
    return counts
