"""Two hierarchical forms of dominant resource fairness, in fluid form: naive, and by the least satisfied descendant.

Both descend from the root to the child with the least level and serve the job at the end of the path. Jobs here take an
infinitely small amount at a time, so children of equal level rise together; between two events all usage is linear.
Source: Bhattacharya et al., Hierarchical Scheduling for Diverse Datacenter Workloads, SoCC 2013.
"""

from dataclasses import dataclass

import numpy as np

from omega.schedulers.fairshare.curves import Floats, Integers
from omega.schedulers.fairshare.tree import Tree
from omega.schedulers.fairshare.update import summed

LIGHTEST = 1e-250
"""Least product of parts of weight: far below it numbers end, and so would the order of satisfactions."""
_SAME = 1e-11
"""Levels, and amounts as shares, closer than this are equal."""


def products(tree: Tree, parts: Floats) -> Floats:
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

    def __init__(self, tree: Tree, parts: tuple[Floats, Floats], wanted: Floats, *, least_satisfied: bool) -> None:
        self.tree, self.wanted, self.least_satisfied = tree, wanted, least_satisfied
        self.jobs = tree.share(tree.table([job.usage for job in tree.jobs]))
        self.pools = summed(tree, self.jobs)
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
            self.pools = summed(self.tree, self.jobs)

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
        pools = summed(self.tree, speed)
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
