"""The snapshot of a cell on which a scheduler decides, with its own claims as a working copy.

`Snapshot` is what policies and schedulers use. `ArraySnapshot` (array_snapshot.py) is updated by the records of a
store, `PackedSnapshot` (omega/simulation/packed_snapshot.py) by values.
"""

from abc import ABC, abstractmethod
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.attributes import Attributes
from omega.cellstate.lanes import Lanes
from omega.cellstate.model import Described, MachineState
from omega.cellstate.pools import Epoch, Pools
from omega.cellstate.pools.records import PoolUse
from omega.cellstate.replies import KindUse, Reply
from omega.cellstate.resources import Resources
from omega.cellstate.transaction import Claim, Position
from omega.cellstate.usage import Usage

# Running tasks in a snapshot: kept only for fetched machines, until these change.

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


SMALL = 128
"""Machines up to which checking each by itself costs no more than one operation on all."""


@lru_cache(maxsize=1024)
def wanted_amounts(need: Resources) -> tuple[tuple[int, int], ...]:
    """Return the dimensions that a task needs something of, with the amounts; the first one if it needs nothing."""
    return tuple((d, amount) for d, amount in enumerate(need) if amount) or ((0, 0),)


class Snapshot(ABC):
    """A cell of any size; starts empty and grows with the machines it learns of.

    One row per machine: index, sequence number, state, executor, capacity and allocated amounts by dimension are
    columns of `rows`. `attributes`, `placed` (tasks by machine of a job, by its id), `others` (the same by a job's
    name) and `residents` have only fetched data. `changed_others` are the names of others whose machines changed, and
    `use` the limits of a kind and their use, both until they are processed. `disturbs`, if set, is how much a claim
    would disturb running tasks on each machine, 0 to 1. `now` is the time of the decision (seconds), `usage` the use of
    users and pools, `pools` the configured pools and `epoch` the published fair shares, both at most a period of
    epochs old. `unnamed_since` is the time (seconds) since which a job waits for an epoch that names it, or None.
    `held` are the running tasks by group of jobs, by id, until they are processed.
    `resources` are the names of the cell's resources in their order, once pools are configured.
    """

    def __init__(self, dimensions: int) -> None:
        """Create an empty snapshot of a cell with `dimensions` resources."""
        self.dimensions = dimensions
        self.now = 0.0
        self.usage = Usage(dimensions)
        self.lanes = Lanes(dimensions, self.usage)
        self.pools = Pools()
        self.resources: Sequence[str] = ()
        self.pool_use: Mapping[str, PoolUse] = {}
        self.epoch: Epoch | None = None
        self.held: Mapping[str, Sequence[int]] = {}
        self.position = Position()
        self.size = 0
        self.changes = 0
        self.redescribed = 0
        """A number that changes with capacities or states of machines."""
        self._total: Resources = (0,) * dimensions
        self._total_at = -1
        self._attributes = Attributes()
        self.placed: Mapping[str, Mapping[int, int]] = {}
        self.others: Mapping[str, Mapping[int, int]] = {}
        self.changed_others: set[str] = set()
        self.use: KindUse | None = None
        self.residents = Residents()
        self.disturbs: NDArray[np.float64] | None = None
        self.rows = np.empty((4 + 2 * dimensions, 0), dtype=np.int64)

    # Other jobs

    def take_other(self, name: str, claims: Iterable[Claim]) -> None:
        """Count claims of a job as tasks of one of the `others`, if its machines were fetched."""
        if name in self.others:
            taken = Counter({claim.machine: claim.count for claim in claims})
            if not taken.keys() <= self.others[name].keys():
                self.changed_others.add(name)
            self.others = {**self.others, name: Counter(self.others[name]) + taken}

    # Machines

    @property
    @abstractmethod
    def free(self) -> Sequence["array[int]"]:
        """Free amounts by dimension, an array of machine words each; element access is as fast as a list's.

        -1 where the machine takes nothing (drained, down, gone, over).
        """

    @property
    @abstractmethod
    def room(self) -> Sequence[NDArray[np.int64]]:
        """The memory of `free` as NumPy vectors."""

    @property
    @abstractmethod
    def base(self) -> NDArray[np.int64]:
        """Free amounts in the last state from the store, (dimensions, machines), without this scheduler's claims."""

    @property
    @abstractmethod
    def number(self) -> NDArray[np.int64]:
        """Sequence numbers of the machines at the last sync."""

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

    def executors(self, machines: Sequence[int] | NDArray[np.int64]) -> set[int]:
        """Return the executor numbers of some machines."""
        return set(self.rows[3][machines].tolist())

    # Updates from the cell

    @abstractmethod
    def apply(self, reply: Reply) -> None:
        """Apply the reply to a sync or a commit. Raises StaleSnapshot for a delta that does not fit."""

    @abstractmethod
    def freed(self) -> NDArray[np.int64]:
        """Return machines that gained room since the last call; blocked jobs are tested against them."""

    @abstractmethod
    def forget_freed(self) -> None:
        """Drop freed machines: no job is blocked."""

    @abstractmethod
    def _gained(self, machines: Sequence[int]) -> None:
        """Count some machines as freed for blocked jobs."""

    def describe(self, machines: Sequence[int] | NDArray[np.intp], described: Iterable[Described]) -> None:
        """Apply names and attributes; machines with changed ones count as freed for blocked jobs."""
        self._gained(self.attributes.learn(machines, described))

    # Decisions

    @abstractmethod
    def with_room(self, room: Sequence[NDArray[np.int64]]) -> "Snapshot":
        """Return this snapshot with other room, by dimension, for one decision; claims affect both."""

    def narrow(self, mask: NDArray[np.bool_]) -> "Snapshot":
        """Return this snapshot with room only on the machines in `mask`, as `with_room` does."""
        return self.with_room([np.where(mask, room, -1) for room in self.room])

    def relieve(self, extra: NDArray[np.int64], disturbs: NDArray[np.float64]) -> "Snapshot":
        """Return this snapshot with `extra` room that evictions would free, and their disturbance, as `with_room`."""
        relieved = self.with_room([room + more for room, more in zip(self.room, extra, strict=True)])
        relieved.disturbs = disturbs
        return relieved

    @abstractmethod
    def take(self, machine: int, need: Resources, count: int) -> None:
        """Mark tasks as claimed in the working amounts."""

    def fill(self, need: Resources, count: int, start: int, window: int) -> tuple[list[int], list[int], int]:
        """Claim as many of `count` tasks as fit on each machine in turn: `window` machines from `start` on.

        Return the machines, the tasks on each, and the number of tasks without a machine.
        """
        machines: list[int] = []
        counts: list[int] = []
        machine, size, words = start, self.size, self.free
        wanted = [(words[d], amount) for d, amount in wanted_amounts(need)]
        for _ in range(window):
            fits = count
            for word, amount in wanted:
                free = word[machine]
                if free < amount * fits or free < 0:
                    fits = free // amount if amount else 0
                    if fits <= 0:
                        break
            else:
                self.take(machine, need, fits)
                machines.append(machine)
                counts.append(fits)
                count -= fits
                if not count:
                    break
            machine = machine + 1 if machine + 1 < size else 0
        return machines, counts, count

    def fill_all(
        self, need: Resources, tasks: Sequence[int], starts: Sequence[int], window: int
    ) -> list[tuple[list[int], list[int], int]]:
        """Call `fill` for so many `tasks` from each start, one after another, until some have no machine."""
        fills: list[tuple[list[int], list[int], int]] = []
        for count, start in zip(tasks, starts, strict=True):
            fills.append(self.fill(need, count, start, window))
            if fills[-1][2]:
                break
        return fills

    @abstractmethod
    def take_each(self, need: Resources, machines: list[int], onto: list[int] | None = None) -> list[int]:
        """Claim one task on each machine in turn if it still fits; return the machines of the claims, in order.

        They are appended to `onto`, the list that the last call for the same need returned.
        """

    @abstractmethod
    def mark(self) -> int:
        """Return the position of the open claims for `undo`."""

    @abstractmethod
    def undo(self, mark: int) -> None:
        """Undo the claims since `mark` (a gang that does not fit as a whole)."""

    @property
    def scope(self) -> int:
        """Cost of `holding`, in checks of a single machine."""
        return self.size if self.size < SMALL else 32 + self.size // 256

    @abstractmethod
    def holding(self, need: Resources) -> list[int]:
        """Return the machines with room for one more task of this need."""

    @abstractmethod
    def amounts(self, machines: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the free amounts of some machines, (dimensions, machines); -1 where one takes nothing."""

    def total(self) -> Resources:
        """The capacity of the machines that are up, by dimension."""
        if self._total_at != self.redescribed:
            self._total_at = self.redescribed
            self._total = tuple(int(amount) for amount in self.capacity @ self.up)
        return self._total

    def utilisation(self) -> list[float]:
        """Return the allocated share of the capacity that is up, per dimension."""
        up = self.up
        capacity, allocated = self.capacity[:, up].sum(axis=1), self.allocated[:, up].sum(axis=1)
        return [float(a / c) if c else 0.0 for a, c in zip(allocated, capacity, strict=True)]
