"""Running tasks in a snapshot: kept only for fetched machines, until these change."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.resources import Resources

MOST_KEPT = 4_096
"""Maximum number of machines with cached residents: about 10 MB with twenty runs on each."""
UNKNOWN = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Resident:
    """A run on a machine, with fields of its job's record; optional tasks have precedence 0.

    `need` are the amounts of one of its `tasks`; `together` counts the tasks that are evicted together with one of them
    (a strict gang, if it has no more than its minimum), 0 when it is alone. `user` and `pool` are those of its job,
    ``""`` for none. Of two residents the one with the higher `placement` started later. `started` is the latest
    possible time of its placement (seconds): exact to a minute for the last 16 minutes, to an eighth of its age up to a
    week, then a week ago or more; the time of the fetch when it was placed within the last minute.
    """

    machine: int
    placement: int
    job: str
    precedence: int
    need: Resources
    tasks: int
    together: int = 0
    user: str = ""
    pool: str = ""
    started: float = 0.0


class Residents:
    """Residents by machine. Those of a machine are valid while its sequence number stays the same."""

    def __init__(self) -> None:
        """Create without machines."""
        self._on: dict[int, tuple[Resident, ...]] = {}
        self._seen: NDArray[np.int64] = np.empty(0, dtype=np.int64)

    def forget(self) -> None:
        """Drop all machines."""
        self._on.clear()
        self._seen[:] = UNKNOWN

    def learn(self, machines: Sequence[int], numbers: NDArray[np.int64], fetched: Iterable[Resident]) -> None:
        """Apply all residents of some machines; `numbers` are the sequence numbers of the snapshot, of every machine.

        They must have been read before the residents: a change in between then shows as a new number.
        """
        self._grow(len(numbers))
        on: dict[int, list[Resident]] = {machine: [] for machine in machines}
        for resident in fetched:
            on[resident.machine].append(resident)
        for machine, residents in on.items():
            self._on.pop(machine, None)
            self._on[machine] = tuple(residents)
            self._seen[machine] = numbers[machine]
        while len(self._on) > MOST_KEPT:
            oldest = next(iter(self._on))
            del self._on[oldest]
            self._seen[oldest] = UNKNOWN

    def known(self, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return the machines with valid residents, given the sequence numbers of all."""
        self._grow(len(numbers))
        known: NDArray[np.bool_] = self._seen[: len(numbers)] == numbers
        return known

    def on(self, machine: int) -> tuple[Resident, ...]:
        """Return the residents of a machine with valid residents."""
        return self._on.get(machine, ())

    def _grow(self, size: int) -> None:
        if size > len(self._seen):
            self._seen = np.concatenate([self._seen, np.full(size - len(self._seen), UNKNOWN, dtype=np.int64)])
