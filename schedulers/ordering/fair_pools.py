"""Fair sharing among the pools of a tree: the least satisfied pool comes first (docs/pools.md)."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from cellstate.errors import BadInput
from cellstate.snapshot import Snapshot
from cellstate.usage import Usage
from schedulers.fairshare.tree import ROOT, Job, Pool, Tree
from schedulers.fairshare.update import fair_shares
from schedulers.policies import Ordering
from schedulers.work import Work

UNNAMED = "<none>"
"""The pool of jobs that name none."""
_SMALL = 1e-9


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """What an operator sets of a pool. Amounts by resource in the cell's smallest units."""

    parent: str = ROOT
    weight: float = 1.0
    guarantee: Mapping[str, int] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class FairPools(Ordering):
    """The next task is for the least satisfied pool: usage ÷ fair share; a pool's jobs by precedence, then FIFO.

    `pools` by name; a job of an unknown pool belongs to a pool of that name below the root, of weight 1.
    `resources` names the cell's resources in their order. Fair shares are computed from what pools hold and want
    once per `period` (seconds), satisfaction after every chosen job.
    """

    portion: ClassVar[int | None] = 16
    pools: Mapping[str, PoolSettings] = field(default_factory=dict)
    resources: Sequence[str] = ("cpu", "memory")
    period: float = 1.0
    _usage: Usage | None = field(default=None, repr=False)
    _computed: float | None = field(default=None, repr=False)
    _shares: dict[str, tuple[list[float], list[bool]]] = field(default_factory=dict, repr=False)
    """Fair share of each pool, and by resource whether it is below the pool's demand."""

    def __post_init__(self) -> None:
        if self.period <= 0:
            raise BadInput(f"period of {self.period:g} s; want more than 0")
        self._tree([], [], [1.0] * len(self.resources))  # raises BadInput for circles, unknown parents, bad weights

    def observe(self, snapshot: Snapshot, now: float) -> None:
        """See Ordering.observe."""
        self._usage = snapshot.usage
        if self._computed is None or now >= self._computed + self.period:
            self._compute(now)

    def lane(self, work: Work) -> Hashable:
        """See Ordering.lane."""
        return work.pool or UNNAMED

    def rank(self, lane: Hashable) -> float:
        """See Ordering.rank: satisfaction as in docs/pools.md, rule 8."""
        name = str(lane)
        usage = self._usage
        if usage is None:
            return 0.0
        if name not in self._shares and self._computed is not None:
            self._compute(self._computed, name)
        share, open_ = self._shares[name]
        held = usage.of_pool("" if name == UNNAMED else name)
        used = [has / most if most else 0.0 for has, most in zip(held, usage.capacity, strict=True)]
        return _satisfaction(share, open_, used)

    def key(self, work: Work) -> float:
        """See Ordering.key."""
        return -work.job.precedence

    def _compute(self, now: float, also: str | None = None) -> None:
        """Compute the fair shares of all pools that hold or want something."""
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
                wants = list(usage.capacity)  # somebody waits, though the store has not counted it yet
            jobs.append(Job(f"jobs of {name}", name, self._named(wants), self._named(held)))
        tree = self._tree([name for name in names if name not in self.pools], jobs, [float(c) for c in usage.capacity])
        found = fair_shares(tree)
        for job, share, demand in zip(jobs, found.jobs.tolist(), found.job_demand.tolist(), strict=True):
            self._shares[job.parent] = share, [s < d - _SMALL for s, d in zip(share, demand, strict=True)]
        self._computed = now

    def _tree(self, more: Sequence[str], jobs: Sequence[Job], capacity: Sequence[float]) -> Tree:
        pools = [
            Pool(name, each.parent, each.weight, dict(each.guarantee), dict(each.limits))
            for name, each in self.pools.items()
        ]
        return Tree(self._named(capacity), [*pools, *(Pool(name) for name in more)], jobs)

    def _named(self, amounts: Sequence[float]) -> dict[str, float]:
        names = [*self.resources, *(f"resource {at}" for at in range(len(self.resources), len(amounts)))]
        return dict(zip(names, amounts, strict=False))


def _satisfaction(share: Sequence[float], open_: Sequence[bool], used: Sequence[float]) -> float:
    """Usage ÷ fair share of one pool as a number; a pool without a share comes after all that have one."""
    ratios = [(use / part, wanted) for use, part, wanted in zip(used, share, open_, strict=True) if part > _SMALL]
    if not ratios:
        return 1e9 + sum(used)
    if any(ratio > 1.0 + _SMALL for ratio, _ in ratios):
        return max(ratio for ratio, _ in ratios)
    blocked = [ratio for ratio, wanted in ratios if wanted]
    return max(blocked) if blocked else min(ratio for ratio, _ in ratios)
