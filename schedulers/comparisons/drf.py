"""Dominant resource fairness: flat and weighted, fluid or task by task; FIFO; two forms for hierarchies.

Sources: Ghodsi et al., Dominant Resource Fairness, NSDI 2011; Bhattacharya et al., Hierarchical Scheduling for
Diverse Datacenter Workloads, SoCC 2013.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import omega

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
_FULL = 1e-12
LIGHTEST = 1e-250
"""Least product of parts of weight: far below it numbers end, and so would the order of satisfactions."""
_SAME = 1e-11
"""Levels, and amounts as shares, closer than this are equal."""


def fluid(demand: Floats, weight: Floats, start: Floats | None = None) -> Floats:
    """Return the part of its demand, infinitely divisible, that each user gets: shares (users, resources).

    Progressive filling: the dominant shares of all users rise in proportion to their weights until a resource
    is full; users that need it stop, the others continue. `demand`: (users, resources) as shares of the totals, at most
    which a user takes; `start`: shares held at the beginning.
    """
    given = np.zeros_like(demand) if start is None else start.astype(float).copy()
    peak = demand.max(1, initial=0.0)
    pace = demand / np.where(peak > 0, peak, 1.0)[:, None] * weight[:, None]
    level = (given / np.where(pace > 0, pace, np.inf)).max(1, initial=0.0)
    open_ = (peak > 0) & (peak - given.max(1, initial=0.0) > _FULL)
    while open_.any():
        lowest = level[open_].min()
        active = open_ & (level <= lowest + _FULL)
        speed = pace[active].sum(0)
        room = 1.0 - given.sum(0)
        if ((room <= _FULL) & (speed > 0)).any():
            open_ &= ~(active & (pace[:, room <= _FULL] > 0).any(1))
            continue
        steps = [float((room[speed > 0] / speed[speed > 0]).min())]
        steps.append(float(((peak - given.max(1)) / (pace.max(1)))[active].min()))
        ahead = level[open_ & ~active]
        if len(ahead):
            steps.append(float(ahead.min() - lowest))
        step = max(min(steps), 0.0)
        given[active] += pace[active] * step
        level[active] += step
        open_ &= peak - given.max(1) > _FULL
    return given


def task_by_task(
    totals: Floats, per_task: Floats, weight: Floats, pending: Sequence[int] | None = None
) -> tuple[list[int], list[int]]:
    """Return the tasks of each user and the order of picks: the smallest dominant share ÷ weight goes first.

    `per_task`: amounts (users, resources). A user whose next task does not fit is left out. Ties go to the first.
    """
    counts = [0] * len(per_task)
    left = totals.astype(float).copy()
    dominant = (per_task / np.where(totals > 0, totals, np.inf)).max(1)
    open_ = [index for index in range(len(per_task)) if dominant[index] > 0]
    picks = []
    while open_:
        index = min(open_, key=lambda user: counts[user] * dominant[user] / weight[user])
        wanted = pending is None or counts[index] < pending[index]
        if wanted and (per_task[index] <= left + _FULL).all():
            counts[index] += 1
            left -= per_task[index]
            picks.append(index)
        else:
            open_.remove(index)
    return counts, picks


def fifo(machines: Floats, queue: Sequence[tuple[Floats, int]]) -> list[int]:
    """Return how many tasks of each job run: jobs in order, each packed machine by machine.

    `machines`: amounts (machines, resources); one row with the sums gives the result without fragmentation.
    `queue`: amounts of one task and the number of tasks, a job each.
    """
    left = machines.astype(float).copy()
    placed = []
    for task, wanted in queue:
        used = task > 0
        fits = np.floor(left[:, used] / task[used] + _FULL).min(1) if used.any() else np.full(len(left), wanted)
        taken = np.clip(wanted - np.concatenate(([0.0], np.cumsum(fits)[:-1])), 0.0, fits)
        left -= taken[:, None] * task
        placed.append(int(taken.sum()))
    return placed


def drf(tree: "omega.pools.Tree", weights: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """Flat DRF over the jobs, a job's weight being the product of the parts of weight on its path: pools, jobs."""
    parts = _parts(tree, weights)
    paths = np.maximum(products(tree, parts[0])[tree.pool_of] * parts[1], LIGHTEST)
    jobs = fluid(_wanted(tree), paths, tree.share(tree.table([job.usage for job in tree.jobs])))
    return tree.summed(jobs), jobs


def hierarchical(
    tree: "omega.pools.Tree", weights: tuple[Floats, Floats], *, least_satisfied: bool
) -> tuple[Floats, Floats]:
    """Descend to the child with the least dominant share ÷ weight, or to that which holds the least satisfied element.

    Without `least_satisfied` a pool's dominant share may be another job's; kept to show its failure: a job that
    restarts below a pool whose sibling job is large gets nothing. With it satisfaction is dominant share ÷ product of
    the parts of weight on the path, and every pool on the path counts as well as the jobs, so each reaches at least its
    promise. Returns shares of pools and jobs.
    """
    return HierarchicalFilling(tree, _parts(tree, weights), _wanted(tree), least_satisfied=least_satisfied).run()


def _wanted(tree: "omega.pools.Tree") -> Floats:
    """Demands as shares, scaled down as a whole to fit the job's limits."""
    demand = tree.share(tree.table([job.demand for job in tree.jobs]))
    limit = tree.share(np.minimum(tree.table([job.limits for job in tree.jobs], np.inf), tree.capacity))
    part = np.where(demand > limit, limit / np.where(demand > 0, demand, 1.0), 1.0).min(1, initial=1.0)
    fitted: Floats = demand * part[:, None]
    return fitted


def _parts(tree: "omega.pools.Tree", weights: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """Each element's weight ÷ the sum of its siblings' weights, jobs and pools together."""
    pools, jobs = weights
    sums = np.zeros(len(pools))
    np.add.at(sums, tree.parents[1:], pools[1:])
    np.add.at(sums, tree.pool_of, jobs)
    part = np.ones(len(pools))
    part[1:] = pools[1:] / sums[tree.parents[1:]]
    return part, jobs / sums[tree.pool_of]


def products(tree: "omega.pools.Tree", parts: Floats) -> Floats:
    """Return the product of the parts of weight on each pool's path, at least LIGHTEST: (pools,)."""
    paths = parts.copy()
    for number in tree.downward[1:]:
        paths[number] = max(paths[number] * paths[tree.parents[number]], LIGHTEST)
    return paths


@dataclass(frozen=True)
class Growth:
    """How a pool grows when it is served.

    `level`: what it is chosen by; `rate`: how fast the level rises while its `jobs` (numbers) take `speeds` (amounts
    per time); 0: it is served alone until the level rises.
    """

    level: float
    rate: float
    jobs: Integers
    speeds: Floats


class HierarchicalFilling:
    """Progressive filling of a tree from the usage given.

    `parts`: each element's weight ÷ the sum of its siblings' weights, of pools and of jobs; `wanted`: amounts of jobs
    as shares (jobs, resources).
    """

    def __init__(
        self, tree: "omega.pools.Tree", parts: tuple[Floats, Floats], wanted: Floats, *, least_satisfied: bool
    ) -> None:
        self.tree, self.wanted, self.least_satisfied = tree, wanted, least_satisfied
        self.jobs = tree.share(tree.table([job.usage for job in tree.jobs]))
        self.pools = tree.summed(self.jobs)
        paths = products(tree, parts[0])
        self.pool_weight = paths if least_satisfied else parts[0]
        self.job_weight = np.maximum(paths[tree.pool_of] * parts[1], LIGHTEST) if least_satisfied else parts[1]
        self.members = [np.flatnonzero(tree.pool_of == number) for number in range(len(self.pools))]
        peak = wanted.max(1, initial=0.0)
        self.pace = wanted / np.where(peak > 0, peak, 1.0)[:, None]

    def run(self) -> tuple[Floats, Floats]:
        """Fill until no job can take more: shares of pools and of jobs."""
        while True:
            room = self.pools[0] < 1.0 - _SAME
            self.left = (self.wanted - self.jobs > _SAME) & (self.pace > 0)
            self.open = self.left.any(1) & (room | ~self.left).all(1)
            growth = self._growth() if self.open.any() else None
            if growth is None:
                return self.pools, self.jobs
            speed = np.zeros_like(self.jobs)
            speed[growth.jobs] = growth.speeds
            step = self._next_event(speed)
            self.jobs = self.jobs + step * speed
            self.pools = self.tree.summed(self.jobs)

    def _growth(self) -> Growth | None:
        """Return how the root grows, from the pools at the bottom up; None when no job can take more."""
        self.speed = np.where(self.left, self.pace, 0.0)
        self.level, self.rate = _own(self.jobs, self.speed, self.job_weight)
        growths: list[Growth | None] = [None] * len(self.pools)
        for number in reversed(self.tree.downward):
            children = [child for at in self.tree.subpools[number] if (child := growths[at]) is not None]
            members = self.members[number][self.open[self.members[number]]]
            if children or len(members):
                growths[number] = self._pool(number, children, members)
        return growths[0]

    def _pool(self, number: int, children: list[Growth], members: Integers) -> Growth:
        """Return how a pool grows, given how its child pools do and which of its own jobs can take more."""
        least = min(min((child.level for child in children), default=np.inf), self.level[members].min(initial=np.inf))
        active = [child for child in children if child.level <= least + _SAME]
        jobs = members[self.level[members] <= least + _SAME]
        still = [child for child in active if child.rate <= _SAME]
        waiting = jobs[self.rate[jobs] <= _SAME]
        if still:
            jobs, speeds = still[0].jobs, still[0].speeds
        elif len(waiting):
            jobs, speeds = waiting[:1], self.speed[waiting[:1]]
        else:
            own = self.speed[jobs] / self.rate[jobs][:, None]
            jobs = np.concatenate([*(child.jobs for child in active), jobs])
            speeds = np.concatenate([*(child.speeds / child.rate for child in active), own])
        weight = self.pool_weight[number : number + 1]
        levels, rates = _own(self.pools[number : number + 1], speeds.sum(0)[None], weight)
        level, rate = float(levels[0]), float(rates[0])
        below = (least, 0.0 if still or len(waiting) else 1.0)
        if self.least_satisfied and abs(level - least) <= _SAME:
            level, rate = least, min(rate, below[1])
        elif self.least_satisfied:
            level, rate = min((level, rate), below)
        return Growth(level, rate, jobs, speeds)

    def _next_event(self, speed: Floats) -> float:
        """Return the time until a resource or a demand is used up, a dominant resource changes or two levels meet."""
        pools = self.tree.summed(speed)
        times = [_until(1.0 - self.pools[0], pools[0]), _until(self.wanted - self.jobs, speed)]
        for held, rise in ((self.pools, pools), (self.jobs, speed)):
            gap = held.max(1, keepdims=True) - held
            lead = np.where(gap <= _SAME, rise, -np.inf).max(1, keepdims=True)
            times.append(_until(gap, rise - lead))
        return min([*times, *self._meetings(speed, pools)])

    def _meetings(self, speed: Floats, pools: Floats) -> list[float]:
        """Return for each pool the time until one of its children reaches the level of another."""
        level, rate = _own(self.jobs, speed, self.job_weight)
        pool_level, pool_rate = _own(self.pools, pools, self.pool_weight)
        lowest: list[tuple[float, float] | None] = [None] * len(self.pools)
        times = []
        for number in reversed(self.tree.downward):
            members = self.members[number][self.open[self.members[number]]]
            pairs: list[tuple[float, float]] = []
            for child in self.tree.subpools[number]:
                below = lowest[child]
                if below is not None:
                    mine = (float(pool_level[child]), float(pool_rate[child]))
                    pairs += [mine, below] if self.least_satisfied else [mine]
            inner = np.array(pairs, float).reshape(len(pairs), 2)
            levels = np.concatenate((level[members], inner[:, 0]))
            rates = np.concatenate((rate[members], inner[:, 1]))
            if len(levels):
                first = np.lexsort((rates, levels))[0]
                lowest[number] = (float(levels[first]), float(rates[first]))
                times.append(_meeting(levels, rates))
        return times


def _own(held: Floats, speed: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Return dominant share ÷ weight of each element and how fast it rises."""
    top = held.max(1, initial=0.0)
    rise = np.where(held >= top[:, None] - _SAME, speed, 0.0).max(1, initial=0.0)
    return top / weight, rise / weight


def _until(gap: Floats, speed: Floats) -> float:
    """Return the least time in which one of the gaps closes, of those that are open."""
    closing = (speed > _SAME) & (gap > _SAME)
    return float((gap[closing] / speed[closing]).min(initial=np.inf))


def _meeting(levels: Floats, rates: Floats) -> float:
    """Return the least time in which a rising level reaches a higher one that rises more slowly.

    Of rising levels of one rate the next lower one is the first to arrive.
    """
    rising = np.flatnonzero(rates > 0)
    times = [np.inf]
    groups = np.round(rates[rising] / rates.max(initial=_SAME), 11)
    for group in np.unique(groups):
        same = rising[groups == group]
        same = same[np.argsort(levels[same], kind="stable")]
        before = np.searchsorted(levels[same], levels - _SAME, "left") - 1
        some = before >= 0
        nearest = same[before[some]]
        times.append(_until(levels[some] - levels[nearest], rates[nearest] - rates[some]))
    return min(times)
