"""The orderings of Hadoop: its Fair Scheduler, Algorithm 1 (fewest running tasks), and its FIFO with five priorities.

Source: Zaharia et al., EuroSys 2010 (docs/hadoop.md).
"""

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from omega.cellstate.fairness import leaf_of
from omega.cellstate.job_demands import weight_of
from omega.cellstate.override import override
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.usage import Usage, Whose
from omega.schedulers.fairshare.hadoop_pools import HadoopPools
from omega.schedulers.policies import Ordering
from omega.schedulers.work import Work

PRIORITIES = 5
"""Priorities of Hadoop: very low, low, normal, high, very high; precedences 0 to 4, and 4 above that."""
_TIMES = tuple(2.0**priority for priority in range(PRIORITIES))
"""By which each priority multiplies the weight of a job."""
_BELOW_MINIMUM = -2.0
"""Added to the ratio (0 to 1) of a pool below its minimum share: it comes before all others."""


@dataclass(slots=True)
class HadoopFair(Ordering):
    """Pools below their minimum share first, then the pool that holds least ÷ weight; jobs of a pool fair or FIFO.

    The pools are those of the cell: weight, guarantee (minimum share) and mode of each leaf pool. Of pools below their
    minimum shares the one with the smallest part of it comes first; of the others the one with the smallest dominant
    share ÷ weight. In a fair pool the job with the fewest running tasks ÷ weight comes first, in a FIFO pool the one
    of the highest priority, then by submission. Each priority doubles the weight of a job.
    """

    uses_pools: ClassVar[bool] = True
    reads: ClassVar[tuple[str, ...]] = ()
    _pools: HadoopPools = field(default_factory=HadoopPools, repr=False)
    _usage: Usage | None = field(default=None, repr=False)
    _changed: bool = field(default=True, repr=False)
    """Whether the settings are others than at the last look."""

    @override
    def observe(self, snapshot: Snapshot, now: float) -> None:
        before, self._usage = self._pools, snapshot.usage
        self._pools = before.seen_by(snapshot)
        self._changed = self._pools is not before

    @property
    @override
    def warnings(self) -> Sequence[str]:
        return self._pools.warnings

    @override
    def lane(self, work: Work) -> Hashable:
        return leaf_of(*work.whose)

    @override
    def rank(self, lane: Hashable) -> float:
        leaf, usage = str(lane), self._usage
        if usage is None:
            return 0.0
        held = usage.of_leaf(leaf)
        ratio = self._pools.minimum_ratio(leaf, held)
        if ratio is not None and ratio < 1.0:
            return _BELOW_MINIMUM + ratio
        share = 0.0
        for has, most in zip(held, usage.capacity, strict=True):
            if most and has > share * most:
                share = has / most
        return share / self._pools.weight(leaf)

    @override
    def key(self, work: Work) -> float:
        if self._pools.is_fifo(leaf_of(*work.whose)):
            return -float(priority(work))
        return running(work) / (weight_of(work.job.spec) * _TIMES[priority(work)])

    @override
    def kin(self, lane: Hashable) -> Hashable:
        # The rank of a pool follows from what it holds.
        return lane

    @override
    def touched(self, whose: Collection[Whose]) -> Collection[Hashable] | None:
        return None if self._changed else {leaf_of(*each) for each in whose}


@dataclass(frozen=True, slots=True)
class FewestRunning(Ordering):
    """Algorithm 1: the job with the fewest running tasks comes first, whatever its pool."""

    reads: ClassVar[tuple[str, ...]] = ()

    @override
    def key(self, work: Work) -> float:
        return float(running(work))


@dataclass(frozen=True, slots=True)
class HadoopFifo(Ordering):
    """Hadoop's default: five priorities, then first in, first out. Precedences above 4 count as 4."""

    reads: ClassVar[tuple[str, ...]] = ()

    @override
    def lane(self, work: Work) -> Hashable:
        return priority(work)

    @override
    def rank(self, lane: Hashable) -> float:
        return -float(lane) if isinstance(lane, int) else 0.0


def priority(work: Work) -> int:
    """Return the priority of a job, from 0 (very low) to 4 (very high)."""
    return min(work.job.precedence, PRIORITIES - 1)


def running(work: Work) -> int:
    """Return how many tasks of a job run, with those that its next attempt may place."""
    count = sum(map(work.holds, range(len(work.left))))
    return count + sum(work.admitted) if work.admitted else count
