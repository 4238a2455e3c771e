"""Weighted fair sharing among users by dominant share (DRF, NSDI 2011)."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.errors import BadInput
from omega.cellstate.override import override
from omega.cellstate.snapshot import Snapshot
from omega.schedulers.policies import Ordering
from omega.schedulers.work import Work, fitting

LEVEL_SECONDS = 0.05
"""Time in seconds for which the users' shares hold that were computed from what they hold and want."""
_HALVINGS = 40
_SMALL = 1e-6


@dataclass(slots=True)
class FairUsers(Ordering):
    """The next task is for the user with the smallest dominant share ÷ weight; a user's jobs by precedence, then FIFO.

    `weights` by user, default 1. `ageing` as in PrecedenceFifo, among the jobs of one user. No user starves: the share
    of a waiting user falls.
    """

    weights: Mapping[str, float] = field(default_factory=dict)
    ageing: float | None = None
    _snapshot: Snapshot | None = field(default=None, repr=False)
    _level: tuple[float, float] | None = field(default=None, repr=False)
    """Until when (seconds) a level holds, and the dominant share ÷ weight that each user may reach at once."""
    _now: float = field(default=0.0, repr=False)

    def __post_init__(self) -> None:
        for user, weight in self.weights.items():
            if not (isfinite(weight) and weight > 0):
                raise BadInput(f"weight {weight:g} of user {user}; want more than 0")

    @override
    def observe(self, snapshot: Snapshot, now: float) -> None:
        self._snapshot, self._now = snapshot, now
        if self._level is not None and self._level[0] <= now:
            self._level = None

    @override
    def lane(self, work: Work) -> Hashable:
        return work.user

    @override
    def rank(self, lane: Hashable) -> float:
        user = str(lane)
        share = 0.0 if self._snapshot is None else self._snapshot.usage.dominant_share(user=user)
        return share / self.weights.get(user, 1.0)

    @override
    def due(self, work: Work) -> Sequence[int] | None:
        # As many tasks as the user may hold where all users get what they want in proportion to their weights.
        if self._snapshot is None:
            return None
        if self._level is None:
            self._level = self._now + LEVEL_SECONDS, self._fair_level(self._snapshot)
        usage, level = self._snapshot.usage, self._level[1]
        if level == inf:
            return None
        most = level * self.weights.get(work.user, 1.0)
        held = usage.of_user(work.user)
        return fitting(work, [most * all_ - has + _SMALL for has, all_ in zip(held, usage.capacity, strict=True)])

    def _fair_level(self, snapshot: Snapshot) -> float:
        """Return the largest dominant share ÷ weight at which no resource is short; infinite if none is at all."""
        capacity = np.maximum(np.array(snapshot.usage.capacity, dtype=float), _SMALL)
        wanted: dict[str, NDArray[np.float64]] = {}
        for (_, user), amounts in snapshot.usage.by_account().items():
            wanted[user] = wanted.get(user, 0.0) + np.array(amounts, dtype=float).sum(axis=0) / capacity
        parts = np.array([*wanted.values(), np.zeros(len(capacity))])
        if (parts.sum(axis=0) <= 1.0 + _SMALL).all():
            return inf
        most = parts.max(axis=1) / np.array([*(self.weights.get(user, 1.0) for user in wanted), 1.0])
        low, high = 0.0, float(most.max())
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            fits = (np.minimum(1.0, middle / np.maximum(most, _SMALL**2)) @ parts <= 1.0 + _SMALL**2).all()
            low, high = (middle, high) if fits else (low, middle)
        return low

    @override
    def kin(self, lane: Hashable) -> Hashable:
        # A user's rank follows from what the user holds.
        return lane

    @override
    def key(self, work: Work) -> float:
        if self.ageing:
            return work.submitted - self.ageing * work.job.precedence
        return -work.job.precedence
