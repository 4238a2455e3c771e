"""Preemption on one machine: the stages and the back-off (§11).

The regular stage uses free room alone. The aggressive stage places a task of an aggressively starving element in the
room of aggressively preemptible and preemptible tasks, the normal stage one of a starving element in the room of
preemptible ones. Each stage evicts for one task at a time, and a machine rests after an accepted eviction.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from omega.schedulers.fairshare.partition import Preemptible
from omega.schedulers.fairshare.starvation import Status

BACKOFF_SECONDS = 0.5
"""Time for which a machine rests where its pool sets no other."""


def least_for(status: Status) -> Preemptible | None:
    """Return the least preemptible tasks that an element of this status may evict; None for none."""
    stages = {Status.AGGRESSIVELY_STARVING: Preemptible.AGGRESSIVELY, Status.STARVING: Preemptible.YES}
    return stages.get(status)


@dataclass(slots=True)
class Backoff:
    """The rest of machines after accepted evictions there by any scheduler."""

    _last: dict[int, float] = field(default_factory=dict)
    _rows: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 0), dtype=np.int64))

    def evicted(self, machine: int, at: float) -> None:
        """An eviction on a machine was accepted; an attempt that was refused does not count."""
        self._last[machine] = max(at, self._last.get(machine, at))

    def watch(self, rows: NDArray[np.int64], now: float) -> None:
        """Record evictions by other schedulers since the last call; `rows`: those of the snapshot.

        One transaction that leaves what is held on a machine as it was, and still raises the machine's number by one,
        let tasks go and started others.
        """
        before, self._rows = self._rows, rows.copy()
        if size := min(before.shape[1], rows.shape[1]):
            once = rows[1, :size] == before[1, :size] + 1
            same = (rows[2:, :size] == before[2:, :size]).all(axis=0)
            for machine in np.flatnonzero(once & same).tolist():
                self.evicted(machine, now)

    def rests(self, machine: int, now: float, seconds: float | None = None) -> bool:
        """Return whether no further eviction is planned there now, `seconds` after the last one at most."""
        rest = BACKOFF_SECONDS if seconds is None else seconds
        return now < self._last.get(machine, -rest) + rest
