"""Two hierarchical forms of dominant resource fairness, in fluid form: naive, and by the least satisfied descendant.

Both descend from the root to the child with the least level and serve the job at the end of the path. Jobs here take an
infinitely small amount at a time, so children of equal level rise together; between two events all usage is linear.
Source: Bhattacharya et al., Hierarchical Scheduling for Diverse Datacenter Workloads, SoCC 2013.
"""

from dataclasses import dataclass

import numpy as np

from schedulers.fairshare.curves import Floats
from schedulers.fairshare.tree import Tree
from schedulers.fairshare.update import summed

_SAME = 1e-11
"""Levels, and amounts as shares, closer than this are equal."""


@dataclass(frozen=True)
class Growth:
    """How an element grows when it is served.

    `level`: what it is chosen by; `rate`: how fast the level rises while its jobs take `jobs` (job → amounts per
    time); 0: it is served alone until the level rises.
    """

    level: float
    rate: float
    jobs: dict[int, Floats]


class HierarchicalFilling:
    """Progressive filling of a tree from the usage given.

    `parts`: each element's weight ÷ the sum of its siblings' weights, of pools and of jobs; `wanted`: amounts of jobs
    as shares (jobs, resources).
    """

    def __init__(self, tree: Tree, parts: tuple[Floats, Floats], wanted: Floats, *, least_satisfied: bool) -> None:
        self.tree, self.wanted, self.least_satisfied = tree, wanted, least_satisfied
        self.jobs = tree.share(tree.table([job.usage for job in tree.jobs]))
        self.pools = summed(tree, self.jobs)
        paths = np.array([float(np.prod(parts[0][tree.path(number)])) for number in range(len(self.pools))])
        self.pool_weight = paths if least_satisfied else parts[0]
        self.job_weight = paths[tree.pool_of] * parts[1] if least_satisfied else parts[1]
        self.members: list[list[int]] = [[] for _ in self.pools]
        for index, number in enumerate(tree.pool_of.tolist()):
            self.members[number].append(index)
        peak = wanted.max(1, initial=0.0)
        self.pace = wanted / np.where(peak > 0, peak, 1.0)[:, None]

    def run(self) -> tuple[Floats, Floats]:
        """Fill until no job can take more: shares of pools and of jobs."""
        while True:
            room = self.pools[0] < 1.0 - _SAME
            self.left = (self.wanted - self.jobs > _SAME) & (self.pace > 0)
            self.open = self.left.any(1) & (room | ~self.left).all(1)
            growth = self._pool(0) if self.open.any() else None
            if growth is None:
                return self.pools, self.jobs
            speed = np.zeros_like(self.jobs)
            for index, each in growth.jobs.items():
                speed[index] = each
            step = self._next_event(speed)
            self.jobs = self.jobs + step * speed
            self.pools = summed(self.tree, self.jobs)

    def _pool(self, number: int) -> Growth | None:
        """Return how a pool grows; None when none of its jobs can take more."""
        grown = [self._pool(child) for child in self.tree.subpools[number]]
        grown += [self._job(index) for index in self.members[number] if self.open[index]]
        children = [child for child in grown if child is not None]
        if not children:
            return None
        least = min(child.level for child in children)
        active = [child for child in children if child.level <= least + _SAME]
        alone = next((child for child in active if child.rate <= _SAME), None)
        jobs: dict[int, Floats] = {}
        for child in [alone] if alone else active:
            jobs |= {index: each / (child.rate if alone is None else 1.0) for index, each in child.jobs.items()}
        own = _own(self.pools[number], np.sum(list(jobs.values()), axis=0), float(self.pool_weight[number]))
        below = (least, 0.0 if alone else 1.0)
        if not self.least_satisfied:
            level, rate = own
        elif abs(own[0] - least) <= _SAME:
            level, rate = least, min(own[1], below[1])
        else:
            level, rate = min(own, below)
        return Growth(level, rate, jobs)

    def _job(self, index: int) -> Growth:
        speed = np.where(self.left[index], self.pace[index], 0.0)
        level, rate = _own(self.jobs[index], speed, float(self.job_weight[index]))
        return Growth(level, rate, {index: speed})

    def _next_event(self, speed: Floats) -> float:
        """Return the time until a resource or a demand is used up, a dominant resource changes or two levels meet."""
        pools = summed(self.tree, speed)
        times = [_until(1.0 - self.pools[0], pools[0]), _until(self.wanted - self.jobs, speed)]
        lines = self._lines(speed, pools)
        times += [_until(held.max() - held, rise - rise[held >= held.max() - _SAME].max()) for held, rise in lines[0]]
        for levels, rates in lines[1]:
            times += [_until(levels - levels[at], rates[at] - rates) for at in np.flatnonzero(rates > 0)]
        return min(times)

    def _lines(self, speed: Floats, pools: Floats) -> tuple[list[tuple[Floats, Floats]], list[tuple[Floats, Floats]]]:
        """Return usage and its speed of all growing elements, and levels and their speeds of those compared."""
        usage = [*zip(self.pools, pools, strict=True), *zip(self.jobs, speed, strict=True)]
        growing = [(held, rise) for held, rise in usage if rise.any()]
        compared: list[tuple[Floats, Floats]] = []

        def visit(number: int) -> list[tuple[float, float]]:
            members = [index for index in self.members[number] if self.open[index]]
            own = [_own(self.jobs[index], speed[index], float(self.job_weight[index])) for index in members]
            for child in self.tree.subpools[number]:
                below = visit(child)
                if below:
                    mine = _own(self.pools[child], pools[child], float(self.pool_weight[child]))
                    own += [mine, min(below)] if self.least_satisfied else [mine]
            if own:
                compared.append((np.array([level for level, _ in own]), np.array([rate for _, rate in own])))
            return own

        visit(0)
        return growing, compared


def _own(held: Floats, speed: Floats, weight: float) -> tuple[float, float]:
    """Return dominant share ÷ weight and how fast it rises."""
    top = float(held.max(initial=0.0))
    rise = float(speed[held >= top - _SAME].max(initial=0.0)) if len(held) else 0.0
    return top / weight, rise / weight


def _until(gap: Floats, speed: Floats) -> float:
    """Return the least time in which one of the gaps closes, of those that are open."""
    closing = (speed > _SAME) & (gap > _SAME)
    return float((gap[closing] / speed[closing]).min(initial=np.inf))
