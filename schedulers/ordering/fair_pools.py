"""Fair sharing among the pools of a tree: the least satisfied pool comes first (docs/pool-rules.md)."""

from collections.abc import Callable, Collection, Container, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar

from omega.cellstate.errors import BadInput
from omega.cellstate.fairness import is_below, leaf_of
from omega.cellstate.job_demands import JobDemand, weight_of
from omega.cellstate.lanes import Lane
from omega.cellstate.override import override
from omega.cellstate.pools import NOBODY, ROOT, Pool
from omega.cellstate.pools.lending import Lent, keepers, lenders
from omega.cellstate.resources import Resources
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.usage import Usage, Whose
from omega.schedulers.epochs import epoch_of
from omega.schedulers.fairshare.lane_satisfactions import (
    SMALL,
    UNNAMED,
    LaneSatisfactions,
    Parts,
    parts_of,
    satisfaction_of,
)
from omega.schedulers.fairshare.standings import EpochShares, StandingsOf
from omega.schedulers.fairshare.tree import Job, Tree
from omega.schedulers.fairshare.update import fair_shares
from omega.schedulers.ordering.jobs_due import JobsDue, held_part
from omega.schedulers.policies import Ordering, Peers
from omega.schedulers.pool_machines import totals_of
from omega.schedulers.work import Work, fitting

PROVISIONAL_SECONDS = 5.0
"""Maximum age in seconds of shares computed while no epoch comes."""
WAIT_SECONDS = 0.05
"""Time in seconds for which freed room is left to pools below their shares (docs/pool-rules.md)."""
FORGET_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """Settings of a pool in a scheduler file. Amounts by resource in the cell's smallest units."""

    parent: str = ROOT
    weight: float = 1.0
    guarantee: Mapping[str, int] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class FairPools(Ordering):
    """The next task goes to the least satisfied pool: usage ÷ fair share; a pool's jobs by precedence, then FIFO.

    In a fair-share pool of the cell the job that holds least comes first among equal precedences.

    Shares are those of the cell's published epoch once pools are configured in the cell; until the first one, and when
    the next one is late, they are computed from the cell's pools and what those hold and want in the snapshot. Without
    such pools, `pools` by name are those of a scheduler file: a job of an unknown pool belongs to a pool of that name
    below the root, of weight 1, `resources` names the cell's resources in their order, and fair shares are computed
    from what pools hold and want once per `period` (seconds). Satisfaction is computed after every chosen job, over the
    resources that the job needs: a pool that borrows much of one resource keeps its place for another.
    """

    uses_pools: ClassVar[bool] = True
    reads: ClassVar[tuple[str, ...]] = ()
    pools: Mapping[str, PoolSettings] = field(default_factory=dict)
    resources: Sequence[str] = ("cpu", "memory")
    period: float = 1.0
    _usage: Usage | None = field(default=None, repr=False)
    _computed: float | None = field(default=None, repr=False)
    _shares: dict[str, tuple[Parts, Parts]] = field(default_factory=dict, repr=False)
    """By pool: resources with a fair share, and the share; those of them with a share below the pool's demand."""
    _standings: StandingsOf = field(default_factory=StandingsOf, repr=False)
    _epoch: EpochShares | None = field(default=None, repr=False)
    _fresh: bool = field(default=True, repr=False)
    """Whether the shares are others than before the last look."""
    _lends: bool = field(default=False, repr=False)
    """Whether some pool lends its guarantee in part only."""
    _names: tuple[str, ...] = field(default=(), repr=False)
    _hungry: dict[Callable[[str], Sequence[float]], list[str]] = field(default_factory=dict, repr=False)
    """Leaf pools below a level: what is due to them, or their guarantee."""
    _first: EpochShares | None = field(default=None, repr=False)
    """Shares of the cell's pools while no epoch comes."""
    _first_at: float = field(default=0.0, repr=False)
    _satisfactions: LaneSatisfactions | None = field(default=None, repr=False)
    """How the lanes of jobs stand, by the shares of this epoch."""
    _fifo: frozenset[str] = field(default=frozenset(), repr=False)
    _weighed: Container[str] = field(default=(), repr=False)
    """FIFO pools whose first sort key is the weight."""
    _generation: int = field(default=-1, repr=False)
    _now: float = field(default=0.0, repr=False)
    _leaves: dict[tuple[str, str], "_Leave"] = field(default_factory=dict, repr=False)
    """The room that a leaf pool leaves to another one."""
    _jobs: JobsDue = field(default_factory=JobsDue, repr=False)
    _members: int = field(default=1, init=False, repr=False)
    """Schedulers of this kind."""

    def __post_init__(self) -> None:
        if self.period <= 0:
            raise BadInput(f"period of {self.period:g} s; want more than 0")
        self._tree([], [], [1.0] * len(self.resources))  # raises BadInput for circles, unknown parents, bad weights

    def join(self, peers: Peers) -> None:
        """Record how many schedulers of this kind there are."""
        self._members = peers.members

    @override
    def observe(self, snapshot: Snapshot, now: float) -> None:
        self._usage = usage = snapshot.usage
        self._now = now
        before, self._epoch, self._hungry = self._epoch, self._standings.shares(snapshot), {}
        if snapshot.pools.configured and (self._jobs.is_late(snapshot, now) or self._epoch is None):
            self._epoch = self._provisional(snapshot, now) or self._epoch
        self._fresh = self._epoch is None or self._epoch is not before
        self._jobs.observe(self._epoch, snapshot, now)
        if self._fresh or self._generation != usage.generation:
            self._fresh, self._generation = True, usage.generation
            self._satisfactions = None if self._epoch is None else LaneSatisfactions(self._epoch, usage)
            self._leaves = {pair: leave for pair, leave in self._leaves.items() if leave.at > now - FORGET_SECONDS}
            self._names = tuple(snapshot.resources)
            self._lends = any(pool.lending for pool in snapshot.pools.pools)
            self._fifo = frozenset(pool.name for pool in snapshot.pools.pools if pool.fifo)
            self._weighed = {pool.name for pool in snapshot.pools.pools if pool.sort_keys[:1] == ("weight",)}
        if self._epoch is None and (self._computed is None or now >= self._computed + self.period):
            self._compute(now)

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
        if usage is None:
            return 0.0
        pool = parts_of(lane)[0]
        name = pool or UNNAMED
        if name not in self._shares and self._computed is not None:
            self._compute(self._computed, name)
        parts, open_ = self._shares[name]
        held = usage.of_pool(pool)
        used = [has / most if most else 0.0 for has, most in zip(held, usage.capacity, strict=True)]
        return satisfaction_of(used, range(len(used)), parts, open_)

    @override
    def ranks(self, lanes: Sequence[Hashable]) -> list[float]:
        known = self._satisfactions
        return [self.rank(lane) for lane in lanes] if known is None else known.several(lanes)

    def key(self, work: Work) -> float:
        """Return the precedence, then in a pool of the cell the weight (FIFO) or what the job holds ÷ weight."""
        if self._epoch is None or self._usage is None:
            return -work.job.precedence
        if self._fifo and (leaf := leaf_of(*work.whose)) in self._fifo:
            heavier = leaf in self._weighed and work.job.spec and weight_of(work.job.spec)
            return 1.0 / (1.0 + (heavier or 1.0)) - work.job.precedence
        job = work.job
        groups = job.groups
        if len(groups) == 1 and work.admitted is None and not (work.placed or groups[0].placed):
            return -job.precedence
        part = held_part(work, self._usage.capacity) / weight_of(job.spec)
        return part / (1.0 + part) - job.precedence

    def most(self, work: Work) -> int | None:
        """Return the tasks that leave free the room that other pools do not lend."""
        if not self._lends or self._epoch is None or self._usage is None:
            return None
        need = next((work.need(group) for group, left in enumerate(work.left) if left), None)
        leaf = leaf_of(work.pool, work.user)
        return None if need is None else _most_tasks(self._epoch, self._usage, leaf, need, self._names)

    @override
    def due(self, work: Work) -> Sequence[int] | None:
        usage = self._usage
        if self._epoch is not None or usage is None:
            return self._jobs.due(work)
        parts, open_ = self._shares.get(work.pool or UNNAMED, ((), ()))
        if not open_:
            return None
        held, capacity, due = usage.of_pool(work.pool), usage.capacity, [0.0] * len(usage.capacity)
        for d, part in parts:
            due[d] = part * capacity[d] * (1 + SMALL) - held[d]
        return fitting(work, due)

    @override
    def beyond(self, work: Work) -> float:
        return 0.0 if self._epoch is None else self._jobs.beyond(work)

    @override
    def spare(self, work: Work) -> Sequence[int] | None:
        return None if self._epoch is None else self._jobs.spare(work, self._members)

    def kin(self, lane: Hashable) -> Hashable | None:
        """Return the lanes of the pool, before the first epoch those of all users without one together."""
        if not isinstance(lane, tuple):
            return None
        return lane[:2] if self._epoch is not None else lane[0]

    @override
    def ample(self) -> Sequence[int] | None:
        return None if self._lends or self._epoch is None else self._jobs.ample()

    @override
    def touched(self, whose: Collection[Whose]) -> Collection[Hashable] | None:
        if self._fresh:
            return None
        return {(pool, "" if pool else user) for pool, user in whose}

    def wait(self, work: Work, here: Collection[Hashable]) -> float:
        """Leave room above the share of the pool for a moment to pools below theirs.

        The same holds for guarantees: one pool's comes before another's share. Only to pools with jobs of other
        schedulers alone. One that holds the same after this pool took the room is not waited for until that changes.
        """
        usage, epoch = self._usage, self._epoch
        if usage is None or epoch is None:
            return 0.0
        admitted = work.admitted or work.left
        need, tasks = next(((work.need(group), count) for group, count in enumerate(admitted) if count), ((), 0))
        leaf = leaf_of(work.pool, work.user)
        after = [has + tasks * more for has, more in zip(usage.of_leaf(leaf), need, strict=True)] if need else []
        others = set[str]()
        for level in (epoch.due, epoch.sure):
            if any(more and has > part for has, part, more in zip(after, level(leaf or NOBODY), need, strict=False)):
                others.update(self._below(usage, level))
        others.discard(leaf)
        others.difference_update(leaf_of(lane[0], lane[1]) for lane in here if isinstance(lane, tuple))
        mine, now = usage.of_leaf(leaf), self._now
        waits = False
        for name in others:
            held, leave = usage.of_leaf(name), self._leaves.get((leaf, name))
            if leave is None or leave.held != held:
                self._leaves[leaf, name] = _Leave(held, mine, now)
                waits = True
            elif now < leave.at + WAIT_SECONDS:
                waits = True
            elif not work.not_before and all(has <= had for has, had in zip(mine, leave.mine, strict=True)):
                leave.at, waits = now, True
        return WAIT_SECONDS if waits else 0.0

    def _below(self, usage: Usage, level: Callable[[str], Sequence[float]]) -> list[str]:
        """The leaf pools that want tasks and stand below a level in all that they want."""
        kept = self._hungry.get(level)
        if kept is None:
            kept = self._hungry[level] = [
                leaf for leaf, wanted in usage.wanted_by_leaves().items()
                if any(wanted) and is_below(usage.of_leaf(leaf), level(leaf or NOBODY), wanted)
            ]  # fmt: skip
        return kept

    def _provisional(self, snapshot: Snapshot, now: float) -> EpochShares | None:
        """Return the shares of the cell's pools by what they hold and want here; None if only an epoch has them."""
        pools, names = snapshot.pools, snapshot.resources
        first, at = self._first, self._first_at
        if first is not None and first.pools is pools and now < at + PROVISIONAL_SECONDS:
            return first
        if pools.divided or len(names) != snapshot.dimensions:
            return None
        jobs = [
            JobDemand(f"{pool}/{user}", Lane("", 0, pool, user), 0, False, False, ((held, 0, 1), (wanted, 1, 0)))
            for (pool, user), (held, wanted) in sorted(snapshot.usage.by_account().items())
        ]
        try:
            epoch = epoch_of(pools, jobs, totals_of(pools, snapshot, names), names)
        except BadInput:
            return None
        self._first, self._first_at = EpochShares(pools, epoch), now
        return self._first

    def _compute(self, now: float, also: str | None = None) -> None:
        usage = self._usage
        if usage is None:
            return
        names = sorted({name or UNNAMED for name in usage.pools()} | {also or UNNAMED} | set(self._shares))
        jobs = []
        for name in names:
            stored = "" if name == UNNAMED else name
            held = [max(0, amount) for amount in usage.of_pool(stored)]
            wants = [has + more for has, more in zip(held, usage.wanted_by_pool(stored), strict=True)]
            if name == also and not any(wants):
                wants = list(usage.capacity)  # a job waits that the store has not counted yet
            jobs.append(Job(f"jobs of {name}", name, self._named(wants), usage=self._named(held)))
        tree = self._tree([name for name in names if name not in self.pools], jobs, [float(c) for c in usage.capacity])
        shares = fair_shares(tree)
        for job, share, demand in zip(jobs, shares.jobs.tolist(), shares.job_demand.tolist(), strict=True):
            parts = [(d, part) for d, part in enumerate(share) if part > SMALL]
            self._shares[job.parent] = parts, [(d, part) for d, part in parts if part < demand[d] - SMALL]
        self._computed = now

    def _tree(self, more: Sequence[str], jobs: Sequence[Job], capacity: Sequence[float]) -> Tree:
        pools = [
            Pool(name, each.parent, weight=each.weight, guarantee=dict(each.guarantee), limits=dict(each.limits))
            for name, each in self.pools.items()
        ]
        return Tree(self._named(capacity), [*pools, *(Pool(name) for name in more)], jobs)

    def _named(self, amounts: Sequence[float]) -> dict[str, float]:
        names = [*self.resources, *(f"resource {at}" for at in range(len(self.resources), len(amounts)))]
        return dict(zip(names, amounts, strict=False))


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


@lru_cache(maxsize=4096)
def _lane(whose: Whose, needs: tuple[Resources, ...]) -> Hashable:
    """Return the lane of a job that needs this: its pool, the user without one, and which resources are needed."""
    pool, user = whose
    return pool, "" if pool else user, tuple(any(amounts) for amounts in zip(*needs, strict=True))


@dataclass(slots=True)
class _Leave:
    """Use of two leaf pools when one began to leave room to the other, and the time of that (seconds)."""

    held: Resources
    mine: Resources
    at: float
