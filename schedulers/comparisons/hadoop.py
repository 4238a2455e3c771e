"""The orderings of Hadoop: its Fair Scheduler, Algorithm 1 (fewest running tasks), and its FIFO with five priorities.

Source: Zaharia et al., EuroSys 2010, section 2 (docs/hadoop.md). There are two levels, pools and jobs: pools, weights
and minimum shares (guarantees) are those of the cell's leaf pools; a pool that the cell does not configure has the
weight 1 and no minimum share. Amounts are in the cell's smallest units.
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import omega

_SMALL = 1e-9
"""Part by which minimum shares are less, so that those that fill a cell fit in spite of rounding."""
PRIORITIES = 5
"""Priorities of Hadoop: very low, low, normal, high, very high; precedences 0 to 4, and 4 above that."""
_TIMES = tuple(2.0**priority for priority in range(PRIORITIES))
"""By which each priority multiplies the weight of a job."""
_BELOW_MINIMUM = -2.0
"""Added to the ratio (0 to 1) of a pool below its minimum share: it comes before all others."""


@dataclass(frozen=True)
class HadoopPools:
    """Settings of the leaf pools of a cell with `capacity`; `names` are the cell's resources in their order."""

    pools: "omega.pools.Pools" = field(default_factory=omega.pools.Pools)
    capacity: tuple[int, ...] = ()
    names: tuple[str, ...] = ()

    def seen_by(self, snapshot: omega.Snapshot) -> "HadoopPools":
        """Return the settings that a snapshot has: the same object while nothing of them changed."""
        pools, capacity = snapshot.pools, tuple(snapshot.usage.capacity)
        names = tuple(snapshot.resources) or tuple(f"resource {d}" for d in range(len(capacity)))
        if self.pools is pools and self.capacity == capacity and self.names == names:
            return self
        return HadoopPools(pools, capacity, names)

    def weight(self, leaf: str) -> float:
        """Return the weight of a leaf pool."""
        pool = self.pools.by_name.get(leaf)
        return 1.0 if pool is None or pool.weight is None else pool.weight

    def is_fifo(self, leaf: str) -> bool:
        """Return whether the jobs of a leaf pool come first in, first out."""
        pool = self.pools.by_name.get(leaf)
        return pool is not None and pool.fifo

    def minimum(self, leaf: str) -> Mapping[int, float]:
        """Return the minimum share of a leaf pool, scaled down: amounts by the place of their resource."""
        return self._minimums.get(leaf, {})

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What is not as the settings state: minimum shares that were scaled down, pools above other pools."""
        texts = [
            f"minimum shares (guarantees) of {self.names[d]} are {total} together, and the machines that are up have "
            f"{self.capacity[d]}: they are scaled by {self._factor(d):.3f}"
            for d, total in self._stated.items()
            if 0 < self.capacity[d] < total
        ]
        inner = sorted({pool.parent for pool in self.pools.pools} - {omega.pools.ROOT})
        if inner:
            texts.append(
                f"settings of {', '.join(inner)} are not in effect: the ordering has two levels, pools and jobs"
            )
        return tuple(texts)

    @cached_property
    def _stated(self) -> dict[int, int]:
        """The sum of the minimum shares as stated, by the place of their resource."""
        sums: dict[int, int] = {}
        for leaf in self.pools.leaves:
            for name, amount in self.pools.by_name[leaf].guarantee.items():
                if name in self.names and amount > 0:
                    at = self.names.index(name)
                    sums[at] = sums.get(at, 0) + amount
        return sums

    @cached_property
    def _minimums(self) -> dict[str, dict[int, float]]:
        return {
            leaf: {
                d: self.pools.by_name[leaf].guarantee.get(self.names[d], 0) * self._factor(d)
                for d in self._stated
                if self.pools.by_name[leaf].guarantee.get(self.names[d], 0) > 0
            }
            for leaf in self.pools.leaves
        }

    def _factor(self, d: int) -> float:
        return min(1.0, self.capacity[d] / self._stated[d])

    def minimum_ratio(self, leaf: str, held: Sequence[float]) -> float | None:
        """Return the largest part of its minimum share that a pool holds of a resource; None without a minimum.

        Below 1 the pool is below its minimum share. Once it has its minimum of one resource it no longer is: what its
        tasks need little of would otherwise let it take the whole cell.
        """
        minimum = self._minimums.get(leaf)
        if not minimum:
            return None
        return max((held[d] / least for d, least in minimum.items() if least > 0), default=None)

    def fair_shares(self, usage: omega.Usage) -> dict[str, tuple[float, ...]]:
        """Return the fair share of each leaf pool with use or demand, as amounts.

        Max-min fair by weight; no pool gets less than its minimum share as far as it wants it, nor more than it wants.
        """
        leaves, wanted = usage.leaves(), usage.wanted_by_leaves()
        jobs = list[omega.pools.Job]()
        for number, leaf in enumerate(leaves):
            held = usage.of_leaf(leaf)
            wants = [max(0, has) + more for has, more in zip(held, wanted.get(leaf, (0,) * len(held)), strict=True)]
            jobs.append(
                omega.pools.Job(f"jobs of {number}", _name(number), self._named(wants), usage=self._named(held))
            )
        shares = omega.pools.fair_shares(omega.pools.Tree(self._named(self.capacity), self._level(leaves), jobs))
        return {
            leaf: tuple(float(part) * total for part, total in zip(share, self.capacity, strict=True))
            for leaf, share in zip(leaves, shares.jobs.tolist(), strict=True)
        }

    def _level(self, leaves: Sequence[str]) -> "list[omega.pools.Pool]":
        return [
            omega.pools.Pool(
                _name(number),
                weight=self.weight(leaf),
                guarantee={self.names[d]: least * (1 - _SMALL) for d, least in self.minimum(leaf).items()},
            )
            for number, leaf in enumerate(leaves)
        ]

    def _named(self, amounts: Sequence[float]) -> dict[str, float]:
        return {name: max(0.0, amount) for name, amount in zip(self.names, amounts, strict=True)}


def _name(number: int) -> str:
    return f"pool {number}"


@dataclass(slots=True)
class HadoopFair(omega.Ordering):
    """Pools below their minimum share first, then the pool that holds least ÷ weight; jobs of a pool fair or FIFO.

    The pools are those of the cell: weight, guarantee (minimum share) and mode of each leaf pool. Of pools below their
    minimum shares the one with the smallest part of it comes first; of the others the one with the smallest dominant
    share ÷ weight. In a fair pool the job with the fewest running tasks ÷ weight comes first, in a FIFO pool the one
    of the highest priority, then by submission. Each priority doubles the weight of a job.
    """

    uses_pools: ClassVar[bool] = True
    reads: ClassVar[tuple[str, ...]] = ()
    _pools: HadoopPools = field(default_factory=HadoopPools, repr=False)
    _usage: omega.Usage | None = field(default=None, repr=False)
    _changed: bool = field(default=True, repr=False)
    """Whether the settings are others than at the last look."""

    def observe(self, snapshot: omega.Snapshot, now: float) -> None:
        before, self._usage = self._pools, snapshot.usage
        self._pools = before.seen_by(snapshot)
        self._changed = self._pools is not before

    @property
    def warnings(self) -> Sequence[str]:
        return self._pools.warnings

    def lane(self, work: omega.Work) -> Hashable:
        return leaf_pool(work)

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

    def key(self, work: omega.Work) -> float:
        if self._pools.is_fifo(leaf_pool(work)):
            return -float(priority(work))
        return running(work) / (work.weight * _TIMES[priority(work)])

    def kin(self, lane: Hashable) -> Hashable:
        # The rank of a pool follows from what it holds.
        return lane

    def touched(self, whose: Collection[tuple[str, str]]) -> Collection[Hashable] | None:
        return None if self._changed else {pool or user for pool, user in whose}


@dataclass(frozen=True, slots=True)
class FewestRunning(omega.Ordering):
    """Algorithm 1: the job with the fewest running tasks comes first, whatever its pool."""

    reads: ClassVar[tuple[str, ...]] = ()

    def key(self, work: omega.Work) -> float:
        return float(running(work))


@dataclass(frozen=True, slots=True)
class HadoopFifo(omega.Ordering):
    """Hadoop's default: five priorities, then first in, first out. Precedences above 4 count as 4."""

    reads: ClassVar[tuple[str, ...]] = ()

    def lane(self, work: omega.Work) -> Hashable:
        return priority(work)

    def rank(self, lane: Hashable) -> float:
        return -float(lane) if isinstance(lane, int) else 0.0


def leaf_pool(whose: omega.Work | omega.Resident) -> str:
    """Return the leaf pool of a job or of running tasks: a job without a pool belongs to that of its user."""
    return whose.pool or whose.user


def priority(work: omega.Work) -> int:
    """Return the priority of a job, from 0 (very low) to 4 (very high)."""
    return min(work.job.precedence, PRIORITIES - 1)


def running(work: omega.Work) -> int:
    """Return how many tasks of a job run, with those that its next attempt may place."""
    count = sum(map(work.holds, range(len(work.left))))
    return count + sum(work.admitted) if work.admitted else count
