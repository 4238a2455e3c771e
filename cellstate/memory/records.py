"""Records of the in-memory twin; what ``lua/parts/records.lua`` keeps as text.

Amounts are packed (packing.py). What is free on machines and their sequence numbers stand in two lists
by index, for those who go over many machines at once; a MachineRow shows its own.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from omega.cellstate.lanes import Lane
from omega.cellstate.memory.ranges import NONE, Spans, span_count, span_split
from omega.cellstate.model import MOST_PRECEDENCE, Gang, JobState, Limits, MachineState, TaskGroup, bucket_of
from omega.cellstate.packing import FIELD, GUARD, MASK, packed
from omega.cellstate.resources import Resources
from omega.cellstate.shards import MAP, REDUCE, PhaseCount, Worker

MANY = GUARD
"""More tasks than any machine, limit or job has."""

UNASSIGNED = -1
"""The tree of a machine whose tree was not chosen since its attributes, or the formulas of trees, changed."""

Run = tuple["GroupRow", Spans]
"""Tasks of a group on a machine, by placement id; under minus the id while they are leaving."""

Block = tuple["GroupRow", Sequence[int], Sequence[int] | None, int]
"""Runs that were placed together and not written out yet: their group, machines, tasks each (None: one
each) and the index of the first task; their placement ids and tasks follow one another."""


class MachineRow:
    """A machine.

    `stamp`: the transaction that last touched it; `before`: its number when the call that did so began;
    `leaving`: how many of its runs are leaving; `tree`: the number of its pool tree, None in none.
    """

    __slots__ = ("_free", "_numbers", "attributes", "before", "capacity", "executor", "index", "leaving", "name",
                 "runs", "stamp", "state", "tree")  # fmt: skip

    def __init__(self, index: int, name: str, number: int, free: list[int], numbers: list[int]) -> None:
        """Create a machine that has not joined yet; `free` and `numbers` are the cell's lists, already long enough."""
        self._free, self._numbers, self.index = free, numbers, index
        self.name, self.number, self.before = name, number, number
        self.attributes: Mapping[str, str] = {}
        self.state, self.executor, self.stamp, self.leaving = MachineState.UP, 0, 0, 0
        self.capacity: Resources = ()
        self.tree: int | None = UNASSIGNED
        self.runs: dict[int, Run] = {}

    @property
    def free(self) -> int:
        """The free amounts, packed, with guards."""
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

    __slots__ = ("count", "due", "failures", "machine", "placement", "tasks")

    def __init__(
        self, tasks: Spans, count: int, due: int, placement: int, *, failures: int = 0, machine: int = -1
    ) -> None:
        """`due` is 0 once the tasks are not delayed any more."""
        self.tasks, self.count, self.due, self.placement = tasks, count, due, placement
        self.failures, self.machine = failures, machine

    def of(self, tasks: Spans) -> "LossRow":
        """Return the same for other tasks."""
        return LossRow(tasks, self.count, self.due, self.placement, failures=self.failures, machine=self.machine)


class GroupRow:
    """A task group of a job.

    `unplaced` without the `delayed` tasks; `copies`: it has copies of the group before it; `runs`: placement id →
    machine, in order, under minus the id while leaving.
    """

    __slots__ = ("amounts", "budget", "copies", "delayed", "duration", "failed", "finished", "held", "indices", "job",
                 "leaving", "losses", "many", "need", "number", "once", "optional", "placed", "replaced", "runs",
                 "stopped", "total", "unplaced", "waiting", "wanted")  # fmt: skip

    def __init__(self, job: "JobRow", number: int, group: TaskGroup, total: int) -> None:
        """Create with all tasks unplaced."""
        self.job, self.number, self.amounts = job, number, tuple(group.need)
        self.need, self.many = _measured(self.amounts)
        self.duration, self.optional, self.copies = group.duration_ms, group.optional or group.copies, group.copies
        self.budget, self.once, self.replaced = group.budget, group.once, False
        self.total = self.unplaced = self.indices = total
        self.losses: list[LossRow] = []
        self.delayed = self.placed = self.finished = self.failed = self.stopped = self.leaving = 0
        self.wanted = self.held = 0  # tasks unplaced and placed, as its lane counts them
        self.waiting: Spans = (0, total - 1) if total else NONE
        self.runs: dict[int, int] = {}


@lru_cache(maxsize=4096)
def _measured(amounts: Resources) -> tuple[int, int]:
    """Return the packed amounts of a task, and how many times they fit into their fields."""
    return packed(amounts), GUARD // 2 // max(1, *amounts)


class JobRow:
    """A job.

    `arrival`: its place in the queue of its lane, 0 when it is not pending; `call`: the call that last
    touched it; `returned`: that call put tasks back; `modified`: its modify index; `waits`: what holds it back,
    "*" for a person, "!" and a reason for its gate, a job's id, with "+" however that ends; `released`: by a person
    from its gate; `awaited`: jobs wait for it; `begun`: tasks of it were placed and taken off again;
    `lossy`: tasks of it were lost; `commands`: its tasks run commands.
    """

    __slots__ = ("arrival", "awaited", "begun", "call", "commands", "complete", "delayed", "gang", "gang_min",
                 "groups", "id", "kind", "lane", "lossy", "modified", "name", "order", "placed", "precedence",
                 "released", "returned", "spec", "state", "submitted", "submitter", "unplaced", "waits")  # fmt: skip

    def __init__(self, id: str, name: str, kind: "KindRow", precedence: int, state: JobState, gang: Gang) -> None:
        """Create a job without groups."""
        self.id, self.name, self.kind, self.precedence, self.state, self.gang = id, name, kind, precedence, state, gang
        self.groups: list[GroupRow] = []
        self.spec: Mapping[str, Any] = {}
        self.submitter = ""
        self.order = self.submitted = self.arrival = self.placed = self.unplaced = 0
        self.call = self.modified = self.gang_min = 0
        self.delayed = 0
        self.awaited = self.begun = self.commands = self.complete = self.lossy = self.released = self.returned = False
        self.lane: LaneRow
        self.waits: list[str] = []

    @property
    def whole(self) -> bool:
        """Whether all its unplaced tasks are placed together: a gang without a minimum (semantics 8)."""
        return self.gang > 0 and not self.gang_min

    def breaks(self, placed: int) -> bool:
        """Return whether so few tasks of a strict gang do not run without the others (semantics 8)."""
        return not self.gang_min or placed < self.gang_min

    @property
    def bucket(self) -> int:
        """The bucket of its id."""
        return bucket_of(self.id)


class LaneRow:
    """A lane: jobs pending and live, packed amounts wanted and held, its queue; `version`: of its last change."""

    __slots__ = ("arrival", "arrivals", "dead", "held", "lane", "live", "number", "pending", "queue", "serial",
                 "version", "wanted")  # fmt: skip

    def __init__(self, number: int, serial: int, lane: Lane) -> None:
        """Create without jobs."""
        self.number, self.serial, self.lane = number, serial, lane
        self.pending = self.arrival = self.wanted = self.held = self.live = self.version = 0
        # Pending jobs by arrival; those that left it stay until `dead` of them are swept out.
        self.arrivals: list[int] = []
        self.queue: list[JobRow] = []
        self.dead = 0


class KindRow:
    """A kind: limits, admitted jobs, packed use. `unrestricted` when nothing is limited."""

    __slots__ = ("highest", "jobs", "limit", "limited", "lowest", "max_jobs", "name", "unrestricted",
                 "used")  # fmt: skip

    def __init__(self, name: str, dimensions: int) -> None:
        """Create without limits and without use."""
        self.name, self.jobs, self.used = name, 0, 0
        self.max_jobs: int | None = None
        self.lowest: int | None = None
        self.highest: int | None = None
        self.limit: tuple[int | None, ...] = (None,) * dimensions
        self.limited, self.unrestricted = False, True


class PoolRow:
    """Limits and use of a pool that carries limits: jobs with placed tasks, placed tasks, each resource."""

    __slots__ = ("held", "limit", "number")

    def __init__(self, number: int, limit: list[int | None]) -> None:
        """Create without use."""
        self.number, self.limit, self.held = number, limit, [0] * len(limit)


class SchedulerRow:
    """A registered scheduler. `last` and `outcomes` belong to its last transaction number."""

    __slots__ = ("incarnation", "last", "lives", "nonce", "outcomes")

    def __init__(self, incarnation: int, nonce: str) -> None:
        """Create with a lease and without commits."""
        self.incarnation, self.nonce, self.lives, self.last = incarnation, nonce, True, 0
        self.outcomes: list[Any] = []


class ExecutorRow:
    """A registered executor; its lease has the length `lease_ms` where time passes."""

    __slots__ = ("incarnation", "lease_ms", "lives", "nonce")

    def __init__(self, incarnation: int, nonce: str, lease_ms: int) -> None:
        """Create with a lease."""
        self.incarnation, self.nonce, self.lease_ms, self.lives = incarnation, nonce, lease_ms, True


def allocated(capacity: Resources, free: int) -> tuple[int, ...]:
    """Return the allocated amounts, given a capacity and the packed free amounts."""
    return tuple(capacity[d] - ((free >> FIELD * d & MASK) - GUARD) for d in range(len(capacity)))


def room(m: MachineRow, g: GroupRow) -> int:
    """Return the number of further tasks of this group that fit on the machine."""
    most = MANY
    for d, need in enumerate(g.amounts):
        free = (m.free >> FIELD * d & MASK) - GUARD
        if free < 0:
            return 0
        if need > 0 and free < need * most:
            most = free // need
    return most


def limits_of(k: KindRow) -> Limits:
    """Return the limits of a kind, in the words of the port."""
    highest = MOST_PRECEDENCE if k.highest is None else k.highest
    return Limits(k.limit, k.max_jobs, (k.lowest or 0, highest))


class ShardPhase:
    """The shards of one phase; `waiting`: unclaimed ones."""

    def __init__(self, total: int) -> None:
        """Create with all shards unclaimed."""
        self.total, self.done, self.milliseconds = total, 0, 0
        self.waiting: Spans = (0, total - 1)

    def counted(self) -> PhaseCount:
        """Return the numbers of shards by state."""
        waiting = span_count(self.waiting)
        return PhaseCount(total=self.total, waiting=waiting, done=self.done, milliseconds=self.milliseconds)


class ShardFailures(NamedTuple):
    """Failures of a shard: number, end of the delay (ms), and the machines."""

    times: int
    until: int
    machines: frozenset[int]


class ShardTable:
    """The shards of a job: by phase, claims, failures, finishers, and the one that failed for good.

    `machines`: number of consecutive failed shards on each. `levels`: number of finished maps by level of locality.
    """

    def __init__(self, maps: int, reduces: int) -> None:
        """Create with all shards unclaimed."""
        self.phases = {MAP: ShardPhase(maps), REDUCE: ShardPhase(reduces)}
        self.held: dict[Worker, int] = {}
        self.failures: dict[tuple[str, int], ShardFailures] = {}
        self.machines: Counter[int] = Counter()
        self.levels: Counter[int] = Counter()
        self.finishers: dict[tuple[str, int], str] = {}
        self.failed = ""

    def now(self) -> str | None:
        """Return the current phase; None when all is done."""
        return next((name for name, phase in self.phases.items() if phase.done < phase.total), None)

    def sorted(self, what: str, waiting: Spans) -> tuple[Spans, dict[int, ShardFailures]]:
        """Return unclaimed shards of a phase without failures, and those with failures."""
        fresh, again = waiting, dict[int, ShardFailures]()
        for (phase, shard), failure in self.failures.items():
            if phase == what:
                inside, fresh = span_split(fresh, (shard, shard))
                if inside:
                    again[shard] = failure
        return fresh, again
