"""Which running tasks of a job may be evicted for others: three lists in order of start (§10)."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from math import inf, isfinite

import numpy as np

from cellstate.errors import BadInput
from schedulers.fairshare.curves import Floats
from schedulers.fairshare.satisfaction import EPSILON, below


class Preemptible(IntEnum):
    """What may happen to a running task; the larger, the sooner it is evicted."""

    NO = 0
    AGGRESSIVELY = 1
    YES = 2


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Preemption thresholds of a tree; a pool may replace each of them (`replaced`).

    `plain` and `aggressive` are multiples of the fair share. `protected` are amounts as shares below which a job is
    left alone: empty protects nothing, a component that is not named protects without bound. `boundary_is_preemptible`:
    whether the task that crosses a bound stays on the protected side (false, the default) or not.
    """

    plain: float = 1.0
    aggressive: float = 0.2
    protected: Mapping[str, float] = field(default_factory=dict)
    boundary_is_preemptible: bool = False

    def __post_init__(self) -> None:
        for name, value in (("preemption", self.plain), ("aggressive preemption", self.aggressive)):
            if not (isfinite(value) and value >= 0):
                raise BadInput(f"{name} satisfaction threshold {value!r}; want 0 or more")
        if self.aggressive > self.plain:
            raise BadInput(
                f"aggressive preemption satisfaction threshold {self.aggressive:g} is above the plain one,"
                f" {self.plain:g}; want at most that"
            )

    def replaced(self, plain: float | None = None, aggressive: float | None = None) -> "Thresholds":
        """Return these thresholds with those that a pool states itself."""
        low = self.aggressive if aggressive is None else aggressive
        high = self.plain if plain is None else plain
        return Thresholds(high, low, self.protected, self.boundary_is_preemptible)

    def guard(self, resources: Sequence[str]) -> Floats:
        """Return usage, as shares, below which tasks are never preempted."""
        if not self.protected:
            return np.zeros(len(resources))
        return np.array([self.protected.get(name, inf) for name in resources])


class Partition:
    """The running tasks of one job, oldest first, split by what may happen to them.

    Tasks join at the end and leave anywhere; `update` moves the two bounds to where the job's share puts them. A task
    belongs to the first list while the usage before it is within the guard or below aggressive × share, to the second
    while that is below plain × share; the rest is preemptible.
    """

    def __init__(self, resources: Sequence[str], thresholds: Thresholds | None = None) -> None:
        """No task runs."""
        self._thresholds = thresholds or Thresholds()
        self._guard = self._thresholds.guard(resources)
        self._tasks: dict[Hashable, Floats] = {}
        self._of: dict[Hashable, Preemptible] = {}

    def start(self, task: Hashable, share: Sequence[float]) -> None:
        """A task began; `share` is what it takes of the totals. Until the next update it is preemptible."""
        self._tasks[task] = np.array(share, dtype=float)
        self._of[task] = Preemptible.YES

    def end(self, task: Hashable) -> None:
        """A task ended or was evicted."""
        self._tasks.pop(task, None)
        self._of.pop(task, None)

    def usage(self) -> Floats:
        """What all tasks take together."""
        return sum(self._tasks.values(), np.zeros(len(self._guard)))

    def update(self, share: Floats, demand: Floats) -> None:
        """Split by a fair share and a demand of the job. A job whose share is its whole demand has no preemptible."""
        plain = self._thresholds.plain
        if bool((np.abs(share - demand) <= EPSILON).all()) and bool((demand > EPSILON).any()):
            plain = inf
        factors, used, stage = (self._thresholds.aggressive, plain), np.zeros(len(share)), 0
        for task, amount in self._tasks.items():
            tested = used + amount if self._thresholds.boundary_is_preemptible else used
            while stage < 2 and not self._stays(stage, factors[stage], tested, share, demand):
                stage += 1
            self._of[task] = Preemptible(stage)
            used = used + amount

    def _stays(self, stage: int, factor: float, used: Floats, share: Floats, demand: Floats) -> bool:
        if stage == 0 and bool((used < self._guard).all()):
            return True
        with np.errstate(invalid="ignore"):
            bound = np.nan_to_num(share * factor, nan=0.0, posinf=inf)
        return below(bound, used, share, demand)

    def of(self, task: Hashable) -> Preemptible:
        """What may happen to a task; one that is not known is left alone."""
        return self._of.get(task, Preemptible.NO)

    def among(self, least: Preemptible) -> list[Hashable]:
        """Tasks of this list and of those beyond it, the most preemptible and newest first."""
        found = [task for task in self._of if self._of[task] >= least]
        return [
            task
            for kind in (Preemptible.YES, Preemptible.AGGRESSIVELY)
            for task in reversed(found)
            if self._of[task] is kind
        ]
