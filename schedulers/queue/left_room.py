"""Room that blocked jobs left to jobs of other schedulers: what stayed free is offered to them again."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.snapshot import Snapshot
from omega.schedulers.fitting import Amounts

LEFT_SECONDS = 0.05
"""Interval in seconds at which left room is offered again."""
MOST_TURNS = 5
"""Maximum number of times that it is offered."""
_SMALL = 1e-6
Machines = NDArray[np.int64]


@dataclass(slots=True, eq=False)
class LeftRoom:
    """Room on some machines that was left at a time (seconds), as far as it is still free; how often it was offered."""

    machines: Machines
    room: Amounts
    since: float
    turns: int = 0

    @property
    def next_due(self) -> float:
        """When it is offered next (seconds)."""
        return self.since + LEFT_SECONDS * (self.turns + 1)

    @property
    def stayed(self) -> float:
        """How long it stayed free at its last offer (seconds)."""
        return LEFT_SECONDS * self.turns

    def narrow(self, least: Amounts) -> bool:
        """Drop the machines without room for the least amounts; return whether any remain."""
        fits = (self.room >= least[:, None]).all(axis=0)
        self.machines, self.room = self.machines[fits], self.room[:, fits]
        return bool(len(self.machines))


@dataclass(slots=True)
class LeftRooms:
    """All room that was left: each amount of it belongs to one time."""

    rooms: list[LeftRoom] = field(default_factory=list)

    def follow(self, snapshot: Snapshot, least: Amounts) -> None:
        """Reduce the room to what is free now."""
        for each in self.rooms:
            np.minimum(each.room, snapshot.amounts(each.machines), out=each.room)
        self._narrow(least)

    def give(self, machines: Machines, room: Amounts, least: Amounts) -> None:
        """Reduce the room of machines to what remains of it after it was given to jobs."""
        for each in self.rooms:
            mine, theirs = _common(each.machines, machines)
            each.room[:, mine] = np.minimum(each.room[:, mine], room[:, theirs])
        self._narrow(least)

    def add(self, machines: Machines, room: Amounts, least: Amounts, now: float) -> None:
        """Record that jobs left the room of some machines at a time in seconds; earlier room keeps its time."""
        room = room.copy()
        for each in self.rooms:
            mine, theirs = _common(machines, each.machines)
            room[:, mine] -= each.room[:, theirs]
        left = LeftRoom(machines, room, now)
        if left.narrow(least):
            self.rooms.append(left)

    def _narrow(self, least: Amounts) -> None:
        self.rooms = [each for each in self.rooms if each.narrow(least)]

    def due(self, now: float) -> list[LeftRoom]:
        """Return the room that is offered now; room that was offered often enough is dropped."""
        due = [each for each in self.rooms if each.next_due <= now + _SMALL]
        for each in due:
            each.turns += 1
        self.rooms = [each for each in self.rooms if each.turns < MOST_TURNS]
        return due

    def next_due(self) -> float | None:
        """Return when room is offered next (seconds); None while there is none."""
        return min((each.next_due for each in self.rooms), default=None)


def _common(these: Machines, those: Machines) -> tuple[Machines, Machines]:
    """Return the places of the common machines in both lists."""
    _, here, there = np.intersect1d(these, those, assume_unique=True, return_indices=True)
    return here, there
