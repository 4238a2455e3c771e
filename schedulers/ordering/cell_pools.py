"""Fair sharing among the pools of a tree: the least satisfied pool comes first (docs/pool-rules.md).

A lane is a leaf pool and the resources that the tasks of some of its jobs need. How it stands is usage ÷ fair share of
its pool by the epoch in force (rule 8).
"""

from collections.abc import Callable, Collection, Container, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from operator import add, sub
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.errors import BadInput
from omega.cellstate.fairness import leaf_of
from omega.cellstate.job_demands import JobDemand
from omega.cellstate.lanes import Lane
from omega.cellstate.override import override
from omega.cellstate.pools import NOBODY, ROOT
from omega.cellstate.pools.lending import Lent, keepers, lenders
from omega.cellstate.resources import Resources
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.usage import Usage, Whose
from omega.schedulers.epochs import epoch_of
from omega.schedulers.fairshare.satisfaction import satisfaction_of
from omega.schedulers.fairshare.standings import EpochShares, StandingsOf
from omega.schedulers.ordering.allowances import Allowances, held_part
from omega.schedulers.policies import Ordering, Peers
from omega.schedulers.pool_machines import totals_of
from omega.schedulers.work import Work

PROMISED = 1e6
"""What pools below their promised share come before others by: more than any satisfaction with a share."""
MANY = 8
"""Number of lanes from which arrays of them cost less than one after the other."""
SMALL = 1e-9
UNNAMED = "<none>"
"""The pool of jobs that name none."""
_TWO = 2
LOOK_SECONDS = 0.01
"""Seconds between two looks at the shares, for each leaf pool: computing them takes 0.1 ms for each."""
FEW = 6
"""Leaf pools that count at least: a part of the time does not depend on their number."""
MUCH, MUCH_PART = 2, 0.1
"""Demand that grew to so many times what it was and by this part of the cell, or fell by it, changed much."""


def parts_of(lane: Hashable) -> tuple[str, str, tuple[bool, ...]]:
    """Return the parts of a lane, of which the name of a pool alone is one too."""
    return lane if isinstance(lane, tuple) else ("" if lane == UNNAMED else str(lane), "", ())


class LaneSatisfaction:
    """The satisfaction of one lane by the shares of one epoch, computed again only when its pool's use changed."""

    __slots__ = ("_known", "_last", "_other", "_promised", "_value", "at", "held", "is_plain", "open", "parts")

    def __init__(self, epoch: EpochShares, usage: Usage, leaf: str, needed: tuple[bool, ...]) -> None:
        name = leaf or NOBODY
        self._known = epoch.of(name) is not None
        self.at, share, open_ = epoch.measure(name, needed)
        self.parts = [(d, part) for d, part in zip(self.at, share, strict=True) if part > SMALL]
        """Resources of which the pool has a share, and the share."""
        promised = epoch.amounts(name, "promised")
        self._promised = [(d, promised[d]) for d, _ in self.parts if promised[d] > SMALL]
        self.open = [pair for pair in self.parts if open_[self.at.index(pair[0])]]
        """Those of them of which the pool wants more than its share."""
        self.is_plain = self._known and bool(self.parts) and not self._promised
        """Whether `satisfaction_of` alone gives its satisfaction."""
        self.held = usage.sum_of_leaf(leaf)
        """What the pool holds, always up to date."""
        self._last, self._value = list[int](), 0.0
        self._other = self.open[0][0] if len(self.open) == 1 else -1

    def satisfaction(self) -> float:
        """Return the satisfaction now; below what is promised, less than that of any pool that is not."""
        held = self.held
        if held == self._last:
            return self._value
        self._last = held[:]
        if self.is_plain and len(self.parts) == _TWO:  # as most lanes have, and once for each job
            (first, a), (second, b) = self.parts
            x, y = held[first] / a, held[second] / b
            less, most = (x, y) if x < y else (y, x)
            if most <= 1.0 + SMALL and len(self.open) < _TWO:
                most = (x if self._other == first else y) if self.open else less
            self._value = most
        elif self._known:
            self._value = satisfaction_of(held, self.at, self.parts, self.open)
            if self._promised and all(held[d] < part for d, part in self._promised):
                self._value -= PROMISED
        else:  # its first jobs came after the epoch: it is served until the next epoch has its share
            self._value = 1.0 if any(held) else 0.0
        return self._value


class LaneSatisfactions:
    """The satisfactions of lanes by the shares of one epoch."""

    def __init__(self, epoch: EpochShares, usage: Usage) -> None:
        """Know no lane yet."""
        self._epoch, self._usage = epoch, usage
        self.known: dict[Hashable, LaneSatisfaction] = {}
        self._lanes: Sequence[Hashable] = ()
        self._table: _Table | None = None

    def of(self, lane: Hashable) -> LaneSatisfaction:
        """Return that of a lane: its pool, the user of jobs without one, the resources that its tasks need."""
        found = self.known.get(lane)
        if found is None:
            pool, user, needed = parts_of(lane)
            found = self.known[lane] = LaneSatisfaction(self._epoch, self._usage, leaf_of(pool, user), needed)
        return found

    def several(self, lanes: Sequence[Hashable]) -> list[float]:
        """Return the satisfactions of several lanes."""
        if len(lanes) < MANY:
            return [self.of(lane).satisfaction() for lane in lanes]
        if self._table is None or self._lanes != lanes:
            self._lanes, self._table = lanes, _Table([self.of(lane) for lane in lanes])
        return self._table.satisfactions()


class _Table:
    """Shares of several lanes as arrays, (lanes, resources)."""

    def __init__(self, each: Sequence[LaneSatisfaction]) -> None:
        self.plain = [one for one in each if one.is_plain]
        self.each, self._all = each, len(self.plain) == len(each)
        size = len(each[0].held)
        none = np.full((len(self.plain), size), -np.inf)
        self._share = np.ones_like(none)
        self._most, self._open = none.copy(), none.copy()
        for line, one in enumerate(self.plain):
            for d, part in one.parts:
                self._share[line, d], self._most[line, d] = part, 0.0
            for d, _ in one.open:
                self._open[line, d] = 0.0
        self._least = -self._most
        self._alone = np.array([len(one.parts) == 1 for one in self.plain], dtype=np.bool_)
        self._wants = np.array([bool(one.open) for one in self.plain], dtype=np.bool_)

    def satisfactions(self) -> list[float]:
        """Return the present satisfactions, with the results of `satisfaction` of each."""
        plain = self.plain
        if not plain:
            return [one.satisfaction() for one in self.each]
        ratio: NDArray[np.float64] = np.array([one.held for one in plain], dtype=np.float64) / self._share
        most = (ratio + self._most).max(axis=1)
        value = np.where(self._wants, (ratio + self._open).max(axis=1), (ratio + self._least).min(axis=1))
        values: Iterator[float] = iter(np.where((most > 1.0 + SMALL) | self._alone, most, value).tolist())
        if self._all:
            return list(values)
        return [next(values) if one.is_plain else one.satisfaction() for one in self.each]


@dataclass(slots=True, kw_only=True)
class CellPools(Ordering):
    """The next task goes to the least satisfied pool: usage ÷ fair share; a pool's jobs by precedence, then FIFO.

    In a fair-share pool the job that holds least comes first among equal precedences. Shares are those of the cell's
    published epoch; until the first one, and when the next one is late, they are computed from the cell's pools and
    what those hold and want in the snapshot. Satisfaction is computed after every chosen job, over the resources that
    the job needs: a pool that borrows much of one resource keeps its place for another. Without any shares (`ready`)
    the pool with the smallest dominant share comes first.
    """

    uses_pools: ClassVar[bool] = True
    reads: ClassVar[tuple[str, ...]] = ()
    _usage: Usage | None = field(default=None, repr=False)
    _standings: StandingsOf = field(default_factory=StandingsOf, repr=False)
    _epoch: EpochShares | None = field(default=None, repr=False)
    _fresh: bool = field(default=True, repr=False)
    """Whether the shares are others than before the last look."""
    _lends: bool = field(default=False, repr=False)
    """Whether some pool lends its guarantee in part only."""
    _names: tuple[str, ...] = field(default=(), repr=False)
    _published: EpochShares | None = field(default=None, repr=False)
    _demand: Mapping[str, "_Demand"] = field(default_factory=dict, repr=False)
    """What leaf pools held and wanted when shares were computed from the snapshot."""
    _demanded: Resources = field(default=(), repr=False)
    """What all jobs held and wanted at the last look at the shares."""
    _looks_at: float = field(default=-inf, repr=False)
    """When the shares are looked at again (seconds)."""
    _satisfactions: LaneSatisfactions | None = field(default=None, repr=False)
    """How the lanes of jobs stand, by the shares of this epoch."""
    _fifo: frozenset[str] = field(default=frozenset(), repr=False)
    _weighed: Container[str] = field(default=(), repr=False)
    """FIFO pools whose first sort key is the weight."""
    _generation: int = field(default=-1, repr=False)
    _allowances: Allowances = field(default_factory=Allowances, repr=False)

    @property
    def ready(self) -> bool:
        """Whether shares of the cell's pools are in force."""
        return self._epoch is not None

    def join(self, peers: Peers) -> None:
        """Record which schedulers of this kind decide the jobs of which pools."""
        self._allowances.place_in = peers.place_in

    @override
    def observe(self, snapshot: Snapshot, now: float) -> None:
        self._usage = usage = snapshot.usage
        before, self._epoch = self._epoch, self._in_force(snapshot, now)
        self._fresh = self._epoch is None or self._epoch is not before
        self._allowances.observe(self._epoch, snapshot)
        if self._fresh or self._generation != usage.generation:
            self._fresh, self._generation = True, usage.generation
            self._satisfactions = None if self._epoch is None else LaneSatisfactions(self._epoch, usage)
            self._names = tuple(snapshot.resources)
            self._lends = any(pool.lending for pool in snapshot.pools.pools)
            self._fifo = frozenset(pool.name for pool in snapshot.pools.pools if pool.fifo)
            self._weighed = {pool.name for pool in snapshot.pools.pools if pool.sort_keys[:1] == ("weight",)}

    def lane(self, work: Work) -> Hashable:
        """Return the pool (of a job without one the user) and the resources that its tasks need."""
        groups, whose = work.job.groups, work.belongs or work.whose
        if len(groups) == 1 and work.left[0]:
            return _lane(whose, (groups[0].need,))
        return _lane(whose, tuple(group.need for group, left in zip(groups, work.left, strict=True) if left))

    def rank(self, lane: Hashable) -> float:
        """Return the satisfaction of the pool (docs/pool-rules.md, rule 8)."""
        known, usage = self._satisfactions, self._usage
        if known is not None:
            return (known.known.get(lane) or known.of(lane)).satisfaction()
        return 0.0 if usage is None else usage.dominant_share(pool=parts_of(lane)[0])

    @override
    def ranks(self, lanes: Sequence[Hashable]) -> list[float]:
        known = self._satisfactions
        return [self.rank(lane) for lane in lanes] if known is None else known.several(lanes)

    def key(self, work: Work) -> float:
        """Return the precedence, then in a pool of the cell the weight (FIFO) or what the job holds ÷ weight."""
        if self._epoch is None or self._usage is None:
            return -work.job.precedence
        if self._fifo and (leaf := leaf_of(*work.whose)) in self._fifo:
            heavier = work.weight if leaf in self._weighed else 1.0
            return 1.0 / (1.0 + heavier) - work.job.precedence
        job = work.job
        groups = job.groups
        if len(groups) == 1 and work.admitted is None and not (work.placed or groups[0].placed):
            return -job.precedence
        part = held_part(work, self._usage.capacity) / work.weight
        return part / (1.0 + part) - job.precedence

    def most(self, work: Work) -> int | None:
        """Return the tasks that leave free the room that other pools do not lend."""
        if not self._lends or self._epoch is None or self._usage is None:
            return None
        need = next((work.need(group) for group, left in enumerate(work.left) if left), None)
        leaf = leaf_of(work.pool, work.user)
        return None if need is None else _most_tasks(self._epoch, self._usage, leaf, need, self._names)

    @override
    def due(self, work: Work, waiting: Callable[[], int]) -> Sequence[int] | None:
        in_order = self._fifo and leaf_of(*work.whose) in self._fifo
        return self._allowances.due(work, _one if in_order else waiting)

    @override
    def beyond(self, work: Work, stayed: float) -> bool:
        return self._epoch is None or self._allowances.beyond(work, stayed)

    def kin(self, lane: Hashable) -> Hashable | None:
        """Return the lanes of the pool, before there are shares those of all users without one together."""
        if not isinstance(lane, tuple):
            return None
        return lane[:2] if self.ready else lane[0]

    @override
    def ample(self) -> Sequence[int] | None:
        return None if self._lends or self._epoch is None else self._allowances.ample()

    @override
    def touched(self, whose: Collection[Whose]) -> Collection[Hashable] | None:
        if self._fresh:
            return None
        return {(pool, "" if pool else user) for pool, user in whose}

    def _in_force(self, snapshot: Snapshot, now: float) -> EpochShares | None:
        """Return the shares of the published epoch, or newer ones where jobs came since; None without any.

        They are looked at again after a time that grows with the number of pools, or when demand changed much.
        """
        usage, published = snapshot.usage, self._standings.shares(snapshot)
        if not snapshot.pools.configured:
            return None
        if published is not self._published:
            self._published, self._looks_at = published, now
        demanded = tuple(map(add, usage.wanted(), usage.held()))
        before = self._demanded or (0,) * len(demanded)
        if now < self._looks_at and not any(map(_much, before, demanded, usage.capacity)):
            return self._epoch
        demand, self._demanded = _demand_of(usage), demanded
        self._looks_at = now + LOOK_SECONDS * (FEW + len(demand))
        if published is not None and not _outdated(published, demand):
            return published
        if demand == self._demand and self._epoch is not None and self._epoch.pools is snapshot.pools:
            return self._epoch
        self._demand = demand
        return self._from_snapshot(snapshot, demand, published, now) or published

    @staticmethod
    def _from_snapshot(
        snapshot: Snapshot, demand: Mapping[str, "_Demand"], published: EpochShares | None, now: float
    ) -> EpochShares | None:
        """Return shares by what pools hold and want in the snapshot; None if only an epoch has them."""
        pools, names = snapshot.pools, snapshot.resources
        if pools.divided or len(names) != snapshot.dimensions:
            return None
        jobs, asked = list[JobDemand](), {} if published is None else published.epoch.asked
        for leaf, (whose, sums, held) in sorted(demand.items()):
            rest: Sequence[float] = sums
            if published is not None and leaf in asked:  # what could not run then is no demand now
                runs = published.amounts(leaf or NOBODY, "demand")
                rest = [has - max(0.0, all_ - part) for has, all_, part in zip(sums, asked[leaf], runs, strict=True)]
            wanted = tuple(max(0, round(all_ - has)) for all_, has in zip(rest, held, strict=True))
            jobs.append(JobDemand(leaf, Lane("", 0, *whose), 0, False, False, ((held, 0, 1), (wanted, 1, 0))))
        previous = None if published is None else published.epoch
        try:
            epoch = epoch_of(pools, jobs, totals_of(pools, snapshot, names), names, previous, at_ms=round(now * 1000))
        except BadInput:
            return None
        return EpochShares(pools, epoch)


_Demand = tuple[Whose, Resources, Resources]
"""Pool and user of some job of a leaf pool, what its jobs hold and want together, and what they hold."""


def _demand_of(usage: Usage) -> dict[str, _Demand]:
    """Return what the jobs of leaf pools hold and want."""
    demand: dict[str, _Demand] = {}
    for whose, (held, wanted) in usage.by_account().items():
        _, sums, had = demand.get(leaf := leaf_of(*whose), (whose, (0,) * len(held), (0,) * len(held)))
        demand[leaf] = whose, tuple(map(sum, zip(sums, held, wanted, strict=True))), tuple(map(add, had, held))
    for leaf, (whose, sums, held) in demand.items():
        if any(claimed := usage.claimed_by_leaf(leaf)):  # what this scheduler claims now is wanted and held
            demand[leaf] = whose, tuple(map(sub, sums, claimed)), held
    return demand


def _much(before: int, now: int, total: int) -> bool:
    """Whether the demand of a resource changed much."""
    return now > MUCH * before + MUCH_PART * total or now < before - MUCH_PART * total


def _outdated(shares: EpochShares, demand: Mapping[str, _Demand]) -> bool:
    """Whether some leaf pool wants more than it did at the epoch, or no longer all that is due to it."""
    asked = shares.epoch.asked
    if not demand.keys() <= asked.keys():
        return True
    for leaf, was in asked.items():
        sums = demand[leaf][1] if leaf in demand else (0,) * len(was)
        if sums == was:
            continue
        due = shares.due(leaf or NOBODY)
        for now, before, part in zip(sums, was, due, strict=True):
            if now > before or (now < before and now < part):
                return True
    return False


def _most_tasks(shares: EpochShares, usage: Usage, leaf: str, need: Resources, names: tuple[str, ...]) -> int | None:
    """Return how many tasks of a leaf pool fit into the room that no pool keeps; None: no bound.

    The store validates the same with each claim (docs/pools.md, Limits): nothing is planned that it refuses.
    """
    pools = shares.pools
    path = shares.path(leaf)
    place = pools.trees.index(pools.tree_of(path[-1])) if path and path[-1] != ROOT else None
    lending = lenders(pools, shares.epoch.totals, names)
    tree = lending.get(f"t{place}")
    if tree is None:
        return None

    def lent(name: str) -> Lent:
        return Lent([lending[f"k{pools.by_name[each].number}"] for each in keepers(pools, name)], tree)

    for each in usage.leaves():
        if pools.trees.index(pools.tree_of(shares.path(each)[-1])) == place:
            lent(each).occupy(usage.of_leaf(each))
    return lent(leaf).admits(need)


def _one() -> int:
    """The jobs of a FIFO pool that wait for its room: the first one."""
    return 1


@lru_cache(maxsize=4096)
def _lane(whose: Whose, needs: tuple[Resources, ...]) -> Hashable:
    """Return the lane of a job that needs this: its pool, the user without one, and which resources are needed."""
    pool, user = whose
    return pool, "" if pool else user, tuple(any(amounts) for amounts in zip(*needs, strict=True))
