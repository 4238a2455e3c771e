"""What runs on machines, in a working copy: kept only for machines that somebody looked up, until they change."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cellstate.resources import Resources

MOST_KEPT = 4_096
"""Machines whose residents are kept: about 10 MB with twenty runs on each."""
UNKNOWN = -1


class Resident(NamedTuple):
    """A run on a machine, with what its job's record says of it; optional tasks are of precedence 0.

    `need` are the amounts of one of its `tasks`; `together` counts the tasks that all go when one of it is
    evicted (a strict gang), 0 when it is alone. `user` and `pool` are those of its job, ``""`` when it names
    none. Of two residents the one of the higher `placement` started later. `started` is when it was placed at the
    latest (seconds): to a minute for the last 16 minutes, to an eighth of its age up to a week, then a week ago or
    more; the time of the look-up when it was placed within the last minute.
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
    """Residents by machine. What is known of a machine holds while its sequence number stays the same."""

    def __init__(self) -> None:
        """Know of no machine."""
        self._on: dict[int, tuple[Resident, ...]] = {}
        self._seen: NDArray[np.int64] = np.empty(0, dtype=np.int64)

    def forget(self) -> None:
        """Know of no machine any more."""
        self._on.clear()
        self._seen[:] = UNKNOWN

    def learn(self, machines: Sequence[int], numbers: NDArray[np.int64], found: Iterable[Resident]) -> None:
        """Take over all residents of some machines; `numbers` are the sequence numbers of the copy, of every machine.

        They must have been taken before the residents were read: then a change in between shows as a new number.
        """
        self._grow(len(numbers))
        on: dict[int, list[Resident]] = {machine: [] for machine in machines}
        for resident in found:
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
        """Machines of which it is known what runs there, given the sequence numbers of all."""
        self._grow(len(numbers))
        known: NDArray[np.bool_] = self._seen[: len(numbers)] == numbers
        return known

    def on(self, machine: int) -> tuple[Resident, ...]:
        """What runs on a machine of which that is known."""
        return self._on.get(machine, ())

    def _grow(self, size: int) -> None:
        if size > len(self._seen):
            self._seen = np.concatenate([self._seen, np.full(size - len(self._seen), UNKNOWN, dtype=np.int64)])
