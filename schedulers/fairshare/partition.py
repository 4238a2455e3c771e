"""Which running tasks of a job may be evicted for others: three lists in order of start (§10)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from math import inf, isfinite

import numpy as np

from omega.cellstate.errors import BadInput
from omega.schedulers.fairshare.curves import Floats
from omega.schedulers.fairshare.satisfaction import EPSILON, below


class Preemptible(IntEnum):
    """What may happen to a running task; the larger, the sooner it is evicted."""

    NO = 0
    AGGRESSIVELY = 1
    YES = 2


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Preemption thresholds of a tree.

    `ordinary` and `aggressive` are multiples of the fair share. `protected` are amounts as shares below which a job is
    left alone: empty protects nothing, a component that is not named protects without bound. The task that crosses a
    bound stays on the protected side.
    """

    ordinary: float = 1.0
    aggressive: float = 0.2
    protected: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value in (("preemption", self.ordinary), ("aggressive preemption", self.aggressive)):
            if not (isfinite(value) and value >= 0):
                raise BadInput(f"{name} satisfaction threshold {value!r}; want 0 or more")
        if self.aggressive > self.ordinary:
            raise BadInput(
                f"aggressive preemption satisfaction threshold {self.aggressive:g} is above the ordinary one,"
                f" {self.ordinary:g}; want at most that"
            )

    def guard(self, resources: Sequence[str]) -> Floats:
        """Return usage, as shares, below which tasks are never preempted."""
        if not self.protected:
            return np.zeros(len(resources))
        return np.array([self.protected.get(name, inf) for name in resources])


class Bounds:
    """What a job keeps of its usage, by its fair share and demand (shares by resource).

    A task belongs to the first list while the usage before it is within the guard or below aggressive × share, to the
    second while that is below ordinary × share; the rest is preemptible. A job whose share is its whole demand has no
    task in the last partition.
    """

    def __init__(self, thresholds: Thresholds, guard: Floats, share: Floats, demand: Floats) -> None:
        """Compute both bounds. `guard`: usage below which tasks are never preempted."""
        ordinary = thresholds.ordinary
        if bool((np.abs(share - demand) <= EPSILON).all()) and bool((demand > EPSILON).any()):
            ordinary = inf
        with np.errstate(invalid="ignore"):
            self._bounds = [
                np.nan_to_num(share * factor, nan=0.0, posinf=inf) for factor in (thresholds.aggressive, ordinary)
            ]
        self._guard, self._share, self._demand = guard, share, demand

    def kind(self, used: Floats) -> Preemptible:
        """What may happen to a task of the job, given the usage of the tasks before it."""
        return Preemptible(next((stage for stage in (0, 1) if self._stays(stage, used)), 2))

    def _stays(self, stage: int, used: Floats) -> bool:
        if stage == 0 and bool((used < self._guard).all()):
            return True
        return below(bound=self._bounds[stage], usage=used, share=self._share, demand=self._demand)

    def kept(self, least: Preemptible) -> list[tuple[Floats, bool]]:
        """Return what the job keeps when tasks of this and of later lists go: vectors, each kept in some resource.

        With True it is kept in every resource. A resource that does not count is infinite.
        """
        found: list[tuple[Floats, bool]] = []
        if bool((self._guard > 0).any()):
            found.append((self._guard, False))
        open_, bound = self._share < self._demand - EPSILON, self._bounds[least - 1]
        found.append((np.where(open_, bound, inf), False) if open_.any() else (bound, True))
        return found
