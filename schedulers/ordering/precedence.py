"""Precedence, then first in, first out: the most important job first (the default of the shipped schedulers)."""

from collections.abc import Hashable
from dataclasses import dataclass
from math import isfinite

from omega.cellstate.errors import BadInput
from omega.cellstate.override import override
from omega.schedulers.policies import Ordering
from omega.schedulers.work import Work


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
