"""Weighted fair sharing among users by dominant share (DRF, NSDI 2011)."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import ClassVar

from omega.cellstate.errors import BadInput
from omega.cellstate.override import override
from omega.cellstate.snapshot import Snapshot
from omega.schedulers.policies import Ordering
from omega.schedulers.work import Work


@dataclass(slots=True)
class FairUsers(Ordering):
    """The next task is for the user with the smallest dominant share ÷ weight; a user's jobs by precedence, then FIFO.

    `weights` by user, default 1. `ageing` as in PrecedenceFifo, among the jobs of one user. No user starves: the share
    of a waiting user falls.
    """

    portion: ClassVar[int | None] = 16
    weights: Mapping[str, float] = field(default_factory=dict)
    ageing: float | None = None
    _snapshot: Snapshot | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for user, weight in self.weights.items():
            if not (isfinite(weight) and weight > 0):
                raise BadInput(f"weight {weight:g} of user {user}; want more than 0")

    @override
    def observe(self, snapshot: Snapshot, now: float) -> None:
        self._snapshot = snapshot

    @override
    def lane(self, work: Work) -> Hashable:
        return work.user

    @override
    def rank(self, lane: Hashable) -> float:
        user = str(lane)
        share = 0.0 if self._snapshot is None else self._snapshot.usage.dominant_share(user=user)
        return share / self.weights.get(user, 1.0)

    @override
    def kin(self, lane: Hashable) -> Hashable:
        # A user's rank follows from what the user holds.
        return lane

    @override
    def key(self, work: Work) -> float:
        if self.ageing:
            return work.submitted - self.ageing * work.job.precedence
        return -work.job.precedence
