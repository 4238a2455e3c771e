"""The snapshot of a cell on which a scheduler decides, with its own claims as a working copy.

One row per machine, one array per dimension. `base` is the last state from the store; the working amounts also lack
this scheduler's claims with an unknown outcome. Both are needed: with a commit in flight, a rejected claim must not
leave phantom use behind (docs/decisions/0003-several-jobs-a-call-one-call-in-flight.md).
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from cellstate.attributes import Attributes
from cellstate.cell import KindUse, Reply, Rows, StaleSnapshot
from cellstate.lanes import Lanes
from cellstate.model import Described, MachineState
from cellstate.pool_records import PoolUse
from cellstate.pools import Epoch, Pools
from cellstate.residents import Residents
from cellstate.resources import Resources
from cellstate.transaction import Position
from cellstate.usage import Usage

Take = tuple[int, Resources, int]
"""(machine, amounts per task, tasks)"""


class Snapshot:
    """A cell of any size; starts empty and grows with the rows it receives.

    `free[d]` is an array of machine words per dimension d: -1 where the machine takes nothing (drained, down, gone,
    over). Element access is as fast as a list's; `room[d]` is the same memory as a NumPy vector. `number` has the
    sequence numbers at the last sync. `attributes`, `placed` (tasks by machine of a job, by its id), `others` (the same
    by a job's name) and `residents` have only fetched data. `moved` are the names of others with changed machines, and
    `use` the limits of a kind and their use, both until they are processed. `disturbs`, if set, is how much a claim
    would disturb running tasks on each machine, 0 to 1. `now` is the time of the decision (seconds), `usage` the use of
    users and pools, `pools` the configured pools and `epoch` the published fair shares, both at most a period of epochs
    old.
    """

    def __init__(self, dimensions: int) -> None:
        """Create an empty snapshot of a cell with `dimensions` resources."""
        self.dimensions = dimensions
        self.now = 0.0
        self.usage = Usage(dimensions)
        self.lanes = Lanes(dimensions, self.usage)
        self.pools = Pools()
        self.pool_use: Mapping[str, PoolUse] = {}
        self.epoch: Epoch | None = None
        self.position = Position()
        self.size = 0
        self.changes = 0
        self._total: Resources = (0,) * dimensions
        self._total_at = -1
        self._attributes = Attributes()
        self.placed: Mapping[str, Mapping[int, int]] = {}
        self.others: Mapping[str, Mapping[int, int]] = {}
        self.moved: set[str] = set()
        self.use: KindUse | None = None
        self.residents = Residents()
        self.disturbs: NDArray[np.float64] | None = None
        self._freed: list[NDArray[np.int64]] = []
        self._open: list[Take] = []
        self._flights: list[list[Take]] = []
        self.rows = np.empty((4 + 2 * dimensions, 0), dtype=np.int64)
        self.base = np.empty((dimensions, 0), dtype=np.int64)
        self.free: list[array[int]] = [array("q") for _ in range(dimensions)]
        self.room: list[NDArray[np.int64]] = [np.empty(0, dtype=np.int64) for _ in range(dimensions)]
        self.number: NDArray[np.int64] = self.rows[1]

    def _resize(self, size: int) -> None:
        old = self.size
        width = 4 + 2 * self.dimensions
        rows = np.zeros((width, size), dtype=np.int64)
        rows[2, :] = MachineState.GONE
        base = np.full((self.dimensions, size), -1, dtype=np.int64)
        if old:
            rows[:, :old] = self.rows
            base[:, :old] = self.base
        self.rows, self.base, self.size = rows, base, size
        words = [array("q", bytes(8 * size)) for _ in range(self.dimensions)]
        rooms = [np.frombuffer(word, dtype=np.int64) for word in words]
        for d in range(self.dimensions):
            rooms[d][:] = base[d]
            if old:
                rooms[d][:old] = self.room[d]
        self.free, self.room = words, rooms
        self.number = rows[1]

    @property
    def attributes(self) -> Attributes:
        """Names and attributes of the machines, as far as they were fetched."""
        if self._attributes.size < self.size:
            self._attributes.resize(self.size)
        return self._attributes

    @property
    def capacity(self) -> NDArray[np.int64]:
        """Capacity, (dimensions, machines)."""
        return self.rows[4 : 4 + self.dimensions]

    @property
    def allocated(self) -> NDArray[np.int64]:
        """Allocated amounts in the store, (dimensions, machines)."""
        return self.rows[4 + self.dimensions :]

    @property
    def up(self) -> NDArray[np.bool_]:
        """Which machines are up."""
        up: NDArray[np.bool_] = self.rows[2] == MachineState.UP
        return up

    @property
    def simulated(self) -> NDArray[np.bool_]:
        """Which machines are simulated: their executors run no command."""
        simulated: NDArray[np.bool_] = self.rows[3] % 2 == 1
        return simulated

    def executors(self, machines: Iterable[int]) -> set[int]:
        """Return the executor numbers of some machines."""
        column = self.rows[3]
        return {int(column[machine]) for machine in machines}

    # Updates from the store

    def apply(self, reply: Reply) -> None:
        """Apply the reply to a sync or a commit. Raises StaleSnapshot for a delta that does not fit."""
        if reply.full:
            # Machines that a full read does not list do not exist: they have no room.
            self.rows[2, :] = MachineState.GONE
            self.base[:] = -1
            for room in self.room:
                room[:] = -1
            self.residents.forget()
            self.attributes.stale[:] = True
        elif reply.position.version < self.position.version:
            raise StaleSnapshot
        if reply.lanes is not None:
            self.lanes.apply(reply.lanes, full=reply.full)
        if len(reply.rows):
            self._apply_rows(reply.rows)
        elif reply.full:
            self._restore()
        self.position = reply.position

    def _apply_rows(self, rows: Rows) -> None:
        index = rows[:, 0]
        top = int(index.max()) + 1
        if top > self.size:
            self._resize(max(top, self.size + self.size // 4))
        size = self.dimensions
        each = np.unique(index) if len(index) > 1 else index
        before = self.rows[:, each] if self.attributes.used else None
        # Of repeated rows the last one wins: NumPy assigns in order.
        self.rows[:, index] = rows.T
        index = each
        now = self.rows[:, index]
        if before is not None:
            self.attributes.note(index, before, now)
            restated = rows[rows[:, 2] != MachineState.UP, 0]
            self.attributes.stale[restated[self.rows[2, restated] == MachineState.UP]] = True
        free = now[4 : 4 + size] - now[4 + size :]
        free[:, (now[2] != MachineState.UP) | (free < 0).any(axis=0)] = -1
        grown = (free > self.base[:, index]).any(axis=0)
        if grown.any():
            self._freed.append(index[grown])
        self.base[:, index] = free
        for d in range(size):
            self.room[d][index] = free[d]
        self._retake(set(index.tolist()))
        self.changes += len(index)

    def _restore(self) -> None:
        for d in range(self.dimensions):
            self.room[d][:] = self.base[d]
        self._retake(None)

    def freed(self) -> NDArray[np.int64]:
        """Return machines that gained room since the last call; blocked jobs are tested against them."""
        parts, self._freed = self._freed, []
        return np.unique(np.concatenate(parts)) if parts else np.empty(0, dtype=np.int64)

    def forget_freed(self) -> None:
        """Drop freed machines: no job is blocked."""
        self._freed.clear()

    def describe(self, machines: Sequence[int] | NDArray[np.intp], described: Iterable[Described]) -> None:
        """Apply names and attributes; machines with changed ones count as freed for blocked jobs."""
        changed = self.attributes.learn(machines, described)
        if changed:
            self._freed.append(np.array(changed, dtype=np.int64))

    # Decisions

    def narrow(self, mask: NDArray[np.bool_]) -> "Snapshot":
        """Return this snapshot with room only on the machines in `mask`, for one decision; claims affect both."""
        return Narrowed(self, [np.where(mask, room, -1) for room in self.room])

    def relieve(self, extra: NDArray[np.int64], disturbs: NDArray[np.float64]) -> "Snapshot":
        """Return this snapshot with `extra` room (dimensions × machines), as `narrow` does.

        `extra` is the room that evictions would free, and `disturbs` their disturbance.
        """
        relieved = Narrowed(self, [room + more for room, more in zip(self.room, extra, strict=True)])
        relieved.disturbs = disturbs
        return relieved

    def take(self, machine: int, need: Resources, count: int) -> None:
        """Mark tasks as claimed in the working amounts."""
        for word, amount in zip(self.free, need, strict=True):
            word[machine] -= amount * count
        self._open.append((machine, need, count))

    def take_each(self, need: Resources, machines: list[int], onto: list[int] | None = None) -> list[int]:
        """Claim one task on each machine in turn if it still fits; return the machines of the claims, in order.

        They are appended to `onto`, the list that the last call for the same need returned.
        """
        stood: list[int] = [] if onto is None else onto
        wanted = list(zip(self.free, need, strict=True))
        for machine in machines:
            if all(word[machine] >= amount and word[machine] >= 0 for word, amount in wanted):
                self.take(machine, need, 1)
                stood.append(machine)
        return stood

    @property
    def scope(self) -> int:
        """Number of machines that `holding` examines."""
        return self.size

    def holding(self, need: Resources) -> list[int]:
        """Return the machines with room for one more task of this need."""
        fits = np.ones(self.size, dtype=np.bool_)
        for room, amount in zip(self.room, need, strict=True):
            fits &= room >= amount
        return np.flatnonzero(fits).tolist()

    def amounts(self, machines: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the free amounts of some machines, (dimensions, machines); -1 where one takes nothing."""
        return np.stack([room[machines] for room in self.room])

    def mark(self) -> int:
        """Return the position of the open claims for `undo`."""
        return len(self._open)

    def undo(self, mark: int) -> None:
        """Undo the claims since `mark` (a gang that does not fit as a whole)."""
        for machine, need, count in self._open[mark:]:
            for word, amount in zip(self.free, need, strict=True):
                word[machine] += amount * count
        del self._open[mark:]

    def launch(self) -> None:
        """Move the open claims to the claims in flight, until `land`."""
        self._flights.append(self._open)
        self._open = []
        self.usage.launch()

    def land(self, reply: Reply) -> None:
        """Drop the oldest claims in flight, which were validated, and apply the reply.

        Room from a rejected claim counts as freed: a job may have been blocked because of it.
        """
        machines = {machine for machine, _, _ in self._flights.pop(0)}
        self.usage.land()
        index = np.fromiter(machines, np.int64, len(machines))
        before = [room[index] for room in self.room]
        if not reply.full:
            for room, base in zip(self.room, self.base, strict=True):
                room[index] = base[index]
            self._retake(machines)
        self.apply(reply)
        grown = np.zeros(len(index), dtype=np.bool_)
        for room, earlier in zip(self.room, before, strict=True):
            grown |= room[index] > earlier
        if grown.any():
            self._freed.append(index[grown])

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
                for word, amount in zip(self.free, need, strict=True):
                    word[machine] -= amount * count

    def total(self) -> Resources:
        """The capacity of the machines that are up, by dimension."""
        if self._total_at != self._described:
            self._total_at = self._described
            self._total = tuple(int(amount) for amount in self.capacity @ self.up)
        return self._total

    @property
    def _described(self) -> int:
        """A number that changes with capacities or states of machines."""
        return self.changes

    def utilisation(self) -> list[float]:
        """Return the allocated share of the capacity that is up, per dimension."""
        up = self.up
        capacity, allocated = self.capacity[:, up].sum(axis=1), self.allocated[:, up].sum(axis=1)
        return [float(a / c) if c else 0.0 for a, c in zip(allocated, capacity, strict=True)]


class Narrowed(Snapshot):
    """A snapshot with other room, for one decision of a placement policy; it is not updated from a store."""

    def __init__(self, whole: Snapshot, room: Sequence[NDArray[np.int64]]) -> None:
        """Create with this room, by dimension."""
        self.__dict__.update(whole.__dict__)
        self._whole, self.number = whole, whole.number
        self._taken: list[tuple[int, Take]] = []
        self.free = [array("q", amounts.tobytes()) for amounts in room]
        self.room = [np.frombuffer(word, dtype=np.int64) for word in self.free]

    def take(self, machine: int, need: Resources, count: int) -> None:
        """See Snapshot.take."""
        for word, amount in zip(self.free, need, strict=True):
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
            for word, amount in zip(self.free, need, strict=True):
                word[machine] += amount * count
        self._whole.undo(mark)

    def apply(self, reply: Reply) -> None:
        """Raise: only the whole snapshot is updated from the store."""
        raise TypeError(reply)
