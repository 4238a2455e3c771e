"""Victims where a kind, a pool or a machine exceeds its limit: lowest precedence first, then newest, only as needed.

Schedulers use it for pools with automatic eviction (process/excess.py), commands for limits that operators lower.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from omega.cellstate.ranges import tail
from omega.cellstate.snapshot import Resident
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.schedulers.preemption.victims import Victim

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell


def total_of(victims: Iterable[Victim]) -> list[int]:
    """Return the number of tasks of victims, then their amounts by resource; a strict gang counts once."""
    sums, gangs = list[int](), set[str]()
    for each in victims:
        if each.resident.job not in gangs:
            sums = [has + more for has, more in zip(sums or [0] * len(each.amounts), each.amounts, strict=True)]
            gangs |= {each.resident.job} if each.resident.together else set()
    return sums


def over_limit(residents: Sequence[Resident], excess: Sequence[int]) -> list[Victim]:
    """Choose victims for jobs, tasks, then amounts by resource, that are too much: whole jobs first where jobs are."""
    jobs, *amounts = excess
    chosen = whole_jobs(residents, jobs) if jobs > 0 else []
    gone = {each.resident.job for each in chosen}
    left = [more - less for more, less in zip(amounts, total_of(chosen) or [0] * len(amounts), strict=True)]
    return chosen + fewest((each for each in residents if each.job not in gone), left)


def _importance(resident: Resident) -> tuple[int, int]:
    return resident.precedence, -resident.placement


def fewest(residents: Iterable[Resident], excess: Sequence[int]) -> list[Victim]:
    """Choose victims for tasks, then amounts by resource, that are too much; what turns out needless stays."""
    missing, chosen, gangs = list(excess), list[Victim](), set[str]()
    for each in sorted(residents, key=_importance):
        unit = (1, *each.need)
        useful = [-(-lack // amount) for lack, amount in zip(missing, unit, strict=True) if lack > 0 and amount]
        if useful and each.job not in gangs:
            victim = Victim(each, min(each.tasks, max(useful)))
            gangs |= {each.job} if each.together else set()
            chosen.append(victim)
            missing = [lack - amount for lack, amount in zip(missing, victim.amounts, strict=True)]
    return _needed(chosen, missing, excess)


def _needed(chosen: Sequence[Victim], missing: Sequence[int], excess: Sequence[int]) -> list[Victim]:
    """Leave out what is not needed in the end, most important first; `missing` is at most 0 where there was excess."""
    kept, spare = list[Victim](), [-lack if more > 0 else 0 for lack, more in zip(missing, excess, strict=True)]
    for resident, count in reversed(chosen):
        tasks, size = (1, resident.together) if resident.together else (count, 1)
        unit = (size, *(amount * size for amount in resident.need))
        bound = [left // amount for left, amount, more in zip(spare, unit, excess, strict=True) if more > 0 and amount]
        stay = max(0, min([tasks, *bound]))
        spare = [left - amount * stay for left, amount in zip(spare, unit, strict=True)]
        if stay < tasks:
            kept.append(Victim(resident, count if resident.together else count - stay))
    return kept[::-1]


def whole_jobs(residents: Sequence[Resident], jobs: int) -> list[Victim]:
    """Choose all tasks of the least important jobs."""
    newest: dict[str, tuple[int, int]] = {}
    for each in residents:
        newest[each.job] = min(newest.get(each.job, _importance(each)), _importance(each))
    gone = sorted(newest, key=lambda job: newest[job])[:jobs]
    return [Victim(each, each.tasks) for each in residents if each.job in gone]


def end_victims(cell: "Cell", victims: Sequence[Victim], reason: str, now: float, by: str) -> int:
    """Evict tasks; return the number that is pending again. Ending a task twice has no effect."""
    if not victims:
        return 0
    counts = {each.resident.placement: each.number for each in victims}
    runs = cell.machines.runs(sorted({each.resident.machine for each in victims}))
    endings = [
        TaskEnd(run.machine, run.placement, EndKind.EVICTED, tail(run.tasks, counts[run.placement])[0], reason)
        for run in runs
        if run.placement in counts and not run.leaving
    ]
    return sum(cell.executors.end(endings, int(now * 1000), by))
