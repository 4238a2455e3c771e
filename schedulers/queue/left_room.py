"""Room that blocked jobs left to jobs of other schedulers: what stayed free is offered to them again."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.snapshot import Snapshot
from omega.schedulers.fitting import Amounts

OFFERED_SECONDS = (0.05, 0.1, 0.15, 0.2, 0.25, 1.0)
"""How long (seconds) room stays free before it is offered again."""
SMALL = 1e-6
Machines = NDArray[np.int64]


@dataclass(slots=True, eq=False)
class LeftRoom:
    """Room that was left at a time (seconds): its number of lines in the table, and how often it was offered."""

    size: int
    since: float
    turns: int = 0
    next_due: float = 0.0
    """When it is offered next (seconds)."""

    def __post_init__(self) -> None:
        self.next_due = self.since + OFFERED_SECONDS[self.turns]

    @property
    def is_last(self) -> bool:
        """Whether it was offered for the last time."""
        return self.turns == len(OFFERED_SECONDS)

    def offered(self) -> float:
        """Count an offer; return how long (seconds) the room stayed free."""
        stayed = OFFERED_SECONDS[self.turns]
        self.turns += 1
        if not self.is_last:
            self.next_due = self.since + OFFERED_SECONDS[self.turns]
        return stayed


@dataclass(slots=True)
class Offer:
    """Room that is offered now: `room` on some machines stayed free for some time (seconds)."""

    machines: Machines
    room: Amounts
    stayed: float


class LeftRooms:
    """All room that was left: each amount of it belongs to one time. One table; a line is a machine of one time."""

    def __init__(self) -> None:
        """Create without room."""
        self._rooms: list[LeftRoom] = []
        self._machines: Machines = np.empty(0, dtype=np.int64)
        self._room: Amounts = np.empty((0, 0), dtype=np.int64)

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self._rooms)

    def follow(self, snapshot: Snapshot, least: Amounts) -> None:
        """Reduce the room to what is free now."""
        if self._rooms:
            np.minimum(self._room, snapshot.amounts(self._machines), out=self._room)
            self._narrow(least)

    def give(self, machines: Machines, room: Amounts, least: Amounts) -> None:
        """Reduce the room of machines to what remains of it after it was given to jobs."""
        if self._rooms and len(machines):
            mine, theirs = self._common(machines)
            self._room[:, mine] = np.minimum(self._room[:, mine], room[:, theirs])
            self._narrow(least)

    def add(self, machines: Machines, room: Amounts, least: Amounts, now: float) -> None:
        """Record that jobs left the room of some machines at a time in seconds; earlier room keeps its time."""
        if self._rooms and len(machines):
            mine, theirs = self._common(machines)
            room = room.copy()
            np.subtract.at(room.T, theirs, self._room[:, mine].T)
        fits = (room >= least[:, None]).all(axis=0)
        size = int(np.count_nonzero(fits))
        if not size:
            return
        machines, room = machines[fits], room[:, fits]
        if self._rooms:
            machines, room = np.concatenate([self._machines, machines]), np.concatenate([self._room, room], axis=1)
        self._machines, self._room = machines, room
        self._rooms.append(LeftRoom(size, now))

    def _common(self, machines: Machines) -> tuple[Machines, Machines]:
        """Return the lines of these machines in the table, and the place in `machines` of each of these lines."""
        places = np.full(1 + max(int(machines.max()), int(self._machines.max())), -1, dtype=np.int64)
        places[machines] = np.arange(len(machines))
        theirs = places[self._machines]
        mine = np.flatnonzero(theirs >= 0)
        return mine, theirs[mine]

    def _narrow(self, least: Amounts) -> None:
        """Drop the lines without room for the least amounts."""
        lines = np.flatnonzero((self._room >= least[:, None]).all(axis=0))
        if len(lines) < len(self._machines):
            self._keep(lines)

    def _keep(self, lines: NDArray[np.int64]) -> None:
        """Drop the other lines, and times without a line."""
        self._machines, self._room = self._machines[lines], self._room[:, lines]
        ends = np.cumsum([0, *(each.size for each in self._rooms)])
        for each, size in zip(self._rooms, np.diff(np.searchsorted(lines, ends)).tolist(), strict=True):
            each.size = size
        self._rooms = [each for each in self._rooms if each.size]

    def due(self, now: float) -> list[Offer]:
        """Return the room that is offered now; room that was offered often enough is dropped.

        What is taken of an offer, before the next call, is taken of the table.
        """
        due = [each for each in self._rooms if each.next_due <= now + SMALL]
        if not due:
            return []
        stayed = {id(each): each.offered() for each in due}
        last = [each.is_last for each in self._rooms]
        offers = self._offers(stayed, last=True) if any(last) else {}
        if any(last):
            self._keep(np.flatnonzero(~np.repeat(last, [each.size for each in self._rooms])))
        offers |= self._offers(stayed, last=False)
        return [offers[id(each)] for each in due]

    def _offers(self, stayed: Mapping[int, float], *, last: bool) -> dict[int, Offer]:
        """Return the offers of room that stayed free so long, as parts of the table: the last ones, or the others."""
        offers, start = dict[int, Offer](), 0
        for each in self._rooms:
            lines = slice(start, start := start + each.size)
            if id(each) in stayed and each.is_last == last:
                offers[id(each)] = Offer(self._machines[lines], self._room[:, lines], stayed[id(each)])
        return offers

    def next_due(self) -> float | None:
        """Return when room is offered next (seconds); None while there is none."""
        return min([each.next_due for each in self._rooms]) if self._rooms else None
