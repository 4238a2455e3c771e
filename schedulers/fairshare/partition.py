"""Which running tasks of a job may be evicted for others: three lists in order of start (§10)."""

from enum import IntEnum
from math import inf

import numpy as np

from omega.schedulers.fairshare.curves import Floats
from omega.schedulers.fairshare.satisfaction import EPSILON, Triple, below


class Preemptible(IntEnum):
    """What may happen to a running task; the larger, the sooner it is evicted."""

    NO = 0
    AGGRESSIVELY = 1
    YES = 2


class Bounds:
    """What a job keeps of its usage, by its fair share and demand (shares by resource).

    A task belongs to the first list while the usage before it is within the guard or below aggressive × share, to the
    second while that is below ordinary × share; the rest is preemptible. The task that crosses a bound stays on the
    protected side. A job whose share is its whole demand has no task in the last partition.
    """

    def __init__(self, share: Floats, demand: Floats, *, ordinary: float, aggressive: float, guard: Floats) -> None:
        """Compute both bounds. `guard`: usage below which tasks are never preempted."""
        if bool((np.abs(share - demand) <= EPSILON).all()) and bool((demand > EPSILON).any()):
            ordinary = inf
        with np.errstate(invalid="ignore"):
            self._bounds = [np.nan_to_num(share * factor, nan=0.0, posinf=inf) for factor in (aggressive, ordinary)]
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
        vectors: list[tuple[Floats, bool]] = []
        if bool((self._guard > 0).any()):
            vectors.append((self._guard, False))
        open_, bound = self._share < self._demand - EPSILON, self._bounds[least - 1]
        vectors.append((np.where(open_, bound, inf), False) if open_.any() else (bound, True))
        return vectors


def partition(
    tasks: Floats, element: Triple, thresholds: tuple[float, float], protected: Floats | None = None
) -> tuple[int, int]:
    """Split a job's running tasks, oldest first: (non-preemptible, aggressively preemptible); the rest is preemptible.

    `tasks`: share of each task (tasks, resources); `element`: fair share, demand and usage of the job, each
    (resources,); `thresholds`: aggressive and ordinary preemption satisfaction threshold; `protected`: usage (as a
    share) below which tasks are never preempted.
    """
    share, demand, _ = element
    guard = np.zeros(len(share)) if protected is None else protected
    bounds = Bounds(share, demand, ordinary=thresholds[1], aggressive=thresholds[0], guard=guard)
    kinds = [bounds.kind(used) for used in np.cumsum(np.vstack((np.zeros(len(share)), tasks)), axis=0)[:-1]]
    return kinds.count(Preemptible.NO), kinds.count(Preemptible.AGGRESSIVELY)
