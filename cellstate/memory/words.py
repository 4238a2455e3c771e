"""Records of the in-memory twin; what ``lua/parts/words.lua`` keeps as text.

Amounts are packed (packing.py). What is free on machines and their sequence numbers stand in two lists
by index, for those who go over many machines at once; a MachineRow shows its own.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import count as counting
from itertools import repeat
from typing import Any

from cellstate.errors import BadInput
from cellstate.lanes import Lane
from cellstate.memory.ranges import NONE, Spans
from cellstate.model import MOST_PRECEDENCE, Gang, JobState, Limits, MachineState, TaskGroup, bucket_of
from cellstate.packing import FIELD, GUARD, MASK, packed
from cellstate.resources import LARGEST, Dimensions, Resources

MANY = GUARD
"""More tasks than any machine, limit or job has."""

Run = tuple["Group", Spans]
"""Tasks of a group on a machine, by placement id; under minus the id while they are leaving."""

Block = tuple["Group", Sequence[int], Sequence[int] | None, int]
"""Runs that were placed together and not written out yet: their group, machines, tasks each (None: one
each) and the index of the first task; their placement ids and tasks follow one another."""


class MachineRow:
    """A machine.

    `stamp`: the transaction that last touched it; `before`: its number when the call that did so began;
    `leaving`: how many of its runs are leaving.
    """

    __slots__ = ("_free", "_numbers", "attributes", "before", "capacity", "executor", "index", "leaving", "name",
                 "runs", "stamp", "state")  # fmt: skip

    def __init__(self, index: int, name: str, number: int, free: list[int], numbers: list[int]) -> None:
        """A machine that has not joined yet; `free` and `numbers` are the cell's, and long enough."""
        self._free, self._numbers, self.index = free, numbers, index
        self.name, self.number, self.before = name, number, number
        self.attributes: Mapping[str, str] = {}
        self.state, self.executor, self.stamp, self.leaving = MachineState.UP, 0, 0, 0
        self.capacity: Resources = ()
        self.runs: dict[int, Run] = {}

    @property
    def free(self) -> int:
        """What is free, packed, with guards."""
        return self._free[self.index]

    @free.setter
    def free(self, amounts: int) -> None:
        self._free[self.index] = amounts

    @property
    def number(self) -> int:
        """The sequence number."""
        return self._numbers[self.index]

    @number.setter
    def number(self, number: int) -> None:
        self._numbers[self.index] = number


class LossRow:
    """Losses of tasks of a group; fields as in model.Loss."""

    __slots__ = ("count", "due", "placement", "tasks")

    def __init__(self, tasks: Spans, count: int, due: int, placement: int) -> None:
        """`due` is 0 once the tasks are not delayed any more."""
        self.tasks, self.count, self.due, self.placement = tasks, count, due, placement


class Group:
    """A task group of a job.

    `unplaced` without the `delayed` tasks; `runs`: placement id → machine, in order, under minus the id while leaving.
    """

    __slots__ = ("amounts", "budget", "delayed", "duration", "failed", "finished", "held", "indices", "job", "leaving",
                 "losses", "many", "need", "number", "once", "optional", "placed", "runs", "stopped", "total",
                 "unplaced", "waiting", "wanted")  # fmt: skip

    def __init__(self, job: "JobRow", number: int, group: TaskGroup, total: int) -> None:
        """All tasks wait."""
        self.job, self.number, self.amounts = job, number, tuple(group.need)
        self.need, self.many = _measured(self.amounts)
        self.duration, self.optional = group.duration_ms, group.optional
        self.budget, self.once = group.budget, group.once
        self.total = self.unplaced = self.indices = total
        self.losses: list[LossRow] = []
        self.delayed = self.placed = self.finished = self.failed = self.stopped = self.leaving = 0
        self.wanted = self.held = 0  # tasks unplaced and placed, as its lane counts them
        self.waiting: Spans = (0, total - 1) if total else NONE
        self.runs: dict[int, int] = {}


@lru_cache(maxsize=4096)
def _measured(amounts: Resources) -> tuple[int, int]:
    """Packed amounts of a task, and how many times they can be taken within their fields."""
    return packed(amounts), GUARD // 2 // max(1, *amounts)


class JobRow:
    """A job.

    `arrival`: its place in the queue of its lane, 0 when it is not pending; `call`: the call that last
    touched it; `returned`: that call put tasks back; `modified`: its modify index; `waits`: what holds it back,
    "*" for a person, a job's id, with "+" however that ends; `awaited`: ids of the jobs that wait for it; `begun`:
    tasks of it were placed and taken off again; `lossy`: tasks of it were lost;
    `commands`: its tasks run commands.
    """

    __slots__ = ("arrival", "awaited", "begun", "call", "commands", "complete", "delayed", "gang", "groups",
                 "id", "kind", "lane", "lossy", "modified", "name", "order", "placed", "precedence", "returned", "spec",
                 "state", "submitted", "submitter", "unplaced", "waits")  # fmt: skip

    def __init__(self, id: str, name: str, kind: "KindRow", precedence: int, state: JobState, gang: Gang) -> None:
        """A job without groups."""
        self.id, self.name, self.kind, self.precedence, self.state, self.gang = id, name, kind, precedence, state, gang
        self.groups: list[Group] = []
        self.spec: Mapping[str, Any] = {}
        self.submitter = ""
        self.order = self.submitted = self.arrival = self.placed = self.unplaced = 0
        self.call = self.modified = 0
        self.delayed = 0
        self.begun = self.commands = self.complete = self.lossy = self.returned = False
        self.lane: LaneRow
        self.waits: list[str] = []
        self.awaited: list[str] = []

    @property
    def bucket(self) -> int:
        """The bucket of its id."""
        return bucket_of(self.id)


class LaneRow:
    """A lane: jobs pending and live, packed amounts wanted and held, its queue; `version`: of its last change."""

    __slots__ = ("arrival", "arrivals", "dead", "held", "lane", "live", "number", "pending", "queue", "serial",
                 "version", "wanted")  # fmt: skip

    def __init__(self, number: int, serial: int, lane: Lane) -> None:
        """Nobody is in it."""
        self.number, self.serial, self.lane = number, serial, lane
        self.pending = self.arrival = self.wanted = self.held = self.live = self.version = 0
        # Pending jobs by arrival; those that left it stay until `dead` of them are swept out.
        self.arrivals: list[int] = []
        self.queue: list[JobRow] = []
        self.dead = 0


class KindRow:
    """A kind: limits, admitted jobs, packed use.

    `plain` when nothing is limited, `kept` once it has a record of its own.
    """

    __slots__ = ("highest", "jobs", "kept", "limit", "limited", "lowest", "max_jobs", "name", "plain", "used")

    def __init__(self, name: str, dimensions: int) -> None:
        """Nothing is limited, nothing is used."""
        self.name, self.jobs, self.used, self.kept = name, 0, 0, False
        self.max_jobs: int | None = None
        self.lowest: int | None = None
        self.highest: int | None = None
        self.limit: tuple[int | None, ...] = (None,) * dimensions
        self.limited, self.plain = False, True


def numbered() -> Callable[[], str]:
    """Tags without dice: a count."""
    source = counting(1)
    return lambda: f"{next(source):010d}"


class MemoryWords:
    """Machines, jobs and kinds of a cell, and what is computed from one of them."""

    def __init__(self, name: str, dimensions: Dimensions) -> None:
        """An empty cell."""
        self.name, self.dimensions = name, dimensions
        self.M: dict[int, MachineRow] = {}
        self.J: dict[str, JobRow] = {}
        self.K: dict[str, KindRow] = {}
        self.L: dict[int, LaneRow] = {}
        self.lane_names: dict[Lane, LaneRow] = {}
        self.lane_serials = 0
        self.spare_lanes: list[int] = []
        self.left_lanes: list[LaneRow] = []
        self.gone_lanes: list[LaneRow] = []
        # Of every machine by index: what is free, packed; its sequence number.
        self.free: list[int] = []
        self.numbers: list[int] = []
        self.guards = packed([GUARD] * len(dimensions))
        # By their first placement id.
        self.blocks: dict[int, Block] = {}
        # Machines that are not up.
        self.shut: set[int] = set()

    def kind(self, name: str) -> KindRow:
        """Return the record of a kind, made when there is none."""
        found = self.K.get(name)
        if found is None:
            found = self.K[name] = KindRow(name, len(self.dimensions))
        return found

    def unfold(self) -> None:
        """Write out the runs that are noted as blocks; for whoever looks at single runs."""
        for placement, (g, machines, counts, task) in self.blocks.items():
            run, first = placement, task
            for machine, count in zip(machines, counts or repeat(1, len(machines)), strict=True):
                self.M[machine].runs[run] = g, (first, first + count - 1)
                g.runs[run] = machine
                run, first = run + 1, first + count
        self.blocks.clear()

    def check(self, what: str, amounts: Sequence[int]) -> None:
        """Raise BadInput unless `amounts` are a vector of this cell."""
        if len(amounts) != len(self.dimensions) or any(not 0 <= amount <= LARGEST for amount in amounts):
            raise BadInput(
                f"{what}: amounts {list(amounts)}; want {len(self.dimensions)} ({', '.join(self.dimensions.names)})"
                f" within 0 to {LARGEST}"
            )

    def spread(self, amounts: int) -> tuple[int, ...]:
        """Return the single amounts of a packed integer without guards."""
        return tuple(amounts >> FIELD * d & MASK for d in range(len(self.dimensions)))

    def used(self, capacity: Resources, free: int) -> tuple[int, ...]:
        """What is allocated where so much of a capacity is free."""
        return tuple(capacity[d] - ((free >> FIELD * d & MASK) - GUARD) for d in range(len(capacity)))

    def over(self, m: MachineRow) -> bool:
        """Return whether more is allocated than the machine has."""
        return m.free & self.guards != self.guards

    def room(self, m: MachineRow, g: Group) -> int:
        """How many tasks of this group the machine still holds."""
        most = MANY
        for d, need in enumerate(g.amounts):
            free = (m.free >> FIELD * d & MASK) - GUARD
            if free < 0:
                return 0
            if need > 0 and free < need * most:
                most = free // need
        return most

    @staticmethod
    def limits(k: KindRow) -> Limits:
        """Return the limits of a kind, in the words of the port."""
        highest = MOST_PRECEDENCE if k.highest is None else k.highest
        return Limits(k.limit, k.max_jobs, (k.lowest or 0, highest))
