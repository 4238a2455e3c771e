"""A snapshot updated by the records of a store: one array per dimension.

`base` is the last state from the store; the working amounts also lack this scheduler's claims with an unknown outcome.
Both are needed: with a commit in flight, a rejected claim must not leave phantom use behind
(docs/decisions/0003-several-jobs-a-call-one-call-in-flight.md).
"""

from array import array
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cellstate.cell import Reply, Rows, StaleSnapshot
from cellstate.model import MachineState
from cellstate.resources import Resources
from cellstate.snapshot import Snapshot

Take = tuple[int, Resources, int]
"""(machine, amounts per task, tasks)"""


FREED_KEPT = 1_024
"""Freed machines that are noted before repeated ones are dropped."""
_UP = int(MachineState.UP)


def distinct(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the numbers of several arrays, each once, ascending.

    Not with `np.unique`, which imports a package on its first call: the first freed machine would wait 7 ms for it.
    """
    if not parts:
        return np.empty(0, dtype=np.int64)
    numbers = np.sort(np.concatenate(parts))
    first = np.ones(len(numbers), dtype=np.bool_)
    first[1:] = numbers[1:] != numbers[:-1]
    return numbers[first]


class ArraySnapshot(Snapshot):
    """The snapshot of a live scheduler."""

    def __init__(self, dimensions: int) -> None:
        """Create an empty snapshot of a cell with `dimensions` resources."""
        super().__init__(dimensions)
        self._freed: list[NDArray[np.int64]] = []
        self._freed_count = 0
        self._open: list[Take] = []
        self._flights: list[list[Take]] = []
        self._base = np.empty((dimensions, 0), dtype=np.int64)
        self._free: list[array[int]] = [array("q") for _ in range(dimensions)]
        self._room: list[NDArray[np.int64]] = [np.empty(0, dtype=np.int64) for _ in range(dimensions)]
        self._number: NDArray[np.int64] = self.rows[1]

    @property
    def free(self) -> Sequence["array[int]"]:
        """See Snapshot."""
        return self._free

    @property
    def room(self) -> Sequence[NDArray[np.int64]]:
        """See Snapshot."""
        return self._room

    @property
    def base(self) -> NDArray[np.int64]:
        """See Snapshot."""
        return self._base

    @property
    def number(self) -> NDArray[np.int64]:
        """See Snapshot."""
        return self._number

    def _resize(self, size: int) -> None:
        old = self.size
        width = 4 + 2 * self.dimensions
        rows = np.zeros((width, size), dtype=np.int64)
        rows[2, :] = MachineState.GONE
        base = np.full((self.dimensions, size), -1, dtype=np.int64)
        if old:
            rows[:, :old] = self.rows
            base[:, :old] = self._base
        self.rows, self._base, self.size = rows, base, size
        words = [array("q", bytes(8 * size)) for _ in range(self.dimensions)]
        rooms = [np.frombuffer(word, dtype=np.int64) for word in words]
        for d in range(self.dimensions):
            rooms[d][:] = base[d]
            if old:
                rooms[d][:old] = self._room[d]
        self._free, self._room, self._number = words, rooms, rows[1]

    # Updates from the store

    def apply(self, reply: Reply) -> None:
        """See Snapshot.apply."""
        self._apply(reply, set())

    def _apply(self, reply: Reply, machines: set[int]) -> None:
        """Apply a reply; `machines` have the room of the store without the claims of this scheduler."""
        if reply.full:
            # Machines that a full read does not list do not exist: they have no room.
            self.rows[2, :] = MachineState.GONE
            self._base[:] = -1
            for room in self._room:
                room[:] = -1
            self.residents.forget()
            self.attributes.stale[:] = True
        elif reply.position.version < self.position.version:
            raise StaleSnapshot
        if reply.lanes is not None:
            self.lanes.apply(reply.lanes, full=reply.full)
        if len(reply.rows):
            self._apply_rows(reply.rows, machines)
        elif reply.full:
            self._restore()
        elif machines:
            self._retake(machines)
        self.position = reply.position

    def _apply_rows(self, rows: Rows, others: set[int]) -> None:
        """Apply changed machines; a repeated one has its last state. `others` are claimed again with them."""
        index = rows[:, 0]
        top = int(index.max()) + 1
        if top > self.size:
            self._resize(max(top, self.size + self.size // 4))
        size = self.dimensions
        before = self.rows[:, index] if self.attributes.used else None
        # Of repeated rows the last one wins: NumPy assigns in order.
        self.rows[:, index] = rows.T
        now = self.rows[:, index]
        if before is not None:
            self.attributes.note(index, before, now)
            restated = rows[rows[:, 2] != MachineState.UP, 0]
            self.attributes.stale[restated[self.rows[2, restated] == MachineState.UP]] = True
        free = now[4 : 4 + size] - now[4 + size :]
        free[:, (now[2] != _UP) | (np.minimum.reduce(free) < 0)] = -1
        grown = np.logical_or.reduce(free > self._base[:, index])
        if grown.any():
            self._free_again(index[grown])
        self._base[:, index] = free
        for room, amounts in zip(self._room, free, strict=True):
            room[index] = amounts
        self._retake(others.union(index.tolist()))
        self.changes += len(index)

    def _restore(self) -> None:
        for d in range(self.dimensions):
            self._room[d][:] = self._base[d]
        self._retake(None)

    def freed(self) -> NDArray[np.int64]:
        """See Snapshot.freed."""
        parts, self._freed, self._freed_count = self._freed, [], 0
        return distinct(parts)

    def forget_freed(self) -> None:
        """See Snapshot.forget_freed."""
        self._freed.clear()
        self._freed_count = 0

    def _free_again(self, machines: NDArray[np.int64]) -> None:
        """Note freed room. A snapshot whose owner never asks for it keeps each machine a few times at most."""
        self._freed.append(machines)
        self._freed_count += len(machines)
        if self._freed_count > 2 * self.size + FREED_KEPT:
            self._freed = [self.freed()]
            self._freed_count = len(self._freed[0])

    def _gained(self, machines: Sequence[int]) -> None:
        if machines:
            self._free_again(np.array(machines, dtype=np.int64))

    def launch(self) -> list[int]:
        """Move the open claims to the claims in flight, until `land`; return their machines."""
        flight, self._open = self._open, []
        self._flights.append(flight)
        self.usage.launch()
        return [machine for machine, _, _ in flight]

    def land(self, reply: Reply) -> None:
        """Drop the oldest claims in flight, which were validated, and apply the reply.

        Room from a rejected claim counts as freed: a job may have been blocked because of it.
        """
        machines = {machine for machine, _, _ in self._flights.pop(0)}
        self.usage.land()
        index = np.fromiter(machines, np.int64, len(machines))
        before = [room[index] for room in self._room]
        if not reply.full:
            for room, base in zip(self._room, self._base, strict=True):
                room[index] = base[index]
        self._apply(reply, machines)
        grown = np.zeros(len(index), dtype=np.bool_)
        for room, earlier in zip(self._room, before, strict=True):
            grown |= room[index] > earlier
        if grown.any():
            self._free_again(index[grown])

    def forget(self) -> None:
        """Drop every claim with an outcome that stays unknown (a new incarnation)."""
        self._flights, self._open = [], []
        self.usage.forget()
        self._restore()

    def _retake(self, machines: set[int] | None) -> None:
        for takes in (*self._flights, self._open):
            self._take_again(takes, machines)

    def _take_again(self, takes: Sequence[Take], machines: set[int] | None) -> None:
        for machine, need, count in takes:
            if machines is None or machine in machines:
                for word, amount in zip(self._free, need, strict=True):
                    word[machine] -= amount * count

    # Decisions

    def narrow(self, mask: NDArray[np.bool_]) -> Snapshot:
        """See Snapshot.narrow."""
        return narrow(self, mask)

    def relieve(self, extra: NDArray[np.int64], disturbs: NDArray[np.float64]) -> Snapshot:
        """See Snapshot.relieve."""
        return relieve(self, extra, disturbs)

    def take(self, machine: int, need: Resources, count: int) -> None:
        """See Snapshot.take."""
        free = self._free
        for d, amount in enumerate(need):
            free[d][machine] -= amount * count
        self._open.append((machine, need, count))

    def take_each(self, need: Resources, machines: list[int], onto: list[int] | None = None) -> list[int]:
        """See Snapshot.take_each."""
        stood: list[int] = [] if onto is None else onto
        wanted = list(zip(self._free, need, strict=True))
        for machine in machines:
            if all(word[machine] >= amount and word[machine] >= 0 for word, amount in wanted):
                self.take(machine, need, 1)
                stood.append(machine)
        return stood

    def mark(self) -> int:
        """See Snapshot.mark."""
        return len(self._open)

    def undo(self, mark: int) -> None:
        """See Snapshot.undo."""
        for machine, need, count in self._open[mark:]:
            for word, amount in zip(self._free, need, strict=True):
                word[machine] += amount * count
        del self._open[mark:]

    def holding(self, need: Resources) -> list[int]:
        """See Snapshot.holding."""
        fits = np.ones(self.size, dtype=np.bool_)
        for room, amount in zip(self._room, need, strict=True):
            fits &= room >= amount
        return np.flatnonzero(fits).tolist()

    def amounts(self, machines: NDArray[np.int64]) -> NDArray[np.int64]:
        """See Snapshot.amounts."""
        return np.stack([room[machines] for room in self._room])


class Narrowed(ArraySnapshot):
    """A snapshot with other room, for one decision of a placement policy; it is not updated from a store."""

    def __init__(self, whole: Snapshot, room: Sequence[NDArray[np.int64]]) -> None:
        """Create with this room, by dimension."""
        self.__dict__.update(whole.__dict__)
        self._whole, self._number = whole, whole.number
        self._taken: list[tuple[int, Take]] = []
        self._free = [array("q", amounts.tobytes()) for amounts in room]
        self._room = [np.frombuffer(word, dtype=np.int64) for word in self._free]

    @property
    def base(self) -> NDArray[np.int64]:
        """See Snapshot."""
        return self._whole.base

    @property
    def allocated(self) -> NDArray[np.int64]:
        """See Snapshot."""
        return self._whole.allocated

    def take(self, machine: int, need: Resources, count: int) -> None:
        """See Snapshot.take."""
        for word, amount in zip(self._free, need, strict=True):
            word[machine] -= amount * count
        self._taken.append((self.mark(), (machine, need, count)))
        self._whole.take(machine, need, count)

    def mark(self) -> int:
        """See Snapshot.mark."""
        return self._whole.mark()

    def undo(self, mark: int) -> None:
        """See Snapshot.undo."""
        while self._taken and self._taken[-1][0] >= mark:
            machine, need, count = self._taken.pop()[1]
            for word, amount in zip(self._free, need, strict=True):
                word[machine] += amount * count
        self._whole.undo(mark)

    def apply(self, reply: Reply) -> None:
        """Raise: only the whole snapshot is updated from the store."""
        raise TypeError(reply)


def narrow(whole: Snapshot, mask: NDArray[np.bool_]) -> Snapshot:
    """Return a snapshot with room only on the machines in `mask`; see Snapshot.narrow."""
    return Narrowed(whole, [np.where(mask, room, -1) for room in whole.room])


def relieve(whole: Snapshot, extra: NDArray[np.int64], disturbs: NDArray[np.float64]) -> Snapshot:
    """Return a snapshot with `extra` room; see Snapshot.relieve."""
    relieved = Narrowed(whole, [room + more for room, more in zip(whole.room, extra, strict=True)])
    relieved.disturbs = disturbs
    return relieved
