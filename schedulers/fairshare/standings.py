"""How the pools of a cell stand for one decision: the shares of the published epoch and what pools hold now.

Shares are read from the epoch (semantics 34); what pools hold comes from the snapshot, work in flight included, so
satisfaction follows every placement. Amounts are in the cell's smallest units.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property

from omega.cellstate.fairness import Threshold, amounts_of, is_below
from omega.cellstate.pools import NOBODY, ROOT, Epoch, Pools, PoolShare
from omega.cellstate.resources import Resources
from omega.cellstate.snapshot import Snapshot
from omega.schedulers.fairshare.satisfaction import Stand

Path = tuple[str, ...]
"""A leaf pool and its ancestors below the root, upward."""
Measure = tuple[tuple[int, ...], tuple[float, ...], tuple[bool, ...]]
"""Places of resources; what is due to a pool of each; whether the pool wants more of it than that."""
Situation = tuple[tuple[str, Resources, tuple[float, ...]], ...]
"""The pools below one parent: what each holds, and what is due to it."""
_SMALL = 1e-9
BOUNDLESS = 1e15
"""The share of a resource without a total (slots where machines state none): more than anything that pools hold."""


class EpochShares:
    """What does not change within an epoch: shares as amounts, and the paths of leaf pools."""

    def __init__(self, pools: Pools, epoch: Epoch) -> None:
        """Read nothing yet."""
        self.pools, self.epoch = pools, epoch
        self._shares: dict[tuple[str, str], tuple[float, ...]] = {}
        self._due: dict[str, tuple[float, ...]] = {}
        self._measures: dict[tuple[str, tuple[bool, ...]], Measure] = {}
        self.inner = set(pools.children) | {tree.default_parent for tree in pools.trees}
        """Pools that have pools below them, or may have."""
        self._paths: dict[str, Path] = {}
        self._families: dict[str, tuple[str, str]] = {}
        self.preemption = cache(pools.preemption)
        """The settings that hold for a pool."""
        self._below: tuple[tuple[str, ...], Mapping[str, Sequence[str]]] | None = None

    def measure(self, name: str, needed: tuple[bool, ...]) -> Measure:
        """What the satisfaction of a pool is measured by for jobs that need some resources, all if none is named."""
        measure = self._measures.get((name, needed))
        if measure is None:
            share, demand = self.due(name), self.amounts(name, "demand")
            bounded = [d for d, part in enumerate(share) if part < BOUNDLESS]
            at = tuple(d for d in bounded if d < len(needed) and needed[d]) or tuple(bounded)
            open_ = tuple(share[d] < demand[d] * (1 - _SMALL) for d in at)
            measure = self._measures[name, needed] = at, tuple(share[d] for d in at), open_
        return measure

    def path(self, leaf: str) -> Path:
        """The path of a leaf; `leaf` as `leaf_of` names it."""
        path = self._paths.get(leaf)
        if path is None:
            names, at = list[str](), leaf or NOBODY
            while at != ROOT and at not in names:
                names.append(at)
                at = self.pools.parent_of(at)
            path = self._paths[leaf] = tuple(names)
        return path

    def leaves_below(self, leaves: tuple[str, ...]) -> Mapping[str, Sequence[str]]:
        """The leaves of every pool by its name: those that hold or want something, and the configured ones."""
        if self._below is None or self._below[0] != leaves:
            below: dict[str, list[str]] = {}
            for leaf in sorted({*leaves, *(self.pools.leaves - {NOBODY})}):
                for name in self.path(leaf):
                    below.setdefault(name, []).append(leaf)
            self._below = leaves, below
        return self._below[1]

    def family(self, name: str) -> tuple[str, str]:
        """The tree and the parent of a pool: siblings have the same."""
        family = self._families.get(name)
        if family is None:
            path = self.path(name)
            family = self.pools.tree_of(path[-1]).name, path[1] if len(path) > 1 else ROOT
            self._families[name] = family
        return family

    def of(self, name: str) -> PoolShare | None:
        """Return the share of a pool in the epoch; None for a pool that it does not have yet."""
        return self.epoch.pools.get(name)

    def amounts(self, name: str, what: str = "fair_share") -> tuple[float, ...]:
        """The share of a pool as amounts (`what`: a vector of PoolShare); nothing for an unknown pool."""
        amounts = self._shares.get((name, what))
        if amounts is None:
            share = self.of(name)
            size = len(next(iter(self.epoch.totals.values())))
            amounts = (0.0,) * size
            if share is not None:
                amounts = amounts_of(getattr(share, what), self.epoch.totals[share.tree])
            self._shares[name, what] = amounts
        return amounts

    def due(self, name: str) -> tuple[float, ...]:
        """What is due to a pool: its fair share, and in each resource at least its guarantee as far as it wants it.

        A fair share stops at the first resource that is short, so a pool that borrows one resource may have a
        smaller fair share of another than it is guaranteed. A resource without a total bounds nothing.
        """
        due = self._due.get(name)
        if due is None:
            fair, sure = self.amounts(name), self.amounts(name, "guarantee")
            wanted = self.amounts(name, "demand")
            due = self._due[name] = self.boundless(
                name, [max(part, min(least, most)) for part, least, most in zip(fair, sure, wanted, strict=True)]
            )
        return due

    def sure(self, name: str) -> tuple[float, ...]:
        """The guarantee of a pool as far as it wants it."""
        sure, wanted = self.amounts(name, "guarantee"), self.amounts(name, "demand")
        return self.boundless(name, [min(least, most) for least, most in zip(sure, wanted, strict=True)])

    def boundless(self, name: str, share: Sequence[float]) -> tuple[float, ...]:
        """Return a share of a pool that does not bound resources without a total in its tree."""
        known = self.of(name)
        totals = self.epoch.totals[known.tree] if known is not None else (1,) * len(share)
        return tuple(part if total else BOUNDLESS for part, total in zip(share, totals, strict=True))


class Standings:
    """The standings of pools, made for a decision; it follows what the decision takes."""

    def __init__(self, shares: EpochShares, snapshot: Snapshot) -> None:
        """Sum nothing yet."""
        self.shares, self.snapshot = shares, snapshot
        self._used: dict[str, list[int]] = {}

    @cached_property
    def below(self) -> Mapping[str, Sequence[str]]:
        """The leaves of every pool, by its name; leaves as `leaf_of` names them."""
        return self.shares.leaves_below(tuple(self.snapshot.usage.leaves()))

    @cached_property
    def lanes(self) -> dict[str, list[int]]:
        """The lanes of every leaf."""
        return self.snapshot.lanes.by_leaf()

    def used(self, name: str) -> Resources:
        """Return the amounts held by the jobs of a pool and of the pools below it."""
        sums = self._used.get(name)
        if sums is None:
            usage = self.snapshot.usage
            sums = self._used[name] = self._summed(usage.of_leaf(leaf) for leaf in self.leaves(name))
        return tuple(sums)

    def leaves(self, name: str) -> Sequence[str]:
        """The leaves of a pool: itself when it has no pools below, as `leaf_of` names it."""
        if name in self.shares.inner:
            return self.below.get(name, ())
        return ("" if name == NOBODY else name,)

    def _summed(self, each: Iterable[Resources]) -> list[int]:
        sums = [0] * self.snapshot.dimensions
        for amounts in each:
            for d, amount in enumerate(amounts):
                sums[d] += amount
        return sums

    def move(self, path: Sequence[str], amounts: Resources, sign: int = 1) -> None:
        """Count amounts as held by a leaf and its ancestors, or (-1) no longer."""
        for name in path:
            self.used(name)
            for d, amount in enumerate(amounts):
                self._used[name][d] += sign * amount

    def share(self, name: str) -> tuple[float, ...]:
        """The share that a pool may claim by evictions, by its setting `reclaim` (docs/pool-rules.md)."""
        pool = self.shares.pools.by_name.get(name)
        if pool is not None and pool.reclaim == "never":
            return (0.0,) * self.snapshot.dimensions
        if pool is not None and pool.reclaim == "guarantee":
            sure = self.shares.boundless(name, self.shares.amounts(name, "guarantee"))
            return tuple(map(min, self.shares.due(name), sure))
        return self.shares.due(name)

    def stand(self, name: str, unit: Sequence[float]) -> Stand:
        """How a pool stands for starvation; `unit` is the least that one of its jobs wants next."""
        share, used, known = self.share(name), self.used(name), self.shares.of(name)
        wanted = [float(has + more) for has, more in zip(used, self.wanted(name), strict=True)]
        if known is not None:
            totals = self.shares.epoch.totals[known.tree]
            wanted = [max(want, part * all_) for want, part, all_ in zip(wanted, known.demand, totals, strict=True)]
        return Stand(share=share, demand=wanted, usage=used, unit=unit)

    def stands_below(self, name: str, need: Resources) -> bool:
        """Whether a pool stands below the share that it may claim, for one more task of this need."""
        return is_below(self.used(name), self.share(name), need)

    @cached_property
    def children(self) -> dict[tuple[str, str], list[str]]:
        """The pools below each pool, and below the root of each tree: by tree and parent."""
        children: dict[tuple[str, str], list[str]] = {}
        for name in self.below:
            children.setdefault(self.shares.family(name), []).append(name)
        return children

    def siblings(self, name: str) -> list[str]:
        """The other pools below the parent of a pool."""
        return [each for each in self.children.get(self.shares.family(name), ()) if each != name]

    def situation(self, name: str) -> Situation:
        """Return how a pool and its siblings stand."""
        due = self.shares.due
        return tuple((each, self.used(each), due(each)) for each in self.children.get(self.shares.family(name), ()))

    def improved(self, name: str, before: Situation) -> bool:
        """Whether evictions for a pool may be legal that were not: it holds less, a sibling more, shares are others."""
        now = self.situation(name)
        if len(now) != len(before):
            return True
        for (each, used, due), (was, had, part) in zip(now, before, strict=True):
            less, more = (used, had) if each == name else (had, used)
            if each != was or due != part or any(a < b for a, b in zip(less, more, strict=True)):
                return True
        return False

    def any_above(self, name: str) -> bool:
        """Whether a sibling of a pool holds more than its share of some resource."""
        stands = ((self.used(each), self.shares.due(each)) for each in self.siblings(name))
        return any(has > part for used, due in stands for has, part in zip(used, due, strict=True))

    def has_room(self, name: str, unit: Sequence[float]) -> bool:
        """Whether a unit fits under the share that a pool may claim."""
        amounts = zip(self.used(name), unit, self.share(name), strict=True)
        return all(not more or has + more <= part for has, more, part in amounts)

    def wanted(self, name: str) -> Resources:
        """Return the sum of the unplaced tasks of a pool and of the pools below it."""
        wanted_by = self.snapshot.usage.wanted_by_leaf
        return tuple(self._summed(wanted_by(leaf) for leaf in self.leaves(name)))

    def lacks_beside(self, name: str, need: Resources) -> bool:
        """Whether a sibling of a pool lacks a task of a need, and wants some."""
        for each in self.siblings(name):
            used, share = self.used(each), self.share(each)
            fits = all(has + more <= part for has, more, part in zip(used, need, share, strict=True) if more)
            if fits and any(any(self.snapshot.usage.wanted_by_leaf(leaf)) for leaf in self.leaves(each)):
                return True
        return False

    def pair(self, evictor: Path, victim: Path) -> tuple[str, str] | None:
        """The children of the lowest common ancestor of two leaves; None when they are the same leaf."""
        mine, theirs = evictor[::-1], victim[::-1]
        for a, b in zip(mine, theirs, strict=False):
            if a != b:
                return a, b
        return None

    def threshold(self, name: str, share: Sequence[float]) -> Threshold:
        """Return the threshold of a pool that a transaction asserts."""
        leaves = tuple(self.leaves(name))
        numbers = tuple(number for leaf in leaves for number in self.lanes.get(leaf, ()))
        return Threshold(leaves, tuple(share), numbers)


class StandingsOf:
    """Makes standings from snapshots; what belongs to an epoch is kept until the next one."""

    _shares: EpochShares | None = None

    def shares(self, snapshot: Snapshot) -> EpochShares | None:
        """The shares in force; None while no pool is configured, or no epoch published."""
        pools, epoch = snapshot.pools, snapshot.epoch
        if epoch is None or not pools.configured:
            return None
        known = self._shares
        if known is None or known.epoch is not epoch or known.pools is not pools:
            known = self._shares = EpochShares(pools, epoch)
        return known

    def of(self, snapshot: Snapshot) -> Standings | None:
        """How the pools stand now."""
        shares = self.shares(snapshot)
        return None if shares is None else Standings(shares, snapshot)
