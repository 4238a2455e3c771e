"""Requests for copies of tasks in the twin: ``lua/speculate.lua``."""

from collections.abc import Sequence

from omega.cellstate.memory.ledger import Ledger
from omega.cellstate.memory.losses import keep_losses
from omega.cellstate.memory.publish import publish
from omega.cellstate.memory.ranges import span_add, span_split
from omega.cellstate.memory.records import GroupRow, LossRow
from omega.cellstate.model import JobState, check_author
from omega.cellstate.replies import Budget, Original


def speculate(
    ledger: Ledger, job_id: str, originals: Sequence[Original], budget: Budget, at_ms: int, by: str
) -> list[Original]:  # fmt: skip
    """Add copies of running tasks, which then wait; returns these tasks."""
    check_author(by)
    ledger.unfold()
    j, added = ledger.J.get(job_id), list[Original]()
    if j is None or j.complete:
        ledger.copied.pop(job_id, None)
    if j is None or j.state is not JobState.ACTIVE:
        return added
    ledger.open()
    left = min(budget.cell - live_copies(ledger), budget.job - sum(g.total for g in j.groups if g.copies))
    for original in originals:
        machine, placement, task = original
        g = _running(ledger, job_id, machine, placement, task)
        if g is None or len(added) >= left:
            continue
        c = j.groups[g.number + 1]
        keep_losses(c, [*c.losses, LossRow((task, task), 0, 0, placement, failures=1, machine=machine)])
        c.waiting, c.indices = span_add(c.waiting, (task, task)), g.indices
        c.total, c.unplaced, j.unplaced = c.total + 1, c.unplaced + 1, j.unplaced + 1
        ledger.touch_job(j)
        j.returned = True
        ledger.fact("speculate", j.id, c.number, (task, task))
        added.append(original)
    if added:
        publish(ledger, at_ms, by)
    return added


def live_copies(ledger: Ledger) -> int:
    """Return the number of copies in the cell."""
    return sum(g.total for j in ledger.J.values() for g in j.groups if g.copies)


def _running(ledger: Ledger, job_id: str, machine: int, placement: int, task: int) -> GroupRow | None:
    """Return the group of a task that runs as this placement and may get a copy."""
    m = ledger.M.get(machine)
    run = m.runs.get(placement) if m and placement > 0 else None
    if run is None or run[0].job.id != job_id or run[0].copies or not span_split(run[1], (task, task))[0]:
        return None
    g, groups = run[0], run[0].job.groups
    if g.number + 1 == len(groups) or not groups[g.number + 1].copies:
        return None
    return None if any(loss.tasks == (task, task) for loss in groups[g.number + 1].losses) else g
