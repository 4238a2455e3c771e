"""The table of left room against a list of amounts by machine, one for each time at which room was left."""

from dataclasses import dataclass, field
from random import Random

import numpy as np
import pytest

from omega.cellstate.snapshot import Snapshot
from omega.schedulers.queue.left_room import OFFERED_SECONDS, LeftRooms
from omega.testing import snapshot
from tests.unit.schedulers.drive import say

LEAST = np.array([2, 1])
MACHINES = 6
Room = dict[int, tuple[int, int]]


@dataclass
class Times:
    """What `LeftRooms` promises, as a dictionary for each time: since when, how often offered, and the room."""

    rooms: list[tuple[float, int, Room]] = field(default_factory=list)

    def set(self, room_of: "list[Room]") -> None:
        """Set what is left of each time."""
        kept = [{m: has for m, has in room.items() if has[0] >= 2 and has[1] >= 1} for room in room_of]
        self.rooms = [(at, turns, room) for (at, turns, _), room in zip(self.rooms, kept, strict=True) if room]

    def lower(self, most: Room) -> None:
        """Leave no more of these machines."""
        self.set([{m: least(has, most.get(m, has)) for m, has in room.items()} for _, _, room in self.rooms])

    def add(self, more: Room, now: float) -> None:
        """Add the room that is in no earlier time."""
        for _, _, room in self.rooms:
            more = {m: (x - room.get(m, (0, 0))[0], y - room.get(m, (0, 0))[1]) for m, (x, y) in more.items()}
        self.rooms.append((now, 0, more))
        self.set([room for _, _, room in self.rooms])

    def due(self, now: float) -> list[tuple[float, Room]]:
        """Return what is offered, and for how long it stayed free."""
        due = [at + OFFERED_SECONDS[turns] <= now + 1e-6 for at, turns, _ in self.rooms]
        raised = [(at, turns + is_due, room) for (at, turns, room), is_due in zip(self.rooms, due, strict=True)]
        self.rooms = [each for each in raised if each[1] < len(OFFERED_SECONDS)]
        return [(OFFERED_SECONDS[turns - 1], room) for (_, turns, room), now in zip(raised, due, strict=True) if now]


def least(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return min(one[0], other[0]), min(one[1], other[1])


def drawn(rng: Random) -> Room:
    return {m: (rng.randint(0, 9), rng.randint(0, 5)) for m in sorted(rng.sample(range(MACHINES), rng.randint(1, 5)))}


def arrays(room: Room) -> tuple[np.ndarray, np.ndarray]:
    return np.array(list(room), dtype=np.int64), np.array(list(room.values()), dtype=np.int64).T.copy()


def free(copy: Snapshot, rng: Random) -> Room:
    for machine, (x, y) in drawn(rng).items():
        say(copy, machine, x, y)
    found = copy.amounts(np.arange(MACHINES)).T.tolist()
    return {m: (x, y) for m, (x, y) in enumerate(found)}


@pytest.mark.parametrize("seed", range(20))
def test_each_amount_of_left_room_belongs_to_one_time(seed: int) -> None:
    rng, copy = Random(seed), snapshot(*[(9, 5)] * MACHINES)
    table, times = LeftRooms(), Times()
    now, offers = 0.0, 0
    for _ in range(60):
        now += rng.choice([0.0, 0.02, 0.05])
        times.lower(free(copy, rng))
        table.follow(copy, LEAST)
        given = drawn(rng)
        times.lower(given)
        table.give(*arrays(given), LEAST)
        left = drawn(rng)
        times.add(left, now)
        table.add(*arrays(left), LEAST, now)
        wanted = times.due(now)
        found = table.due(now)
        assert [
            (each.stayed, dict(zip(each.machines.tolist(), map(tuple, each.room.T.tolist()), strict=True)))
            for each in found
        ] == wanted
        if found:  # a task takes what it needs of an offer
            offers += len(found)
            found[0].room[:, 0] -= LEAST
            first = next(iter(wanted[0][1]))
            x, y = wanted[0][1][first]
            wanted[0][1][first] = x - 2, y - 1
        waits = [at + OFFERED_SECONDS[turns] for at, turns, _ in times.rooms]
        assert table.next_due() == min(waits, default=None)
    assert offers > 9
