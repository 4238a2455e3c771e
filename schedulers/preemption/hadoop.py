"""Preemption of Hadoop's Fair Scheduler: pools below their shares for a time take the room of the youngest tasks.

Source: Zaharia et al., EuroSys 2010, section 2 (docs/hadoop.md). Amounts are in the cell's smallest units.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import ClassVar

from omega.cellstate.errors import BadInput
from omega.cellstate.fairness import Assertion, Threshold, is_below, leaf_of
from omega.cellstate.override import override
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Claim, Outcome, Transaction
from omega.schedulers.fairshare.hadoop_pools import HadoopPools
from omega.schedulers.policies import Placement, Preemption
from omega.schedulers.preemption.hadoop_plan import YoungestTasks
from omega.schedulers.preemption.precedence import machines_to_fetch
from omega.schedulers.work import Work

LOOK_SECONDS = 1.0
"""Time in seconds for which computed fair shares hold."""
_PLAN = "evictions of Hadoop's Fair Scheduler"
"""Where a job's plan stands among its notes, until its transaction is made."""


@dataclass(slots=True, kw_only=True)
class HadoopPreemption(Preemption):
    """Evict the youngest tasks of pools above their fair share, for pools that stay below their own.

    A pool below its minimum share for `minimum_timeout` seconds may evict up to that. One below `fraction` of its fair
    share for `fair_timeout` seconds may evict up to its fair share. Strict gangs lose no tasks, and for gangs nothing
    is evicted: Hadoop has none. While the cell has no pools, victims also have a lower precedence (semantics 33).
    `looks` machines are fetched per attempt.
    """

    by: ClassVar[str] = "fair share"
    reads: ClassVar[tuple[str, ...]] = ()

    minimum_timeout: float = 60.0
    fair_timeout: float = 600.0
    fraction: float = 0.5
    looks: int = 256
    _pools: HadoopPools = field(default_factory=HadoopPools, repr=False)
    _shares: dict[str, tuple[float, ...]] = field(default_factory=dict, repr=False)
    """Fair shares of leaf pools, computed at `_at` (seconds)."""
    _at: float | None = field(default=None, repr=False)
    _below_minimum: dict[str, float] = field(default_factory=dict, repr=False)
    """Since when (seconds) leaf pools have been below their minimum shares."""
    _below_fair: dict[str, float] = field(default_factory=dict, repr=False)
    """Since when (seconds) leaf pools have been below `fraction` of their fair shares."""
    _starving: frozenset[str] = field(default=frozenset(), repr=False)
    _stirred: set[str] = field(default_factory=set, repr=False)
    _unsettled: dict[str, dict[int, int]] = field(default_factory=dict, repr=False)
    """Tasks by placement that are evicted by transactions without an outcome, by the evicting job."""

    def __post_init__(self) -> None:
        for name in ("minimum_timeout", "fair_timeout", "fraction"):
            if not getattr(self, name) >= 0:
                raise BadInput(f"{name} of {getattr(self, name):g}; want 0 or more")
        if self.fraction > 1:
            raise BadInput(f"fraction of {self.fraction:g}; want at most 1")

    # The stand of pools

    def observe(self, snapshot: Snapshot, now: float) -> None:
        """Record which pools are below their shares, and since when."""
        if self._at is None or not self._at <= now < self._at + LOOK_SECONDS:
            self._look(snapshot, now)

    def _look(self, snapshot: Snapshot, now: float) -> None:
        usage = snapshot.usage
        self._pools, self._at = self._pools.seen_by(snapshot), now
        self._shares = self._pools.fair_shares(usage)
        wanted = usage.wanted_by_leaves()
        for leaf in (self._below_minimum.keys() | self._below_fair.keys()) - wanted.keys():
            self._below_minimum.pop(leaf, None), self._below_fair.pop(leaf, None)
        for leaf, wants in wanted.items():
            held = usage.of_leaf(leaf)
            ratio = self._pools.minimum_ratio(leaf, held)
            _since(self._below_minimum, leaf, now, is_below=ratio is not None and ratio < 1.0)
            part = [share * self.fraction for share in self._share(leaf)]
            _since(self._below_fair, leaf, now, is_below=is_below(held, part, wants))
        self._starving = frozenset(leaf for leaf in wanted if self._target(leaf, now) is not None)
        self._stirred |= self._starving

    def _share(self, leaf: str) -> tuple[float, ...]:
        return self._shares.get(leaf) or (0.0,) * len(self._pools.capacity)

    def _target(self, leaf: str, now: float) -> tuple[float, ...] | None:
        """Return the share up to which a pool may evict now; None while it may not."""
        share = self._share(leaf)
        if leaf in self._below_fair and now >= self._below_fair[leaf] + self.fair_timeout:
            return share
        if leaf in self._below_minimum and now >= self._below_minimum[leaf] + self.minimum_timeout:
            least = self._pools.minimum(leaf)
            return tuple(min(part, least.get(d, part)) for d, part in enumerate(share))
        return None

    def stirred(self) -> set[str]:
        """Return, once, the leaf pools whose blocked jobs are to be tried again: they may evict."""
        leaves, self._stirred = self._stirred, set()
        return leaves

    def starving(self) -> dict[str, str]:
        """Return the pools that may evict; other threads may call it."""
        return dict.fromkeys(sorted(self._starving), "starving")

    def entitled(self, leaf: str, snapshot: Snapshot) -> Iterable[str]:
        """Return no job: within a pool nothing is evicted."""
        return ()

    # Decisions

    @override
    def suspects(self, work: Work, snapshot: Snapshot, rng: Random) -> list[int] | None:
        if self._plan(work, snapshot) is None:
            return None
        return machines_to_fetch(work, snapshot, self.looks, rng)

    @override
    def place(self, work: Work, snapshot: Snapshot, placement: Placement, rng: Random) -> Sequence[Claim]:
        work.notes.pop(_PLAN, None)
        plan = self._plan(work, snapshot)
        claims = [] if plan is None else plan.place(placement, rng)
        if claims:
            work.notes[_PLAN] = plan
        return claims

    def _plan(self, work: Work, snapshot: Snapshot) -> YoungestTasks | None:
        """Return a plan of evictions for a job; None while its pool may not evict."""
        below = None if snapshot.pools.configured else work.job.precedence
        if work.gang or work.least or not work.remaining or below == 0:
            return None
        self.observe(snapshot, snapshot.now)
        leaf = leaf_of(*work.whose)
        target = self._target(leaf, snapshot.now)
        if target is None:
            return None
        gone: dict[int, int] = {}
        for tasks in self._unsettled.values():
            gone |= {placement: gone.get(placement, 0) + count for placement, count in tasks.items()}
        return YoungestTasks(work, snapshot, target, self._shares, below, gone)

    def assertion(self, work: Work) -> Assertion | None:
        """Return the assertion of the transaction with the claims that `place` just returned for a job."""
        plan: YoungestTasks | None = work.notes.pop(_PLAN, None)
        if plan is None or plan.below is not None:
            return None
        self._unsettled[work.id] = plan.evicted
        lanes = plan.snapshot.lanes.by_leaf()
        evictor, *victims = (
            Threshold((leaf,), share, tuple(lanes.get(leaf, ())))
            for leaf, share in ((plan.leaf, plan.target), *((leaf, plan.shares[leaf]) for leaf in plan.losers))
        )
        return Assertion(evictor, tuple(victims), plan.snapshot.lanes.complete_to)

    def settled(self, transaction: Transaction, outcome: Outcome, now: float) -> None:
        """Process the outcome of a transaction with an assertion."""
        self._unsettled.pop(transaction.job, None)


def _since(times: dict[str, float], leaf: str, now: float, *, is_below: bool) -> None:
    """Record since when a pool has been below a share; a clock that was set back does not lengthen that."""
    if is_below:
        times[leaf] = min(now, times.get(leaf, now))
    else:
        times.pop(leaf, None)
