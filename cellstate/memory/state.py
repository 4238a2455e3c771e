"""The state of a cell in memory: its records, the call in progress, and the announcement of what a call changed.

Amounts are packed (packing.py). What is free on machines and their sequence numbers stand in two lists by index, for
those who go over many machines at once; a MachineRow shows its own. A job that is placed as a whole keeps its runs as
blocks until somebody needs single runs (`State.unfold`): a simulated day consists of such jobs.
"""

from array import array
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from omega.cellstate.durability import Durability
from omega.cellstate.errors import BadInput
from omega.cellstate.events import LogEntry
from omega.cellstate.lanes import BASE, MOST_LANES, MOST_WANTED, Lane
from omega.cellstate.model import (
    BUDGET,
    MOST_PRECEDENCE,
    RUNS_CHUNK,
    After,
    Gang,
    GroupStatus,
    Job,
    JobSpec,
    JobState,
    Limits,
    MachineSettings,
    MachineState,
    TaskGroup,
    ordered,
)
from omega.cellstate.packing import FIELD, GUARD, MASK, fields, packed
from omega.cellstate.pages import head_of, totals_of
from omega.cellstate.pools import Epoch, Pools
from omega.cellstate.pools.lending import Lender, Lent
from omega.cellstate.ranges import NONE, Flat, indices, span_text
from omega.cellstate.replies import Rows, Waits
from omega.cellstate.resources import LARGEST, Dimensions, Resources
from omega.cellstate.shards import ShardDurations
from omega.cellstate.tasks import Retried, TaskLoss, TaskProgress
from omega.cellstate.transaction import Basis, Placed, Position

LOG_KEPT = 50_000
CHANGES_KEPT = 8_192
"""Versions that the change list keeps. The store keeps fewer when they change many machines: lua/parts/trim.lua"""
UNASSIGNED = -1
"""The tree of a machine whose tree was not chosen since its attributes, or the formulas of trees, changed."""
NO_WORDS: Mapping[str, Any] = {}
_ACTIVE, _DONE = JobState.ACTIVE, JobState.DONE
packed_need = lru_cache(maxsize=4096)(packed)
EVERY_RANK = 0, MOST_PRECEDENCE

Run = tuple["GroupRow", Flat]
"""Tasks of a group on a machine, by placement id; under minus the id while they are leaving."""


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

    @property
    def room(self) -> list[int]:
        """The free amounts; below 0 where more is allocated than the machine has."""
        free = self.free
        return [(free >> FIELD * d & MASK) - GUARD for d in range(len(self.capacity))]

    @property
    def allocated(self) -> Resources:
        """The allocated amounts."""
        return tuple(has - left for has, left in zip(self.capacity, self.room, strict=True))


class Loss(NamedTuple):
    """Losses of tasks of a group; fields as in tasks.TaskLoss. `due` is 0 once the tasks are not delayed any more."""

    tasks: Flat
    times: int
    due: int
    placement: int
    retried: Retried = Retried()

    def of(self, tasks: Flat) -> "Loss":
        """Return the same for other tasks."""
        return self._replace(tasks=tasks)


class Noted(Placed):
    """Tasks that were placed together and whose runs are not written out; `need`: of each, packed."""

    __slots__ = ("need",)
    need: int


class Block(Noted):
    """Runs that were placed together and not written out yet, of the group `row`; `task` is the index of the first.

    The blocks of a group are linked, the newest first.
    """

    __slots__ = ("newer", "older", "row", "task")
    newer: "Block | None"

    def __init__(
        self, row: "GroupRow", task: int, placements: Sequence[int], machines: Sequence[int],
        counts: Sequence[int] | None, tasks: int,
    ) -> None:  # fmt: skip
        """Create the newest block of its group."""
        self.row = row
        self.need = row.need
        self.tasks = tasks
        self.task = task
        self.group = row.number
        self.placements = placements
        self.machines = machines
        self.counts = counts
        self.newer = None
        self.older = older = row.newest
        if older is not None:
            older.newer = self
        row.newest = self

    @property
    def block(self) -> "Block":
        """Itself, as `JobRow.block`."""
        return self

    def unlink(self) -> None:
        """Take it from the blocks of its group."""
        if self.newer is None:
            self.row.newest = self.older
        else:
            self.newer.older = self.older
        if self.older is not None:
            self.older.newer = self.newer


class GroupRow:
    """A task group of a job. What few groups have is an attribute of the class.

    `unplaced` without the `delayed` tasks; `copies`: it has copies of the group before it; `runs`: placement id →
    machine, in order, under minus the id while leaving; `wanted` and `held`: unplaced and placed tasks as its lane
    counts them; `newest`: of its blocks, the runs that are not written out.
    """

    __slots__ = ("__dict__", "asked", "finished", "indices", "job", "need", "newest", "number", "placed",
                 "total", "unplaced", "waiting")  # fmt: skip
    delayed = failed = stopped = leaving = wanted = held = 0
    replaced = False
    losses: Sequence[Loss] = ()
    newest: Block | None

    def __init__(self, job: "JobRow", number: int, asked: TaskGroup, total: int) -> None:
        """Create with all tasks unplaced."""
        # One by one, here and in the other records of a job: more than three at once would build a tuple.
        self.job = job
        self.number = number
        self.asked = asked
        self.need = packed_need(asked.need)
        self.total = self.unplaced = self.indices = total
        self.placed = self.finished = 0
        self.waiting: Flat = (0, total - 1) if total else NONE
        self.newest = None

    @cached_property
    def runs(self) -> dict[int, int]:
        """Its runs that are written out; made when somebody asks: most jobs of a simulated day have none."""
        return {}

    @property
    def blocks(self) -> Iterator[Block]:
        """Its blocks, the newest first."""
        block = self.newest
        while block is not None:
            yield block
            block = block.older

    @property
    def copies(self) -> bool:
        """Whether it has copies of the group before it."""
        return self.asked.copies

    @property
    def amounts(self) -> Resources:
        """What a task needs."""
        return self.asked.need

    @property
    def optional(self) -> bool:
        """Whether a task that is evicted, lost or failed is dropped."""
        return self.asked.optional or self.asked.copies


class JobRow(Noted):
    """A job. What few jobs have is an attribute of the class.

    The tasks of most jobs of a simulated day are placed by one transaction and end together. Such a job is its own
    `Placed`, and has no groups until somebody asks for them. `need`: of its group, -1 with several or of commands.

    `arrival`: its place in the queue of its lane, 0 when it is not pending; `call`: the call that last
    touched it; `returned`: tasks were put back; `modified`: its modify index; `waits`: what holds it back,
    "*" for a person, "!" and a reason for its gate, a job's id, with "+" however that ends; `released`: by a person
    from its gate; `awaited`: jobs wait for it; `begun`: tasks of it were placed and taken off again;
    `lossy`: tasks of it were lost; `commands`: its tasks run commands; `made`: its groups, once somebody asked.
    """

    __slots__ = ("__dict__", "arrival", "complete", "id", "kind", "lane", "made", "modified", "order", "placed",
                 "sent", "state", "submitted", "submitter", "unplaced")  # fmt: skip
    delayed = call = 0
    awaited = begun = commands = lossy = released = returned = False
    spec = NO_WORDS
    waits: Sequence[str] = ()

    def __init__(
        self, sent: JobSpec, kind: "Book", lane: "LaneRow", order: int, modified: int, submitted: int, submitter: str
    ) -> None:
        """Create with all tasks unplaced."""
        self.sent = sent
        self.id = sent.id
        self.kind = kind
        self.lane = lane
        self.order = order
        self.modified = modified
        self.state = _ACTIVE
        self.complete = False
        self.submitted = submitted
        self.submitter = submitter
        self.arrival = self.placed = 0
        self.made: list[GroupRow] | None = None
        groups = sent.groups
        if len(groups) == 1:
            self.need, self.unplaced = packed_need(groups[0].need), groups[0].count
        else:
            self.need, self.unplaced = -1, sent.total
        self.placements = ()

    @property
    def groups(self) -> list[GroupRow]:
        """Its task groups."""
        if self.made is None:
            asked = self.sent.groups
            self.made = [GroupRow(self, i, group, group.count) for i, group in enumerate(asked)]
            if self.placements:
                g = self.made[0]
                total, g.unplaced, g.waiting = g.unplaced, 0, NONE
                if self.placed:
                    g.placed = total
                    Block(g, 0, self.placements, self.machines, None, self.tasks)
                else:
                    g.finished = total
        return self.made

    @groups.setter
    def groups(self, groups: list[GroupRow]) -> None:
        self.made = groups

    @property
    def block(self) -> Block:
        """The block of its group, of a job that was placed as a whole."""
        *_, oldest = self.groups[0].blocks
        return oldest

    @property
    def name(self) -> str:
        """Its name."""
        return self.sent.name

    @property
    def precedence(self) -> int:
        """Its precedence."""
        return self.sent.precedence

    @property
    def gang(self) -> Gang:
        """Whether its tasks are placed together."""
        return self.sent.gang

    @property
    def gang_min(self) -> int:
        """The minimum of a gang; 0 for all of its tasks."""
        return self.sent.gang_min

    @property
    def whole(self) -> bool:
        """Whether all its unplaced tasks are placed together: a gang without a minimum (semantics 8)."""
        return self.gang > 0 and not self.gang_min

    def breaks(self, placed: int) -> bool:
        """Return whether so few tasks of a strict gang do not run without the others (semantics 8)."""
        return self.gang is Gang.STRICT and (not self.gang_min or placed < self.gang_min)

    @property
    def gate(self) -> str:
        """Why the gate of its scheduler holds it; "" when it does not."""
        return next((wait[1:] for wait in self.waits if wait[0] == "!"), "")

    @property
    def held(self) -> Resources:
        """What its placed tasks hold together."""
        size = len(self.groups[0].amounts)
        return tuple(sum(group.amounts[d] * group.placed for group in self.groups) for d in range(size))


class LaneRow:
    """A lane: its queue, live jobs, packed amounts wanted and held; `version`: of its last change.

    `queue`: its pending jobs by arrival, in order; `arrival`: the last one.
    """

    __slots__ = ("arrival", "held", "lane", "live", "number", "queue", "serial", "version", "wanted")

    def __init__(self, number: int, serial: int, lane: Lane) -> None:
        """Create without jobs."""
        self.number, self.serial, self.lane = number, serial, lane
        self.arrival = self.wanted = self.held = self.live = self.version = 0
        self.queue: dict[int, JobRow] = {}

    @property
    def leaf(self) -> str:
        """The leaf pool of its jobs, as thresholds name it (`fairness.leaf_of`)."""
        return self.lane.pool or self.lane.user

    def queued(self, after: int = 0) -> Iterator[JobRow]:
        """Yield its pending jobs after an arrival."""
        return (j for arrival, j in self.queue.items() if arrival > after)


class Book:
    """Limits and use of the jobs of a kind, or of those in a pool with limits.

    `limit` is of jobs with placed tasks, of placed tasks, and of each resource, None for none; `jobs`, `tasks` and
    `used` (packed) are the use. `precedence`: the lowest and highest of a kind's jobs.
    """

    __slots__ = ("jobs", "limit", "name", "precedence", "tasks", "unrestricted", "used")

    def __init__(self, name: str, limit: Sequence[int | None], precedence: tuple[int, int] = EVERY_RANK) -> None:
        """Create without use."""
        self.name, self.jobs, self.tasks, self.used = name, 0, 0, 0
        self.restrict(limit, precedence)

    def restrict(self, limit: Sequence[int | None], precedence: tuple[int, int]) -> None:
        """Set the limits."""
        self.limit, self.precedence = tuple(limit), precedence
        self.unrestricted = precedence == EVERY_RANK and not any(each is not None for each in limit)

    @property
    def limits(self) -> Limits:
        """The limits of a kind."""
        return Limits(self.limit[2:], self.limit[0], self.precedence)


class Member:
    """A registered scheduler or executor, with a lease that ends only by a test.

    Of a scheduler, `last` and `outcomes` belong to its last transaction number; of an executor, `lease_ms`.
    """

    __slots__ = ("incarnation", "last", "lease_ms", "lives", "nonce", "outcomes")

    def __init__(self, incarnation: int, nonce: str, lease_ms: int) -> None:
        """Create with a lease and without commits."""
        self.incarnation, self.nonce, self.lease_ms, self.lives, self.last = incarnation, nonce, lease_ms, True, 0
        self.outcomes: list[Any] = []


class State:
    """Machines, jobs, kinds, lanes and pools of a cell; its log, mailboxes and members; the call in progress.

    Finished jobs are kept as in the store. No lease ends by itself. Without `log` it keeps no facts, without
    `mailboxes` no messages (the simulator reads none). With `release_moves_number` False ended tasks do not change
    a machine's sequence number, as in the authors' simulator; only for comparisons with it. Without `counted` the
    demand and use of lanes are not counted, without `numbered` blocks leave sequence numbers as they are: for
    simulations that do not read them.
    """

    url = ""

    def __init__(  # noqa: PLR0913 - each has a default that most cells keep
        self, name: str = "memory", dimensions: Dimensions | None = None, *, keep_jobs: int = 10_000,
        keep_ms: int = 24 * 3600 * 1000, log: bool = True, mailboxes: bool = True, release_moves_number: bool = True,
        counted: bool = True, numbered: bool = True,
    ) -> None:  # fmt: skip
        """Create an empty cell."""
        self.name, self.dimensions = name, dimensions or Dimensions()
        self.keep_jobs, self.keep_ms, self.logs, self.mailboxes = keep_jobs, keep_ms, log, mailboxes
        self.release_moves_number, self.counted, self.numbered = release_moves_number, counted, numbered
        self.durability, self.unchecked, self.dry = Durability(), False, False
        self.unreadable: dict[tuple[str, str], str] = {}
        self.guards = packed([GUARD] * len(self.dimensions))
        # The clock of the store (ms); `housekeep` sets it to the time that it is given.
        self.now_ms = 0
        self.version = self.floor = self.placements = self.arrivals = self.transactions = self.submissions = 0
        self.incarnations = self.lane_serials = self.stamp = self.base = 0
        self._create_records()
        self._create_members()
        self._create_changes()
        self.open()

    def _create_records(self) -> None:
        self.M: dict[int, MachineRow] = {}
        self.J: dict[str, JobRow] = {}
        self.K: dict[str, Book] = {}
        self.L: dict[int, LaneRow] = {}
        self.names: dict[str, str] = {}
        self.indices: dict[str, int] = {}
        self.lane_names: dict[Lane, LaneRow] = {}
        self.spare_lanes: list[int] = []
        self.left_lanes: list[LaneRow] = []
        self.gone_lanes: list[LaneRow] = []
        # Of every machine by index: what is free, packed; its sequence number.
        self.free: list[int] = []
        self.numbers: list[int] = []
        # By their first placement id: what is not written out.
        self.blocks: dict[int, Block | JobRow] = {}
        # Machines that are not up; machines whose states, executors or capacities were set, in order.
        self.shut: set[int] = set()
        self.redescribed: list[int] = []
        # Whether any job ever waited for another; the jobs that wait for a job, in the order of their submission.
        self.waited = False
        self.waiters: dict[str, dict[str, None]] = {}
        # Totals of finished jobs that are no longer kept (cellstate/pages.py), where there is a log.
        self.forgotten = Counter[str]()
        # The states of updates, by job; the kinds of the jobs whose tasks may have copies.
        self.rolling: dict[str, str] = {}
        self.copied: dict[str, str] = {}
        # Shards of MapReduce jobs, by job; mean durations, by the name of a job.
        self.tables: dict[str, Any] = {}
        self.learnt: dict[str, ShardDurations] = {}
        # The cells that jobs were sent to, by job.
        self.chosen: dict[str, str] = {}
        # The settings of pools; 0 without pools, 1 when there are some, 2 when some carry limits or lend in part.
        self.pool_settings, self.next_pool, self.pools_state = Pools(), 1, 0
        # Use of the pools with limits by number; those that bind the jobs of a leaf pool.
        self.pool_books: dict[int, Book] = {}
        self.pool_chains: dict[str, list[Book]] = {}
        # Pools that lend in part and their trees, by their fields in the store; those above a leaf pool.
        self.lenders: dict[str, Lender] = {}
        self.lent_chains: dict[str, Lent | None] = {}
        self.last_epoch: Epoch | None = None

    def _create_members(self) -> None:
        self.scheduler_members: dict[str, Member] = {}
        self.stats: dict[str, dict[str, Any]] = {}
        self.blocked: dict[str, Waits] = {}
        self.lane_owners: dict[int, str] = {}
        self.wakes: dict[str, str] = {}
        self.registered: dict[str, Member] = {}
        self.executor_numbers: dict[str, int] = {}
        self.serving: set[int] = set()
        # The last output of tasks; how far tasks have come, by job and machine.
        self.output: dict[tuple[str, int, int, str], bytes] = {}
        self.come: dict[tuple[str, int], list[TaskProgress]] = {}
        # When the tasks of drained machines are to be moved off (ms of the store's clock).
        self.drains: dict[int, int] = {}
        # What operators set of machines.
        self.operator: dict[int, MachineSettings] = {}
        # The health of tasks by job: (machine, placement, task) → when a grant of its end expires, 0 for a ready task.
        self.health: dict[str, dict[tuple[int, int, int], int]] = {}
        # The housekeeping set: when housekeeping is due for a job (ms).
        self.due: dict[str, int] = {}
        # (ms, last placement id), newest first, for the placements that have run for ten minutes.
        self.ticks: tuple[tuple[int, int], ...] = ()

    def _create_changes(self) -> None:
        self.entries: deque[LogEntry] = deque(maxlen=LOG_KEPT)
        self.messages: dict[int, list[list[str]]] = {}
        # Finished jobs and the versions in which they ended; (version, server's clock) marks: lua/retire.lua.
        self.done: deque[tuple[JobRow, int]] = deque()
        self.times: list[tuple[int, int]] = []
        # Per version after the floor: how long the trail of touched machines was then.
        self.marks = array("q")
        self.trail: list[int] = []
        self.cut, self.changes_kept = 0, CHANGES_KEPT
        # (version, machine) where the change list names a machine as drained before it names it as it is.
        self.restated: list[tuple[int, int]] = []
        # The digest of the log (lua/digest.lua): its position, histories of jobs, results, hours of use.
        self.digested = b""
        self.past: dict[str, bytes] = {}
        self.results: dict[str, bytes] = {}
        self.hours: dict[int, bytes] = {}
        # Needs that are vectors of this cell, as was checked.
        self.checked: set[Resources] = set()
        # Records of all machines without numbers and amounts, which change frequently.
        self.seldom: Rows = np.zeros((8, 4 + 2 * len(self.dimensions)), dtype=np.int64)

    # The call in progress

    @property
    def quiet(self) -> bool:
        """Whether it has no log and no mailboxes, so that nothing is said of single runs."""
        return not (self.logs or self.mailboxes)

    def open(self) -> None:
        """Begin a call without touched machines and facts."""
        self.stamp += 1
        self.base = self.stamp
        self.facts_now: list[str] = []
        self.messages_now: dict[int, list[str]] = {}
        self.changed_jobs: list[JobRow] = []
        self.pend: list[JobRow] = []
        self.retired: list[JobRow] = []
        # Jobs that ended and of whose waiters some are not released yet.
        self.releasing: list[str] = []
        self.gained: list[JobRow] = []
        # Strict gangs that lost a member to an eviction in this call.
        self.strict: list[JobRow] = []
        self.freed = self.diverged = False
        # The lanes whose tasks left room.
        self.left_by: set[int] = set()
        # The time of this call (ms), for losses; 0 where the store does not ask for it, as in a commit.
        self.lost_at = 0
        # The transaction whose ends are applied: its stamp marks the machines of copies too.
        self.transaction = self.stamp

    def fact(self, *words: object) -> None:
        """Add a fact to this call."""
        if self.logs:
            self.facts_now.append(" ".join(map(str, words)))

    def message(self, m: MachineRow, *words: object) -> None:
        """Add a message for the machine's executor."""
        if self.mailboxes:
            self.messages_now.setdefault(m.executor, []).append(" ".join(map(str, words)))

    def touch(self, m: MachineRow, transaction: int, *, moves: bool = True) -> None:
        """Raise a machine's number by one per transaction that changes it (invariant 3)."""
        if m.stamp != transaction:
            if m.stamp < self.base:
                m.before = m.number
                self.trail.append(m.index)
            m.stamp = transaction
            m.number += moves

    def touch_job(self, j: JobRow) -> None:
        """Mark a job's record as changed."""
        if j.call != self.base:
            j.call = self.base
            self.changed_jobs.append(j)

    def modify(self, j: JobRow) -> None:
        """Record a change by a user: the modify index is the version of this call."""
        j.modified = self.version + 1
        self.touch_job(j)

    def wake(self, kind: str) -> None:
        """Leave a token for every live scheduler of a kind."""
        for name, member in self.scheduler_members.items():
            if member.lives and name.partition("/")[0] == kind:
                self.wakes.setdefault(name, "1")

    def announce(self, at: int, by: str, basis: Basis | None = None, settings: str = "") -> None:
        """Announce the touched machines and the facts under the next version; `basis`: of a commit."""
        self.version = version = self.version + 1
        self.marks.append(self.cut + len(self.trail))
        if version - self.floor > 2 * self.changes_kept:
            self.trim(version - self.changes_kept)
        if self.logs:
            words = basis.text if basis else ""
            entry = LogEntry(
                version=self.version, at_ms=at, by=by, facts="\n".join(self.facts_now), basis=words, settings=settings
            )
            self.entries.append(entry)

    def trim(self, floor: int) -> None:
        """Forget which machines the versions up to `floor` changed; ``lua/parts/trim.lua``.

        The store chooses the floor by the length of its entries, which this cell does not have.
        """
        drop = floor - self.floor
        self.floor = floor
        del self.trail[: self.marks[drop - 1] - self.cut]
        self.cut = self.marks[drop - 1]
        del self.marks[:drop]
        self.restated = [each for each in self.restated if each[0] > floor]
        self.gone_lanes = [each for each in self.gone_lanes if each.version > floor]

    # Jobs: their kinds, their lanes, their end

    def kind(self, name: str) -> Book:
        """Return the record of a kind, made when there is none."""
        row = self.K.get(name)
        if row is None:
            row = self.K[name] = Book(name, (None,) * (2 + len(self.dimensions)))
        return row

    def conclude(self, j: JobRow) -> None:
        """Complete a changed job without remaining tasks, else see to its place in the queue."""
        if j.complete:
            return
        if self.counted:
            self.count_in_lane(j)
        if j.unplaced:
            if j.state > JobState.HELD or (j.delayed and j.whole):
                if j.arrival:
                    self.dequeue(j)
            elif j.returned or not j.arrival:
                self.pend.append(j)
                j.returned = False
            return
        if j.arrival:
            self.dequeue(j)
        if j.returned:
            j.returned = False
        if not (j.placed or j.delayed):
            self.complete(j)

    def complete(self, j: JobRow) -> None:
        """Complete a job without remaining tasks; `tidy` does the rest."""
        if j.state is _ACTIVE or j.state <= JobState.HELD:
            j.state = _DONE
        else:
            self.due.pop(j.id, None)
        j.complete = True
        lane = j.lane
        lane.live -= 1
        lane.version = self.version + 1
        if not lane.live:
            self.left_lanes.append(lane)
        self.retired.append(j)
        if self.logs:
            self.fact("done", j.id, int(j.state))

    def tidy(self) -> None:
        """After jobs ended: delete lanes without live jobs, and finished jobs beyond the number to keep."""
        if self.left_lanes:
            for lane in sorted(self.left_lanes, key=lambda each: each.number):
                del self.L[lane.number], self.lane_names[lane.lane]
                self.spare_lanes.append(lane.number)
                self.gone_lanes.append(lane)
            self.left_lanes = []
        for j in self.retired:
            if self.keep_jobs or self.done or not self.drop(j):
                self.done.append((j, self.version + 1))
        if self.done:
            self.forget(min(len(self.done) - self.keep_jobs, len(self.retired) + 4))
        self.retired.clear()

    def forget(self, count: int) -> int:
        """Delete the oldest `count` finished jobs; return their number. One that may not go yet moves to the end."""
        gone = 0
        for _ in range(count):
            j, since = self.done.popleft()
            if self.drop(j):
                gone += 1
            else:
                self.done.append((j, since))
        return gone

    def drop(self, j: JobRow) -> bool:
        """Delete a finished job; False while it is awaited, or others wait for its leaving tasks (semantics 2)."""
        groups = j.made
        if (self.waited and j.awaited) or (groups is not None and any(g.leaving for g in groups)):
            return False
        if self.logs:
            self.forgotten.update(totals_of([head_of(job_of(j, runs=False))]))
        del self.J[j.id]
        if self.past:
            self.forget_digest(j.id)
        name = j.sent.name
        if self.names.get(name) == j.id:  # a newer job of that name keeps it
            del self.names[name]
        for g in groups or ():
            del g.job  # nothing is left for the collector of cycles; the call may still show the job
        return True

    def forget_digest(self, job_id: str) -> None:
        """Delete what the digest kept of a job."""
        if self.past.pop(job_id, None) is None:
            return
        for piece in self.results.pop(job_id, b"").decode().split(";"):
            group, _, chunks = piece.partition(":")
            for chunk in indices(chunks) if chunks else ():
                self.results.pop(f"{job_id} {group} {chunk}", None)

    def lane_named(self, lane: Lane) -> LaneRow:
        """Return a lane by its name, creating it. With too many lanes, all further jobs of a kind share one."""
        row = self.lane_names.get(lane)
        if row is None and len(self.L) >= MOST_LANES:
            lane = Lane(lane.kind, 0)
            row = self.lane_names.get(lane)
        if row is None:
            self.lane_serials += 1
            number = self.spare_lanes.pop() if self.spare_lanes else len(self.L) + 1
            row = self.lane_names[lane] = self.L[number] = LaneRow(number, self.lane_serials, lane)
        return row

    def count_in_lane(self, j: JobRow) -> None:
        """Update the lane of a changed job."""
        lane = j.lane
        lane.version = self.version + 1
        for g in j.groups:
            if g.wanted != g.unplaced and not g.copies:  # copies hold room, and are no demand
                lane.wanted += _wants(g, g.unplaced) - _wants(g, g.wanted)
                g.wanted = g.unplaced
            if g.held != g.placed:
                lane.held += g.need * (g.placed - g.held)
                g.held = g.placed

    def write_pending(self) -> None:
        """Put jobs at the end of the queue of their lane; at most one token notifies a scheduler (semantics 19)."""
        lanes, version, arrival = set[LaneRow](), self.version + 1, self.arrivals
        for j in self.pend:
            if j.arrival:
                self.dequeue(j)
            lane = j.lane
            j.arrival = arrival = arrival + 1
            lane.queue[arrival] = j
            lane.arrival = arrival
            lanes.add(lane)
        self.arrivals = arrival
        for lane in lanes:
            lane.version = version
        for kind in {lane.lane.kind for lane in lanes}:
            self.wake(kind)
        self.pend = []

    def dequeue(self, j: JobRow) -> None:
        """Remove a job from its lane's queue."""
        lane = j.lane
        del lane.queue[j.arrival]
        j.arrival = 0
        lane.version = self.version + 1

    # Machines and changes

    def unfold(self) -> None:
        """Write out the runs that are noted as blocks, for callers that need single runs."""
        for placement, noted in self.blocks.items():
            block = noted.block
            g, run, first = block.row, placement, block.task
            for machine, count in zip(block.machines, block.counts or repeat(1), strict=False):
                self.M[machine].runs[run] = g, (first, first + count - 1)
                g.runs[run] = machine
                run, first = run + 1, first + count
            g.newest = None
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

    def describe(self, machines: Sequence[MachineRow]) -> None:
        """Update the rarely changing part of the records of some machines."""
        if not machines:
            return
        rows = np.array([(m.index, 0, m.state, m.executor, *m.capacity) for m in machines], dtype=np.int64)
        while rows[:, 0].max() >= len(self.seldom):
            self.seldom = np.concatenate([self.seldom, np.zeros_like(self.seldom)])
        self.redescribed += [m.index for m in machines]
        self.seldom[rows[:, 0], : rows.shape[1]] = rows
        up = {m.index for m in machines if m.state is MachineState.UP}
        self.shut = (self.shut | {m.index for m in machines}) - up

    def rows_of(self, machines: Iterable[int]) -> Rows:
        """Return the records of some machines; a machine may occur several times."""
        size, listed = len(self.dimensions), list(machines)
        if not listed:
            return self.seldom[:0]
        rows = self.seldom[listed]
        rows[:, 1] = [self.numbers[index] for index in listed]
        free = fields([self.free[index] for index in listed], size)
        np.subtract(rows[:, 4 : 4 + size], free - GUARD, out=rows[:, 4 + size :])
        return rows

    @property
    def position(self) -> Position:
        """The version and its tag: versions of one history in memory need no random ones."""
        return Position(self.version, tag_of(self.version))

    def has_diverged(self, since: Position) -> bool:
        """Return whether a snapshot belongs to a history that this cell does not have (semantics 16)."""
        return since.version > self.version or (since.version > self.floor and since.tag != tag_of(since.version))

    def delta(self, since: Position) -> tuple[bool, Rows]:
        """Return whether the reply is complete, and the records changed after `since` (semantics 16, 18)."""
        at = since.version - self.floor - 1
        if at < 0 or self.has_diverged(since):
            return True, self.rows_of(self.M)
        changed = self.trail[self.marks[at] - self.cut :]
        rows = self.rows_of(changed if len(changed) < 64 else dict.fromkeys(changed))
        restated = [index for version, index in self.restated if version > since.version]
        if restated:
            drained = self.rows_of(restated).copy()
            drained[:, 2] = MachineState.DRAINED
            rows = np.concatenate([drained, rows])
        return False, rows

    def lanes_since(self, version: int, *, full: bool) -> Rows:
        """Return the lanes that changed after a version, or all of them."""
        lanes = list(self.L.values())
        if not full:
            lanes = [each for each in (*self.gone_lanes, *lanes) if each.version > version]
            lanes.sort(key=lambda each: each.serial)
        rows = [(BASE + each.number, each.serial, len(each.queue), each.arrival, *self.spread(each.wanted),
                 *self.spread(each.held)) for each in lanes]  # fmt: skip
        return np.array(rows, dtype=np.int64).reshape(-1, 4 + 2 * len(self.dimensions))


def tag_of(version: int) -> str:
    """Return the tag of a version."""
    return f"{version:010d}" if version else ""


def _wants(g: GroupRow, tasks: int) -> int:
    """Return the demand of tasks, packed and bounded."""
    if max(g.amounts) * tasks <= MOST_WANTED:
        return g.need * tasks
    return packed([min(MOST_WANTED, amount * tasks) for amount in g.amounts])


# Records as data types


def job_of(j: JobRow, *, spec: bool = True, runs: bool = True) -> Job:
    """Return a job as it is now; with `runs` those that are written out."""
    return Job(
        id=j.id, name=j.name, kind=j.kind.name, precedence=j.precedence, order=j.order, state=j.state, gang=j.gang,
        gang_min=j.gang_min, submitted_ms=j.submitted, groups=[_status(g, g.runs if runs else {}) for g in j.groups],
        spec=j.spec if spec else {}, modified=j.modified, held="*" in j.waits, awaited=j.awaited,
        after=tuple(After(wait.rstrip("+"), wait[-1] == "+") for wait in j.waits if wait[0] not in "*!"),
        gate=j.gate, released=j.released, begun=j.begun, lane=j.lane.number, commands=j.commands,
        submitter=j.submitter,
    )  # fmt: skip


def _status(g: GroupRow, runs: Mapping[int, int]) -> GroupStatus:
    return GroupStatus(
        need=g.amounts, duration_ms=g.asked.duration_ms, total=g.total, unplaced=g.unplaced + g.delayed,
        placed=g.placed, finished=g.finished, failed=g.failed, stopped=g.stopped, waiting=span_text(g.waiting),
        runs=_runs(g, runs), optional=g.optional, copies=g.copies, replaced=g.replaced, indices=g.indices,
        budget=BUDGET if g.asked.once else g.asked.budget, once=g.asked.once,
        losses=tuple(
            TaskLoss(span_text(loss.tasks), loss.times, loss.due, loss.placement, loss.retried)
            for loss in g.losses
        ),
    )  # fmt: skip


def _runs(g: GroupRow, runs: Mapping[int, int]) -> tuple[tuple[int, int, bool], ...]:
    """Return placement, machine and whether it is leaving of each run, in order."""
    if g.leaving:
        return tuple(ordered(((abs(each), index, each < 0) for each, index in runs.items()), g.indices))
    live = runs.items() if g.indices <= RUNS_CHUNK else sorted(runs.items())
    return tuple([(placement, index, False) for placement, index in live])
