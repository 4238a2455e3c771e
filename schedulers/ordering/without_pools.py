"""Orderings without pools: first in first out, by precedence, shortest first, and fair sharing among users."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite
from typing import ClassVar

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


@dataclass(frozen=True, slots=True)
class Fifo(Ordering):
    """Jobs in order of submission; a job that backs off comes back to its place when it is due."""


@dataclass(frozen=True, slots=True)
class Rejoin(Ordering):
    """Jobs in the order in which they joined: on submission, or when they are due for a retry."""

    rejoins: ClassVar[bool] = True

    @override
    def key(self, work: Work) -> float:
        return work.not_before or work.submitted


@dataclass(frozen=True, slots=True)
class PrecedenceFifo(Ordering):
    """Jobs of higher precedence first, among equals those submitted first.

    `ageing` (seconds): each such time of waiting raises a job by one step of precedence, so a stream of important jobs
    delays others only for a time. None: precedence alone.
    """

    ageing: float | None = None

    def __post_init__(self) -> None:
        if self.ageing is not None and not (isfinite(self.ageing) and self.ageing > 0):
            raise BadInput(f"ageing of {self.ageing:g} s; want more than 0")

    @override
    def lane(self, work: Work) -> Hashable:
        return () if self.ageing else work.job.precedence

    @override
    def rank(self, lane: Hashable) -> float:
        return -lane if isinstance(lane, int) else 0.0

    @override
    def key(self, work: Work) -> float:
        # All jobs age at the same rate, so their order never changes.
        return work.submitted - self.ageing * work.job.precedence if self.ageing else 0.0


@dataclass(frozen=True, slots=True)
class ShortestFirst(Ordering):
    """Jobs by the field ``expected_duration`` (seconds a task), those without one last.

    `ageing`: seconds of expected duration deducted for each second of waiting; with 0 a stream of short jobs can starve
    long ones. `unknown` (seconds) is the assumed duration of a job without the field; None: longer than all.
    """

    ageing: float = 0.0
    unknown: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.ageing < inf:
            raise BadInput(f"ageing of {self.ageing:g}; want 0 or more seconds for each second of waiting")

    @override
    def key(self, work: Work) -> float:
        # All jobs age at the same rate, so their order never changes.
        expected = work.expected_seconds
        if expected is None:
            expected = 1e12 if self.unknown is None else self.unknown
        return expected + self.ageing * work.submitted


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
    def due(self, work: Work, waiting: Callable[[], int]) -> Sequence[int] | None:
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
