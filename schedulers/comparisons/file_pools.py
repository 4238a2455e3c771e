"""Fair sharing among pools that a scheduler file configures, for a cell without pools (docs/pool-rules.md)."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import omega

UNNAMED = "<none>"
"""The pool of jobs that name none."""
_SMALL = 1e-9


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """Settings of a pool in a scheduler file. Amounts by resource in the cell's smallest units."""

    parent: str = omega.pools.ROOT
    weight: float = 1.0
    guarantee: Mapping[str, int] = field(default_factory=dict)
    limits: Mapping[str, int] = field(default_factory=dict)


@dataclass(kw_only=True)
class FairPools(omega.CellPools):
    """The least satisfied pool comes first: usage ÷ fair share; a pool's jobs by precedence, then FIFO.

    In a cell with pools it is `CellPools`. Without them, `pools` by name are those of a scheduler file: a job of an
    unknown pool belongs to a pool of that name below the root, of weight 1. `resources` names the cell's resources in
    their order. Fair shares are computed from what pools hold and want once per `period` (seconds), satisfaction after
    every chosen job; jobs start tasks up to the share of their pool.
    """

    pools: Mapping[str, PoolSettings] = field(default_factory=dict)
    resources: Sequence[str] = ("cpu", "memory")
    period: float = 1.0
    _held: omega.Usage | None = field(default=None, repr=False)
    _computed: float | None = field(default=None, repr=False)
    _shares: dict[str, tuple[Sequence[tuple[int, float]], Sequence[tuple[int, float]]]] = field(
        default_factory=dict, repr=False
    )
    """By pool: resources with a fair share, and the share; those of them with a share below the pool's demand."""

    def __post_init__(self) -> None:
        if self.period <= 0:
            raise omega.BadInput(f"period of {self.period:g} s; want more than 0")
        self._tree([], [], [1.0] * len(self.resources))  # raises BadInput for circles, unknown parents, bad weights

    def observe(self, snapshot: omega.Snapshot, now: float) -> None:
        super().observe(snapshot, now)
        self._held = snapshot.usage
        if not self.ready and (self._computed is None or now >= self._computed + self.period):
            self._compute(now)

    def rank(self, lane: Hashable) -> float:
        usage = self._held
        if self.ready or usage is None:
            return super().rank(lane)
        pool = lane[0] if isinstance(lane, tuple) else "" if lane == UNNAMED else str(lane)
        name = pool or UNNAMED
        if name not in self._shares and self._computed is not None:
            self._compute(self._computed, name)
        held, capacity = usage.of_pool(pool), usage.capacity
        used = [has / most if most else 0.0 for has, most in zip(held, capacity, strict=True)]
        return omega.pools.satisfaction_of(used, range(len(used)), *self._shares[name])

    def ranks(self, lanes: Sequence[Hashable]) -> list[float]:
        return super().ranks(lanes) if self.ready else [self.rank(lane) for lane in lanes]

    def due(self, work: omega.Work, waiting: Callable[[], int]) -> Sequence[int] | None:
        usage = self._held
        if self.ready or usage is None:
            return super().due(work, waiting)
        parts, open_ = self._shares.get(work.pool or UNNAMED, ((), ()))
        if not open_:
            return None
        held, capacity, due = usage.of_pool(work.pool), usage.capacity, [0.0] * len(usage.capacity)
        for d, part in parts:
            due[d] = part * capacity[d] * (1 + _SMALL) - held[d]
        return omega.fitting(work, due)

    def _compute(self, now: float, also: str | None = None) -> None:
        usage = self._held
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
            jobs.append(omega.pools.Job(f"jobs of {name}", name, self._named(wants), usage=self._named(held)))
        tree = self._tree([name for name in names if name not in self.pools], jobs, [float(c) for c in usage.capacity])
        shares = omega.pools.fair_shares(tree)
        for job, share, demand in zip(jobs, shares.jobs.tolist(), shares.job_demand.tolist(), strict=True):
            parts = [(d, part) for d, part in enumerate(share) if part > _SMALL]
            self._shares[job.parent] = parts, [(d, part) for d, part in parts if part < demand[d] - _SMALL]
        self._computed = now

    def _tree(
        self, more: Sequence[str], jobs: "Sequence[omega.pools.Job]", capacity: Sequence[float]
    ) -> "omega.pools.Tree":
        pools = [
            omega.pools.Pool(
                name, each.parent, weight=each.weight, guarantee=dict(each.guarantee), limits=dict(each.limits)
            )
            for name, each in self.pools.items()
        ]
        return omega.pools.Tree(self._named(capacity), [*pools, *(omega.pools.Pool(name) for name in more)], jobs)

    def _named(self, amounts: Sequence[float]) -> dict[str, float]:
        names = [*self.resources, *(f"resource {at}" for at in range(len(self.resources), len(amounts)))]
        return dict(zip(names, amounts, strict=False))
