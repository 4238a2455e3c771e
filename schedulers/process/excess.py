"""Evictions because a machine holds more than its capacity, a pool more than its limits, or a gang lost tasks.

Pools say whether their tasks may go (`evict_over_capacity`, `evict_over_limit`). Victims have the lowest precedence,
and of equals the newest go first, no more than needed. The choice depends on the state of the cell alone, and ending a
task twice has no effect, so several processes may do the same at once.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from cellstate.fairness import leaf_of
from cellstate.pool_records import PoolUse
from cellstate.pools import Epoch, Pools
from cellstate.ports import SchedulerStore
from cellstate.ranges import tail
from cellstate.residents import Resident
from cellstate.snapshot import Snapshot
from cellstate.transaction import Ending, How
from schedulers.constraints.fetching import residents_on

OVER_SECONDS = 10.0
"""How long a machine holds more than its capacity before tasks are evicted."""
MOST_JOBS, MOST_MACHINES = 1_000, 500
"""Maximum number of jobs, and of machines, that one look for victims reads."""


class _Victim(NamedTuple):
    resident: Resident
    number: int

    @property
    def amounts(self) -> tuple[int, ...]:
        """Tasks, then amounts by resource, that go."""
        tasks = self.resident.together or self.number
        return tasks, *(amount * tasks for amount in self.resident.need)


@dataclass(slots=True)
class Excess:
    """Looks for excess, and follows since when machines hold too much (seconds)."""

    _since: dict[int, float] = field(default_factory=dict)
    _half: dict[str, float] = field(default_factory=dict)
    """Since when gangs have both running and pending tasks, having held more before, by job."""
    _most: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """The most that each gang held since it was whole, as far as this process saw; one that only grew holds no less."""

    def relieve(self, cell: SchedulerStore, snapshot: Snapshot, now: float, by: str) -> int:
        """Evict what is too much; return the number of tasks that are pending again."""
        pools, epoch = snapshot.pools, snapshot.epoch
        if not pools.configured:
            return 0
        count = 0
        for reason, victims in (
            ("over", self._over_capacity(cell, snapshot, now)),
            ("limit", () if epoch is None else over_limits(cell, pools, epoch, now)),
            ("gang", () if epoch is None else self._half_gangs(cell, pools, epoch, now)),
        ):
            count += _end(cell, victims, reason, now, by)
        return count

    def _half_gangs(self, cell: SchedulerStore, pools: Pools, epoch: Epoch, now: float) -> list[_Victim]:
        """Return the rest of gangs that lost tasks and were not repaired in time; one that runs once is left alone."""
        leaves = [leaf for each in epoch.leaves.values() for leaf in each if leaf.gang and any(leaf.usage)]
        self._most = {
            leaf.jobs[0]: usage if usage == tuple(leaf.demand) else max(usage, self._most.get(leaf.jobs[0], usage))
            for leaf in leaves
            for usage in (tuple(leaf.usage),)
        }
        half = {leaf.jobs[0]: leaf.pool for leaf in leaves if tuple(leaf.usage) < self._most[leaf.jobs[0]]}
        self._half = {job: self._half.get(job, now) for job in half}
        timeouts = {job: pools.preemption(pool).gang_timeout for job, pool in half.items()}
        due = [job for job, most in timeouts.items() if most is not None and now - self._half[job] >= most]
        jobs = cell.jobs_by_id(due[:MOST_JOBS]) if due else {}
        torn = {
            name: job
            for name, job in jobs.items()
            if any(group.placed for group in job.groups)
            and any(group.unplaced and not group.optional for group in job.groups)
            and not any(group.once for group in job.groups)
        }
        machines = {at for job in torn.values() for group in job.groups for _, at, leaving in group.runs if not leaving}
        return [_Victim(each, each.tasks) for each in residents_on(sorted(machines), cell, now) if each.job in torn]

    def _over_capacity(self, cell: SchedulerStore, snapshot: Snapshot, now: float) -> list[_Victim]:
        if not any(_allows(snapshot.pools, name, "evict_over_capacity") for name in ("", *snapshot.pools.by_name)):
            return []
        rows = snapshot.allocated - snapshot.capacity
        over = set(np.flatnonzero((rows > 0).any(axis=0) & snapshot.allocated.any(axis=0)).tolist())
        self._since = {machine: self._since.get(machine, now) for machine in over}
        due = sorted(machine for machine, since in self._since.items() if now - since >= OVER_SECONDS)[:MOST_MACHINES]
        found = []
        for resident_list in _by_machine(residents_on(due, cell, now)).values():
            machine = resident_list[0].machine
            may_go = [each for each in resident_list if _allows(snapshot.pools, _leaf(each), "evict_over_capacity")]
            found += _fewest(may_go, (0, *map(int, rows[:, machine])))
        return found


def over_limits(cell: SchedulerStore, pools: Pools, epoch: Epoch, now: float) -> list[_Victim]:
    """Return the tasks that bring pools back to their limits, where the pools say so."""
    excess = {
        name: [0 if most is None else has - most for most, has in zip(use.limits, _held(use), strict=True)]
        for name, use in cell.pool_use().items()
        if _allows(pools, name, "evict_over_limit")
    }
    found: list[_Victim] = []
    for name in sorted(excess, key=lambda each: -len(pools.path(each))):  # sub-pools first: their parents gain as well
        gone = [each for each in found if name in _path(pools, _leaf(each.resident))]
        lacking = [more - sum(each.amounts[d] for each in gone) for d, more in enumerate(excess[name][1:])]
        jobs = excess[name][0]
        if jobs > 0 or any(more > 0 for more in lacking):
            below = _residents_of(cell, pools, epoch, name, now)
            left = [each for each in below if each.job not in {victim.resident.job for victim in gone}]
            found += _whole_jobs(left, jobs) if jobs > 0 else _fewest(left, lacking)
    return found


def _held(use: PoolUse) -> tuple[int, ...]:
    return use.jobs, use.tasks, *use.amounts


def _allows(pools: Pools, name: str, setting: str) -> bool:
    return bool(getattr(pools.preemption(name), setting))


def _leaf(resident: Resident) -> str:
    return leaf_of(resident.pool, resident.user)


def _path(pools: Pools, leaf: str) -> list[str]:
    found = pools.path(leaf) or pools.path(pools.parent_of(leaf))
    return [pool.name for pool in found]


def _residents_of(cell: SchedulerStore, pools: Pools, epoch: Epoch, name: str, now: float) -> list[Resident]:
    """The running tasks of the jobs below a pool, as the epoch knows them; the newest jobs where there are many."""
    ids = [
        job
        for leaves in epoch.leaves.values()
        for leaf in leaves
        if any(leaf.usage) and name in _path(pools, leaf.pool)
        for job in leaf.jobs
    ][-MOST_JOBS:]
    jobs = cell.jobs_by_id(ids)
    runs = (run for job in jobs.values() for group in job.groups for run in group.runs)
    machines = {machine for _, machine, leaving in runs if not leaving}
    return [each for each in residents_on(sorted(machines), cell, now) if each.job in jobs]


def _importance(resident: Resident) -> tuple[int, int]:
    return resident.precedence, -resident.placement


def _fewest(residents: Iterable[Resident], excess: Sequence[int]) -> list[_Victim]:
    """Choose victims for tasks, then amounts by resource, that are too much; what turns out needless stays."""
    missing, chosen, gangs = list(excess), list[_Victim](), set[str]()
    for each in sorted(residents, key=_importance):
        unit = (1, *each.need)
        useful = [-(-lack // amount) for lack, amount in zip(missing, unit, strict=True) if lack > 0 and amount]
        if useful and each.job not in gangs:
            victim = _Victim(each, min(each.tasks, max(useful)))
            gangs |= {each.job} if each.together else set()
            chosen.append(victim)
            missing = [lack - amount for lack, amount in zip(missing, victim.amounts, strict=True)]
    return _needed(chosen, missing, excess)


def _needed(chosen: Sequence[_Victim], missing: Sequence[int], excess: Sequence[int]) -> list[_Victim]:
    """Leave out what is not needed in the end, most important first; `missing` is at most 0 where there was excess."""
    kept, spare = list[_Victim](), [-lack if more > 0 else 0 for lack, more in zip(missing, excess, strict=True)]
    for resident, count in reversed(chosen):
        tasks, size = (1, resident.together) if resident.together else (count, 1)
        unit = (size, *(amount * size for amount in resident.need))
        bound = [left // amount for left, amount, more in zip(spare, unit, excess, strict=True) if more > 0 and amount]
        stay = max(0, min([tasks, *bound]))
        spare = [left - amount * stay for left, amount in zip(spare, unit, strict=True)]
        if stay < tasks:
            kept.append(_Victim(resident, count if resident.together else count - stay))
    return kept[::-1]


def _whole_jobs(residents: Sequence[Resident], jobs: int) -> list[_Victim]:
    """Choose all tasks of the least important jobs."""
    newest: dict[str, tuple[int, int]] = {}
    for each in residents:
        newest[each.job] = min(newest.get(each.job, _importance(each)), _importance(each))
    gone = sorted(newest, key=lambda job: newest[job])[:jobs]
    return [_Victim(each, each.tasks) for each in residents if each.job in gone]


def _by_machine(residents: Iterable[Resident]) -> Mapping[int, list[Resident]]:
    found: dict[int, list[Resident]] = {}
    for each in residents:
        found.setdefault(each.machine, []).append(each)
    return found


def _end(cell: SchedulerStore, victims: Sequence[_Victim], reason: str, now: float, by: str) -> int:
    """Evict the last tasks of the runs of victims."""
    if not victims:
        return 0
    counts = {each.resident.placement: each.number for each in victims}
    runs = cell.runs(sorted({each.resident.machine for each in victims}))
    endings = [
        Ending(run.machine, run.placement, How.EVICTED, tail(run.tasks, counts[run.placement])[0], reason)
        for run in runs
        if run.placement in counts and not run.leaving
    ]
    return sum(cell.end(endings, int(now * 1000), by))
