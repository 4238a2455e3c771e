"""Preemption on one machine: the stages and the back-off (§11).

The regular stage uses free room alone. The aggressive stage places a task of an aggressively starving element in the
room of aggressively preemptible and preemptible tasks, the normal stage one of a starving element in the room of
preemptible ones. Each stage evicts for one task at a time, and a machine rests after an accepted eviction.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.errors import BadInput
from omega.schedulers.fairshare.partition import Preemptible
from omega.schedulers.fairshare.starvation import Status

STAGES: tuple[tuple[Status, Preemptible], ...] = (
    (Status.AGGRESSIVELY_STARVING, Preemptible.AGGRESSIVELY),
    (Status.STARVING, Preemptible.YES),
)
"""The preemptive stages in their order: the jobs that they serve, the least preemptible tasks that they may evict."""


def least_for(status: Status) -> Preemptible | None:
    """Return the least preemptible tasks that an element of this status may evict; None for none."""
    return next((least for served, least in STAGES if status >= served), None)


@dataclass(slots=True)
class Backoff:
    """The rest of machines after evictions: `seconds` from the last accepted eviction by any scheduler there."""

    seconds: float = 0.5
    _last: dict[int, float] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not self.seconds >= 0:
            raise BadInput(f"back-off of {self.seconds:g} s; want 0 or more")

    def evicted(self, machine: int, at: float) -> None:
        """An eviction on a machine was accepted; an attempt that was refused does not count."""
        self._last[machine] = max(at, self._last.get(machine, at))

    def rests(self, machine: int, now: float, seconds: float | None = None) -> bool:
        """Return whether no further eviction is planned there now; `seconds` in place of the usual rest."""
        rest = self.seconds if seconds is None else seconds
        return now < self._last.get(machine, -rest) + rest


class Exchanges:
    """Evictions of other schedulers, as a snapshot shows them.

    One transaction that leaves what is held on a machine as it was, and still raises the machine's number by one, let
    tasks go and started others.
    """

    def __init__(self) -> None:
        """Create without machines."""
        self._rows: NDArray[np.int64] = np.empty((0, 0), dtype=np.int64)

    def seen(self, rows: NDArray[np.int64]) -> list[int]:
        """Return the machines with an exchange since the last call; `rows`: those of the snapshot."""
        before, self._rows = self._rows, rows.copy()
        size = min(before.shape[1], rows.shape[1])
        if not size:
            return []
        once = rows[1, :size] == before[1, :size] + 1
        same = (rows[2:, :size] == before[2:, :size]).all(axis=0)
        return [int(machine) for machine in np.flatnonzero(once & same)]
