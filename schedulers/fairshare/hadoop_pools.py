"""Pools of Hadoop's Fair Scheduler: two levels, minimum shares that fit into the cell, and max-min fair shares.

Source: Zaharia et al., EuroSys 2010, section 2. Pools, weights and minimum shares (guarantees) are those of the cell's
leaf pools; a pool that the cell does not configure has the weight 1 and no minimum share. Amounts are in the cell's
smallest units.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from omega.cellstate.pools import ROOT, Pool, Pools
from omega.cellstate.resources import Resources
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.usage import Usage
from omega.schedulers.fairshare.tree import Job, Tree
from omega.schedulers.fairshare.update import fair_shares

_SMALL = 1e-9


@dataclass(frozen=True)
class HadoopPools:
    """Settings of the leaf pools of a cell with `capacity`; `names` are the cell's resources in their order."""

    pools: Pools = field(default_factory=Pools)
    capacity: Resources = ()
    names: tuple[str, ...] = ()

    def seen_by(self, snapshot: Snapshot) -> "HadoopPools":
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
        inner = sorted({pool.parent for pool in self.pools.pools} - {ROOT})
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

    def fair_shares(self, usage: Usage) -> dict[str, tuple[float, ...]]:
        """Return the fair share of each leaf pool with use or demand, as amounts.

        Max-min fair by weight; no pool gets less than its minimum share as far as it wants it, nor more than it wants.
        """
        leaves, wanted = usage.leaves(), usage.wanted_by_leaves()
        jobs = list[Job]()
        for number, leaf in enumerate(leaves):
            held = usage.of_leaf(leaf)
            wants = [max(0, has) + more for has, more in zip(held, wanted.get(leaf, (0,) * len(held)), strict=True)]
            jobs.append(Job(f"jobs of {number}", _name(number), self._named(wants), usage=self._named(held)))
        shares = fair_shares(Tree(self._named(self.capacity), self._level(leaves), jobs))
        return {
            leaf: tuple(float(part) * total for part, total in zip(share, self.capacity, strict=True))
            for leaf, share in zip(leaves, shares.jobs.tolist(), strict=True)
        }

    def _level(self, leaves: Sequence[str]) -> list[Pool]:
        return [
            Pool(
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
