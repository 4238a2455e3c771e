"""The ledger: the whole state of a cell in memory, and what the present call touches.

The modules beside it hold the rules: functions over a ledger, one module for each script or part of a script. They
write under these names what the scripts write under keys (cellstate/keys.py).
"""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from itertools import count as counting, repeat
from typing import Any

import numpy as np

from omega.cellstate.cuts import NO_CUTS
from omega.cellstate.errors import BadInput
from omega.cellstate.lanes import Lane
from omega.cellstate.memory.records import (
    Block,
    ExecutorRow,
    JobRow,
    KindRow,
    LaneRow,
    MachineRow,
    PoolRow,
    SchedulerRow,
    ShardTable,
)
from omega.cellstate.model import MachineSettings
from omega.cellstate.packing import FIELD, GUARD, MASK, packed
from omega.cellstate.pools import Epoch, Pools
from omega.cellstate.pools.lending import Lender, Lent
from omega.cellstate.replies import Awaited, Rows
from omega.cellstate.resources import LARGEST, Dimensions
from omega.cellstate.shards import ShardDurations
from omega.cellstate.tasks import OutputPart, TaskProgress
from omega.cellstate.transaction import Basis

LOG_KEPT = 50_000

LogLine = tuple[Any, ...]
"""A fact or a message before its conversion to text."""


def numbered() -> Callable[[], str]:
    """Return a source of tags: a counter instead of random numbers."""
    source = counting(1)
    return lambda: f"{next(source):010d}"


class Ledger:
    """Machines, jobs, kinds, lanes and pools of a cell; its log, mailboxes and members; the call in progress."""

    def __init__(
        self, name: str, dimensions: Dimensions, *, keep_jobs: int, keep_ms: int, log: bool, mailboxes: bool,
        release_moves_number: bool, tag: Callable[[], str] | None,
    ) -> None:  # fmt: skip
        """Create an empty cell; the options are those of MemoryCell."""
        self.name, self.dimensions = name, dimensions
        self.keep_jobs, self.keep_ms, self.log, self.mailboxes = keep_jobs, keep_ms, log, mailboxes
        self.release_moves_number, self.new_tag = release_moves_number, tag or numbered()
        # With False, the demand and use of lanes are not counted: for simulations that do not read them.
        self.counted = True
        # The clock of the store (ms); `housekeep` sets it to the time that it is given.
        self.now_ms = 0
        self._create_counters()
        self._create_records(len(dimensions))
        self._create_members()
        self._create_changes(len(dimensions))
        self.open()

    def _create_counters(self) -> None:
        self.version = self.floor = self.placements = self.arrivals = self.transactions = self.submissions = 0
        self.incarnations = self.lane_serials = 0
        self.stamp = self.base = 0
        self.described: list[int] = []
        """Machines whose states, executors or capacities were set, in order."""
        self.diverged = False
        # Totals of finished jobs that are no longer kept (cellstate/pages.py).
        self.forgotten = Counter[str]()
        # The time of this call (ms), for losses; 0 where the store does not ask for it, as in a commit.
        self.lost_at = 0
        # Whether any job ever waited for another.
        self.waited = False
        # The jobs that wait for a job, in the order of their submission.
        self.waiters: dict[str, dict[str, None]] = {}

    def _create_records(self, dimensions: int) -> None:
        self.M: dict[int, MachineRow] = {}
        self.J: dict[str, JobRow] = {}
        self.K: dict[str, KindRow] = {}
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
        self.guards = packed([GUARD] * dimensions)
        # By their first placement id.
        self.blocks: dict[int, Block] = {}
        # Machines that are not up.
        self.shut: set[int] = set()
        # The states of updates, by job.
        self.rolling: dict[str, str] = {}
        # Shards of MapReduce jobs, by job; mean durations, by the name of a job.
        self.tables: dict[str, ShardTable] = {}
        self.learnt: dict[str, ShardDurations] = {}
        # The cells that jobs were sent to, by job.
        self.chosen: dict[str, str] = {}
        # The jobs to which output directories belong, and whether these were submitted.
        self.directories: dict[str, tuple[str, bool]] = {}
        # The settings of pools; 0 without pools, 1 when there are some, 2 when some carry limits or lend in part.
        self.pool_settings, self.next_pool, self.pools_state = Pools(), 1, 0
        # Use of the pools with limits by number; those that bind the jobs of a leaf pool.
        self.pool_books: dict[int, PoolRow] = {}
        self.pool_chains: dict[str, list[PoolRow]] = {}
        # Pools that lend in part and their trees, by their fields in the store; those above a leaf pool.
        self.lenders: dict[str, Lender] = {}
        self.lent_chains: dict[str, Lent | None] = {}
        self.last_epoch: Epoch | None = None

    def _create_members(self) -> None:
        self.schedulers: dict[str, SchedulerRow] = {}
        self.stats: dict[str, dict[str, Any]] = {}
        self.blocked: dict[str, Awaited] = {}
        self.wakes: set[str] = set()
        self.registered: dict[str, ExecutorRow] = {}
        self.executors: dict[str, int] = {}
        self.serving: set[int] = set()
        self.unfit: dict[int, str] = {}
        self.output: dict[tuple[str, int, int, str], bytes] = {}
        self.answers: dict[str, OutputPart] = {}
        # Kinds of the jobs whose tasks may have copies.
        self.copied: dict[str, str] = {}
        # How far running tasks have come, by job and machine.
        self.progress: dict[tuple[str, int], list[TaskProgress]] = {}
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

    def _create_changes(self, dimensions: int) -> None:
        self.entries: deque[tuple[int, int, str, list[LogLine], Basis | None, str]] = deque(maxlen=LOG_KEPT)
        self.messages: dict[int, list[list[LogLine]]] = {}
        # Finished jobs and the versions in which they ended; (version, server's clock) marks: lua/retire.lua.
        self.done: deque[tuple[JobRow, int]] = deque()
        self.times: list[tuple[int, int]] = []
        # Reports of versions that a ledger which was taken back has lost.
        self.cuts = NO_CUTS
        # The digest of the log (lua/digest.lua): its position, histories, results, hours of use.
        self.digested = b""
        self.histories: dict[str, bytes] = {}
        self.results: dict[str, bytes] = {}
        self.hours: dict[int, bytes] = {}
        # Versions that the change list keeps. The store keeps fewer when they change many machines: lua/parts/trim.lua
        self.changes_kept = 8192
        # Per version after the floor: its tag, and how long the trail of touched machines was then.
        self.tags: list[str] = []
        self.marks: list[int] = []
        self.trail: list[int] = []
        self.cut = 0
        # (version, machine) where the change list names a machine as drained before it names it as it is.
        self.restated: list[tuple[int, int]] = []
        # Number of versions without both: nothing has requested their changes yet (`catch_up`).
        self.behind = 0
        # Records of all machines without numbers and amounts, which change frequently.
        self.seldom: Rows = np.zeros((8, 4 + 2 * dimensions), dtype=np.int64)

    # The call in progress

    def open(self) -> None:
        """Begin a call without touched machines and facts."""
        self.stamp += 1
        self.base = self.stamp
        self.facts_now: list[LogLine] = []
        self.messages_now: dict[int, list[LogLine]] = {}
        self.changed_jobs: list[JobRow] = []
        self.pend: list[JobRow] = []
        self.retired: list[JobRow] = []
        # Jobs that ended and of whose waiters some are not released yet.
        self.releasing: list[str] = []
        self.gained: list[JobRow] = []
        # Strict gangs that lost a member to an eviction in this call.
        self.strict: list[JobRow] = []
        self.freed = False
        # The transaction whose ends are applied: its stamp marks the machines of copies too.
        self.transaction = self.stamp

    def fact(self, *line: object) -> None:
        """Add a fact to this call."""
        if self.log:
            self.facts_now.append(line)

    def message(self, m: MachineRow, *line: object) -> None:
        """Add a message for the machine's executor."""
        if self.mailboxes:
            self.messages_now.setdefault(m.executor, []).append(line)

    def touch(self, m: MachineRow, transaction: int, *, moves: bool = True) -> None:
        """Raise a machine's number by one per transaction that changes it (invariant 3)."""
        if m.stamp != transaction:
            if m.stamp < self.base:
                m.before = m.number
                self.trail.append(m.index)
            m.stamp = transaction
            m.number += moves

    def restate(self, m: MachineRow) -> None:
        """List a machine as drained before its present record: its attributes changed."""
        self.restated.append((self.version + 1, m.index))

    def touch_job(self, j: JobRow) -> None:
        """Mark a job's record as changed."""
        if j.call != self.base:
            j.call = self.base
            j.returned = False
            self.changed_jobs.append(j)

    # Records

    def kind(self, name: str) -> KindRow:
        """Return the record of a kind, made when there is none."""
        row = self.K.get(name)
        if row is None:
            row = self.K[name] = KindRow(name, len(self.dimensions))
        return row

    def unfold(self) -> None:
        """Write out the runs that are noted as blocks, for callers that need single runs."""
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

    def over(self, m: MachineRow) -> bool:
        """Return whether more is allocated than the machine has."""
        return m.free & self.guards != self.guards
