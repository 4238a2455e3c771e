"""Reports of the health of tasks in the twin: ``lua/health.lua``."""

from omega.cellstate.memory.ledger import Ledger
from omega.cellstate.memory.ranges import NONE, span_split
from omega.cellstate.model import JobState
from omega.cellstate.tasks import DOWN_DUE, HealthAnswer, HealthReport, HealthState

Key = tuple[int, int, int]
"""Machine, placement, task."""


def report_health(ledger: Ledger, report: HealthReport, now_ms: int, cursor: int = 0) -> HealthAnswer:
    """Keep the report of an agent about a job's tasks on its machine, and grant the end of unhealthy ones."""
    del cursor
    ledger.unfold()
    j = ledger.J.get(report.job)
    before = ledger.health.pop(report.job, {})
    granted = set[tuple[int, int]]()
    if j is not None and j.state <= JobState.HELD:
        elsewhere = {key: due for key, due in before.items() if key[0] != report.machine}
        kept = {key: due for key, due in elsewhere.items() if due <= DOWN_DUE or due > now_ms}
        own = [each for each in report.tasks if _lives(ledger, report, each.placement, each.task)]
        for placement, task, state in own:
            due = before.get((report.machine, placement, task), 0)
            if state in (HealthState.READY, HealthState.DOWN):
                kept[report.machine, placement, task] = 0 if state is HealthState.READY else DOWN_DUE
            elif due > max(now_ms, DOWN_DUE):
                kept[report.machine, placement, task] = due
                granted |= {(placement, task)} if state is HealthState.ASKS else set()
        down = sum(due > DOWN_DUE for due in kept.values()) + sum(g.delayed for g in j.groups)
        for placement, task, state in own:
            key = report.machine, placement, task
            if state is HealthState.ASKS and key not in kept and down < report.max_down:
                down += 1
                kept[key] = now_ms + report.span_ms
                granted.add((placement, task))
        if kept:
            ledger.health[report.job] = kept
    for job_id in [each for each in ledger.health if each not in ledger.J]:
        del ledger.health[job_id]
    return HealthAnswer(frozenset(granted))


def _lives(ledger: Ledger, report: HealthReport, placement: int, task: int) -> bool:
    m = ledger.M.get(report.machine)
    g, tasks = m.runs.get(placement, (None, NONE)) if m is not None and placement > 0 else (None, NONE)
    return g is not None and g.job.id == report.job and span_split(tasks, (task, task))[0] != NONE
