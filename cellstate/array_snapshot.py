"""A snapshot updated by the records of a store: one array per dimension.

`base` is the last state from the store; the working amounts also lack this scheduler's claims with an unknown outcome.
Both are needed: with a commit in flight, a rejected claim must not leave phantom use behind
(docs/decisions/0003-several-jobs-a-call-one-call-in-flight.md).
"""

from array import array
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.model import MachineState
from omega.cellstate.override import override
from omega.cellstate.replies import Reply, Rows, StaleSnapshot
from omega.cellstate.resources import Resources
from omega.cellstate.snapshot import Snapshot, wanted_amounts

Take = tuple[int, Resources, int]
"""(machine, amounts per task, tasks)"""


Earlier = tuple[NDArray[np.int64], Sequence[NDArray[np.int64]], bool]
"""Machines, what was free there by dimension, and whether that is the store's state or this scheduler's room."""
Wanted = tuple[tuple["array[int]", int], ...]
"""Free amounts of the dimensions that a task needs something of, with the amounts that it needs."""
MOST_NEEDS = 1_024
"""Needs whose arrays are kept."""
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
        self._earlier: list[Earlier] = []
        self._freed_count = 0
        self._open: list[Take] = []
        self._flights: list[tuple[NDArray[np.int64], list[Take]]] = []
        """The machines of the claims of each call in flight, and the claims."""
        self._records = np.empty(0, dtype=np.dtype((np.void, 8 * (4 + 2 * dimensions))))
        """The memory of `rows`, a record for each machine: one is copied as a whole."""
        self._base = np.empty((dimensions, 0), dtype=np.int64)
        self._free: list[array[int]] = [array("q") for _ in range(dimensions)]
        self._room: list[NDArray[np.int64]] = [np.empty(0, dtype=np.int64) for _ in range(dimensions)]
        self._number: NDArray[np.int64] = self.rows[1]
        self._wanted: dict[Resources, Wanted] = {}

    @property
    @override
    def free(self) -> Sequence["array[int]"]:
        return self._free

    @property
    @override
    def room(self) -> Sequence[NDArray[np.int64]]:
        return self._room

    @property
    @override
    def base(self) -> NDArray[np.int64]:
        return self._base

    @property
    @override
    def number(self) -> NDArray[np.int64]:
        return self._number

    def _resize(self, size: int) -> None:
        old, width = self.size, 4 + 2 * self.dimensions
        table = np.zeros((size, width), dtype=np.int64)
        table[:, 2] = MachineState.GONE
        base = np.full((self.dimensions, size), -1, dtype=np.int64)
        if old:
            table[:old] = self.rows.T
            base[:, :old] = self._base
        self.rows, self._records, self._base, self.size = table.T, self._as_records(table), base, size
        words = [array("q", bytes(8 * size)) for _ in range(self.dimensions)]
        rooms = [np.frombuffer(word, dtype=np.int64) for word in words]
        for d in range(self.dimensions):
            rooms[d][:] = base[d]
            if old:
                rooms[d][:old] = self._room[d]
        self._free, self._room, self._number, self._wanted = words, rooms, self.rows[1], {}

    def _as_records(self, table: NDArray[np.int64]) -> NDArray[np.void]:
        return np.ascontiguousarray(table).view(self._records.dtype)[:, 0]

    # Updates from the store

    @override
    def apply(self, reply: Reply) -> None:
        if reply.full:
            # Machines that a full read does not list do not exist: they have no room.
            self.rows[2, :] = MachineState.GONE
            self.redescribed += 1
            self._base[:] = -1
            self._restore()
            self.residents.forget()
            self.attributes.stale[:] = True
        elif reply.position.version < self.position.version:
            raise StaleSnapshot
        if reply.lanes is not None:
            self.lanes.apply(reply.lanes, full=reply.full)
        if len(reply.rows):
            self._apply_rows(reply.rows)
        self.position = reply.position

    def _apply_rows(self, rows: Rows) -> None:
        """Apply changed machines; a repeated one has its last state. Claims of this scheduler stay deducted."""
        index = rows[:, 0].copy()
        top = int(index.max()) + 1
        if top > self.size:
            self._resize(max(top, self.size + self.size // 4))
        records, size = self._records, self.dimensions
        before = self.rows[:, index]
        # Of repeated rows the last one wins: NumPy assigns in order.
        records[index] = self._as_records(rows)
        now = records[index].view(np.int64).reshape(-1, 4 + 2 * size).T
        if not np.array_equal(before[2 : 4 + size], now[2 : 4 + size]):
            self.redescribed += 1
        if self.attributes.used:
            self.attributes.note(index, before, now)
            restated = rows[rows[:, 2] != MachineState.UP, 0]
            self.attributes.stale[restated[self.rows[2, restated] == MachineState.UP]] = True
        free = [now[4 + d] - now[4 + size + d] for d in range(size)]
        closed = now[2] != _UP
        for amounts in free:
            closed |= amounts < 0
        if np.count_nonzero(closed):
            for amounts in free:
                amounts[closed] = -1
        earlier = [base[index] for base in self._base]
        for room, base, amounts, known in zip(self._room, self._base, free, earlier, strict=True):
            base[index] = amounts
            more = amounts - known
            more += room[index]
            room[index] = more
        self._note(index, earlier, stated=True)
        self.changes += len(index)

    def _restore(self) -> None:
        for d in range(self.dimensions):
            self._room[d][:] = self._base[d]
        self._retake(None)

    @override
    def freed(self) -> NDArray[np.int64]:
        parts, earlier = self._freed, self._earlier
        self._freed, self._earlier, self._freed_count = [], [], 0
        for index, before, stated in earlier:
            grown = np.zeros(len(index), dtype=np.bool_)
            for now, amounts in zip(self._base if stated else self._room, before, strict=True):
                grown |= now[index] > amounts
            parts.append(index[grown])
        return distinct(parts)

    @override
    def forget_freed(self) -> None:
        self._freed.clear()
        self._earlier.clear()
        self._freed_count = 0

    def _note(self, machines: NDArray[np.int64], amounts: Sequence[NDArray[np.int64]], *, stated: bool) -> None:
        """Note what was free on machines that changed; whether that has grown is compared when `freed` is called.

        A snapshot whose owner never calls it keeps each machine a few times at most.
        """
        self._earlier.append((machines, amounts, stated))
        self._freed_count += len(machines)
        if self._freed_count > 2 * self.size + FREED_KEPT:
            self._freed = [self.freed()]
            self._freed_count = len(self._freed[0])

    def _gained(self, machines: Sequence[int]) -> None:
        if machines:
            self._freed.append(np.array(machines, dtype=np.int64))
            self._freed_count += len(machines)

    def launch(self) -> NDArray[np.int64]:
        """Move the open claims to the claims in flight, until `land`; return their machines."""
        flight, self._open = self._open, []
        machines = np.frombuffer(array("q", [machine for machine, _, _ in flight]), dtype=np.int64)
        self._flights.append((machines, flight))
        self.usage.launch()
        return machines

    def land(self, reply: Reply) -> None:
        """Drop the oldest claims in flight, which were validated, and apply the reply.

        Room from a rejected claim counts as freed: a job may have been blocked because of it.
        """
        index, _ = self._flights.pop(0)
        self.usage.land()
        self._note(index, [room[index] for room in self._room], stated=False)
        if not reply.full:
            for room, base in zip(self._room, self._base, strict=True):
                room[index] = base[index]
            self._retake(set(index.tolist()))
        try:
            self.apply(reply)
        finally:
            self.usage.landed()

    def forget(self) -> None:
        """Drop every claim with an outcome that stays unknown (a new incarnation)."""
        self._flights, self._open = [], []
        self.usage.forget()
        self._restore()

    def _retake(self, machines: set[int] | None) -> None:
        """Deduct the claims on some machines, or on all, whose room is that of the store."""
        for takes in (*(flight for _, flight in self._flights), self._open):
            for machine, need, count in takes:
                if machines is None or machine in machines:
                    for word, amount in zip(self._free, need, strict=True):
                        word[machine] -= amount * count

    # Decisions

    @override
    def with_room(self, room: Sequence[NDArray[np.int64]]) -> Snapshot:
        return Narrowed(self, room)

    @override
    def take(self, machine: int, need: Resources, count: int) -> None:
        free = self._free
        for d, amount in enumerate(need):
            free[d][machine] -= amount * count
        self._open.append((machine, need, count))

    @override
    def fill(self, need: Resources, count: int, start: int, window: int) -> tuple[list[int], list[int], int]:
        # Written out for two resources, which most tasks need.
        wanted = self._wanted.get(need) or self._words(need)
        if len(wanted) != 2:
            return super().fill(need, count, start, window)
        (first, a), (second, b) = wanted
        machines: list[int] = []
        counts: list[int] = []
        machine, size, claimed = start, self.size, self._open
        for _ in range(window):
            has = first[machine]
            if has >= a and (also := second[machine]) >= b:
                fits, x, y = count, a * count, b * count
                if has < x or also < y:
                    fits, most = has // a, also // b
                    fits = min(fits, most)
                    x, y = a * fits, b * fits
                first[machine], second[machine] = has - x, also - y
                claimed.append((machine, need, fits))
                machines.append(machine)
                counts.append(fits)
                count -= fits
                if not count:
                    break
            machine += 1
            if machine == size:
                machine = 0
        return machines, counts, count

    @override
    def fill_all(
        self, need: Resources, tasks: Sequence[int], starts: Sequence[int], window: int
    ) -> list[tuple[list[int], list[int], int]]:
        wanted = self._wanted.get(need) or self._words(need)
        if len(wanted) != 2 or not window or len(starts) < 2:
            return super().fill_all(need, tasks, starts, window)
        (first, a), (second, b) = wanted
        index, (d, _), (e, _) = np.frombuffer(array("q", starts), dtype=np.int64), *wanted_amounts(need)
        columns = zip(tasks, starts, self._room[d][index].tolist(), self._room[e][index].tolist(), strict=True)
        fills: list[tuple[list[int], list[int], int]] = []
        claimed, touched = self._open, set[int]()
        for count, start, has, also in columns:
            if has >= (x := a * count) and also >= (y := b * count) and start not in touched:
                first[start], second[start] = has - x, also - y
                claimed.append((start, need, count))
                touched.add(start)
                fills.append(([start], [count], 0))
                continue
            filled = self.fill(need, count, start, window)
            fills.append(filled)
            touched.update(filled[0])
            if filled[2]:
                break
        return fills

    def _words(self, need: Resources) -> "Wanted":
        if len(self._wanted) >= MOST_NEEDS:
            self._wanted.clear()
        self._wanted[need] = tuple((self._free[d], amount) for d, amount in wanted_amounts(need))
        return self._wanted[need]

    @override
    def take_each(self, need: Resources, machines: list[int], onto: list[int] | None = None) -> list[int]:
        stood: list[int] = [] if onto is None else onto
        wanted = list(zip(self._free, need, strict=True))
        for machine in machines:
            if all(word[machine] >= amount and word[machine] >= 0 for word, amount in wanted):
                self.take(machine, need, 1)
                stood.append(machine)
        return stood

    @override
    def mark(self) -> int:
        return len(self._open)

    @override
    def undo(self, mark: int) -> None:
        for machine, need, count in self._open[mark:]:
            for word, amount in zip(self._free, need, strict=True):
                word[machine] += amount * count
        del self._open[mark:]

    @override
    def holding(self, need: Resources) -> list[int]:
        fits = np.ones(self.size, dtype=np.bool_)
        for room, amount in zip(self._room, need, strict=True):
            fits &= room >= amount
        return np.flatnonzero(fits).tolist()

    @override
    def amounts(self, machines: NDArray[np.int64]) -> NDArray[np.int64]:
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

    fill, fill_all = Snapshot.fill, Snapshot.fill_all

    @property
    @override
    def base(self) -> NDArray[np.int64]:
        return self._whole.base

    @property
    @override
    def allocated(self) -> NDArray[np.int64]:
        return self._whole.allocated

    @override
    def take(self, machine: int, need: Resources, count: int) -> None:
        for word, amount in zip(self._free, need, strict=True):
            word[machine] -= amount * count
        self._taken.append((self.mark(), (machine, need, count)))
        self._whole.take(machine, need, count)

    @override
    def mark(self) -> int:
        return self._whole.mark()

    @override
    def undo(self, mark: int) -> None:
        while self._taken and self._taken[-1][0] >= mark:
            machine, need, count = self._taken.pop()[1]
            for word, amount in zip(self._free, need, strict=True):
                word[machine] += amount * count
        self._whole.undo(mark)

    def apply(self, reply: Reply) -> None:
        """Raise: only the whole snapshot is updated from the store."""
        raise TypeError(reply)
