"""Shortest expected task duration first."""

from dataclasses import dataclass
from math import inf

from omega.cellstate.errors import BadInput
from omega.cellstate.override import override
from omega.schedulers.policies import Ordering
from omega.schedulers.work import Work


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
