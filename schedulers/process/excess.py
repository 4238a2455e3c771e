"""Evictions because a machine holds more than its capacity, a pool more than its limits, or a gang lost tasks.

Settings of pools permit it (`evict_over_capacity`, `evict_over_limit`). Victims have the lowest precedence,
and of equals the newest go first, no more than needed. The choice depends on the state of the cell alone, and ending a
task twice has no effect, so several processes may do the same at once.
"""

from dataclasses import dataclass, field

import numpy as np

from omega.cellstate.cell import Cell
from omega.cellstate.fairness import leaf_of
from omega.cellstate.pools import Epoch, Leaf, Pools
from omega.cellstate.snapshot import Resident, Snapshot
from omega.schedulers.constraints.fetching import residents_on
from omega.schedulers.over_limit import end_victims, fewest, over_limit, total_of
from omega.schedulers.preemption.victims import Victim

OVER_SECONDS = 10.0
"""Time in seconds for which a machine may exceed its capacity before tasks are evicted."""
MOST_JOBS, MOST_MACHINES = 1_000, 500
"""Maximum number of jobs, and of machines, that one look for victims reads."""


@dataclass(slots=True)
class Excess:
    """Looks for excess, and follows since when machines hold too much (seconds)."""

    _since: dict[int, float] = field(default_factory=dict)
    _half: dict[str, float] = field(default_factory=dict)
    """Since when gangs have both running and pending tasks, having held more before, by job."""
    _most: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """The most that each gang held since it was whole, as far as this process saw; one that only grew holds no less."""

    def relieve(self, cell: Cell, snapshot: Snapshot, now: float, by: str) -> int:
        """Evict the excess; return the number of tasks that are pending again."""
        pools, epoch = snapshot.pools, snapshot.epoch
        if not pools.configured:
            return 0
        count = 0
        for reason, victims in (
            ("over", self._over_capacity(cell, snapshot, now)),
            ("limit", () if epoch is None else over_limits(cell, pools, epoch, now)),
            ("gang", () if epoch is None else self._half_gangs(cell, pools, epoch, now)),
        ):
            count += end_victims(cell, victims, reason, now, by)
        return count

    def _half_gangs(self, cell: Cell, pools: Pools, epoch: Epoch, now: float) -> list[Victim]:
        """Return the rest of gangs that lost tasks and were not repaired in time; one that runs once is left alone."""
        leaves = [leaf for each in epoch.leaves.values() for leaf in each if leaf.gang and any(leaf.usage)]
        self._most = {
            leaf.jobs[0]: usage if usage == tuple(leaf.demand) else max(usage, self._most.get(leaf.jobs[0], usage))
            for leaf in leaves
            for usage in (tuple(leaf.usage),)
        }
        half = {leaf.jobs[0]: leaf.pool for leaf in leaves if tuple(leaf.usage) < self._most[leaf.jobs[0]]}
        half |= {leaf.jobs[0]: leaf.pool for each in epoch.leaves.values() for leaf in each if _below_minimum(leaf)}
        self._half = {job: self._half.get(job, now) for job in half}
        timeouts = {job: pools.preemption(pool).gang_timeout for job, pool in half.items()}
        due = [job for job, most in timeouts.items() if most is not None and now - self._half[job] >= most]
        jobs = cell.jobs.by_id(due[:MOST_JOBS]) if due else {}
        torn = {
            name: job
            for name, job in jobs.items()
            if any(group.placed for group in job.groups)
            and any(group.unplaced and not group.optional for group in job.groups)
            and not any(group.once for group in job.groups)
        }
        machines = {at for job in torn.values() for group in job.groups for _, at, leaving in group.runs if not leaving}
        return [Victim(each, each.tasks) for each in residents_on(sorted(machines), cell, now) if each.job in torn]

    def _over_capacity(self, cell: Cell, snapshot: Snapshot, now: float) -> list[Victim]:
        if not any(_allows(snapshot.pools, name, "evict_over_capacity") for name in ("", *snapshot.pools.by_name)):
            return []
        rows = snapshot.allocated - snapshot.capacity
        over = set(np.flatnonzero((rows > 0).any(axis=0) & snapshot.allocated.any(axis=0)).tolist())
        self._since = {machine: self._since.get(machine, now) for machine in over}
        due = sorted(machine for machine, since in self._since.items() if now - since >= OVER_SECONDS)[:MOST_MACHINES]
        may_go: dict[int, list[Resident]] = {}
        for each in residents_on(due, cell, now):
            if _allows(snapshot.pools, _leaf(each), "evict_over_capacity"):
                may_go.setdefault(each.machine, []).append(each)
        chosen = (fewest(here, (0, *map(int, rows[:, machine]))) for machine, here in may_go.items())
        return [victim for victims in chosen for victim in victims]


def _below_minimum(leaf: Leaf) -> bool:
    """Return whether a gang with a minimum runs with fewer tasks: it was placed with as many at least."""
    holds = zip(leaf.demand, leaf.usage, strict=True)
    return leaf.least > 0 and any(leaf.usage) and any(has + 0.5 < leaf.least * want for want, has in holds)


def over_limits(cell: Cell, pools: Pools, epoch: Epoch, now: float) -> list[Victim]:
    """Return the tasks that bring pools back to their limits, where their settings permit it."""
    excess = {
        name: [
            0 if most is None else has - most
            for most, has in zip(use.limits, (use.jobs, use.tasks, *use.amounts), strict=True)
        ]
        for name, use in cell.pools.use().items()
        if _allows(pools, name, "evict_over_limit")
    }
    victims: list[Victim] = []
    for name in sorted(excess, key=lambda each: -len(pools.path(each))):  # sub-pools first: their parents gain as well
        gone = [each for each in victims if name in _path(pools, _leaf(each.resident))]
        jobs, *amounts = excess[name]
        lacking = [more - less for more, less in zip(amounts, total_of(gone) or [0] * len(amounts), strict=True)]
        if jobs > 0 or any(more > 0 for more in lacking):
            below = _residents_of(cell, pools, epoch, name, now)
            left = [each for each in below if each.job not in {victim.resident.job for victim in gone}]
            victims += over_limit(left, (jobs, *lacking))
    return victims


def _allows(pools: Pools, name: str, setting: str) -> bool:
    return bool(getattr(pools.preemption(name), setting))


def _leaf(resident: Resident) -> str:
    return leaf_of(resident.pool, resident.user)


def _path(pools: Pools, leaf: str) -> list[str]:
    return [pool.name for pool in pools.path(leaf) or pools.path(pools.parent_of(leaf))]


def _residents_of(cell: Cell, pools: Pools, epoch: Epoch, name: str, now: float) -> list[Resident]:
    """The running tasks of the jobs below a pool, as the epoch knows them; the newest jobs where there are many."""
    ids = [
        job
        for leaves in epoch.leaves.values()
        for leaf in leaves
        if any(leaf.usage) and name in _path(pools, leaf.pool)
        for job in leaf.jobs
    ][-MOST_JOBS:]
    jobs = cell.jobs.by_id(ids)
    runs = (run for job in jobs.values() for group in job.groups for run in group.runs)
    machines = {machine for _, machine, leaving in runs if not leaving}
    return [each for each in residents_on(sorted(machines), cell, now) if each.job in jobs]
