"""Policies of somebody else: they wrap others, and no part of Omega knows their classes."""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import ClassVar

from omega.cellstate.fairness import Assertion
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Claim, Outcome, Transaction
from omega.cellstate.usage import Whose
from omega.schedulers.ordering.cell_pools import CellPools
from omega.schedulers.policies import Ordering, Peers, Placement, Preemption
from omega.schedulers.preemption.fair_share import FairSharePreemption
from omega.schedulers.scheduler import Scheduler
from omega.schedulers.work import Work


@dataclass
class OwnOrdering(Ordering):
    """The order of another ordering."""

    inner: CellPools = field(default_factory=CellPools)

    def observe(self, snapshot: Snapshot, now: float) -> None:
        self.inner.observe(snapshot, now)

    def lane(self, work: Work) -> Hashable:
        return self.inner.lane(work)

    def rank(self, lane: Hashable) -> float:
        return self.inner.rank(lane)

    def key(self, work: Work) -> float:
        return self.inner.key(work)

    def most(self, work: Work) -> int | None:
        return self.inner.most(work)

    def due(self, work: Work, waiting: Callable[[], int]) -> Sequence[int] | None:
        return self.inner.due(work, waiting)

    def beyond(self, work: Work, stayed: float) -> bool:
        return self.inner.beyond(work, stayed)

    def kin(self, lane: Hashable) -> Hashable | None:
        return self.inner.kin(lane)

    def touched(self, whose: Collection[Whose]) -> Collection[Hashable] | None:
        return self.inner.touched(whose)


@dataclass
class OwnPreemption(Preemption):
    """The victims of another preemption; it keeps its peers."""

    by: ClassVar[str] = "own rules"
    inner: FairSharePreemption = field(default_factory=FairSharePreemption)
    peers: Peers | None = None

    def join(self, peers: Peers) -> None:
        self.peers = peers

    def suspects(self, work: Work, snapshot: Snapshot, rng: Random) -> Sequence[int] | None:
        return self.inner.suspects(work, snapshot, rng)

    def place(self, work: Work, snapshot: Snapshot, placement: Placement, rng: Random) -> Sequence[Claim]:
        return self.inner.place(work, snapshot, placement, rng)

    def observe(self, snapshot: Snapshot, now: float) -> None:
        self.inner.observe(snapshot, now)

    def stirred(self) -> Collection[str]:
        return self.inner.stirred()

    def starving(self) -> Mapping[str, str]:
        return self.inner.starving()

    def entitled(self, leaf: str, snapshot: Snapshot) -> Iterable[str]:
        return self.inner.entitled(leaf, snapshot)

    def assertion(self, work: Work) -> Assertion | None:
        return self.inner.assertion(work)

    def settled(self, transaction: Transaction, outcome: Outcome, now: float) -> None:
        self.inner.settled(transaction, outcome, now)


def wrapped(scheduler: Scheduler) -> Scheduler:
    """Put both policies of a scheduler for pools into own ones."""
    ordering, preemption = scheduler.ordering, scheduler.preemption
    assert isinstance(ordering, CellPools)
    assert isinstance(preemption, FairSharePreemption)
    scheduler.ordering, scheduler.preemption = OwnOrdering(ordering), OwnPreemption(preemption)
    return scheduler
