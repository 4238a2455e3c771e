"""The twin's counters, announcements and writes of a call; ``lua/parts/publish.lua`` and ``delta.lua``.

Every changing call raises the version by one and records, under that version, its tag and the machines it touched.
Facts and messages are kept as tuples and converted to text when they are read.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from cellstate.cell import ANY_JOB, Awaited, Rows
from cellstate.memory.lanes import MemoryLanes
from cellstate.memory.shards import Table
from cellstate.memory.words import JobRow, MachineRow, numbered
from cellstate.model import JobState, MachineState
from cellstate.packing import GUARD, fields
from cellstate.resources import Dimensions
from cellstate.shards import ShardDurations
from cellstate.transaction import Position

LOG_KEPT, MAILBOX_MOST = 50_000, 200_000

Line = tuple[Any, ...]
"""A fact or a message before its conversion to text."""


class Member:
    """A registered scheduler. `last` and `outcomes` belong to its last transaction number."""

    __slots__ = ("incarnation", "last", "lives", "nonce", "outcomes")

    def __init__(self, incarnation: int, nonce: str) -> None:
        """Create with a lease and without commits."""
        self.incarnation, self.nonce, self.lives, self.last = incarnation, nonce, True, 0
        self.outcomes: list[Any] = []


class Agent:
    """A registered executor; its lease has the length `lease_ms` where time passes."""

    __slots__ = ("incarnation", "lease_ms", "lives", "nonce")

    def __init__(self, incarnation: int, nonce: str, lease_ms: int) -> None:
        """Create with a lease."""
        self.incarnation, self.nonce, self.lease_ms, self.lives = incarnation, nonce, lease_ms, True


class MemoryPublish(MemoryLanes):
    """The common part of every changing call, before and after its own work."""

    CHANGES_KEPT = 8192
    pools_state = 0
    """0 without pools, 1 when there are some, 2 when some carry limits."""

    def __init__(
        self, name: str, dimensions: Dimensions, keep_jobs: int, keep_ms: int,
        log: bool, mailboxes: bool, tag: Callable[[], str] | None,  # noqa: FBT001 - handed on from MemoryCell
    ) -> None:  # fmt: skip
        """See MemoryCell."""
        super().__init__(name, dimensions)
        self.keep_jobs, self.keep_ms, self.log, self.mailboxes = keep_jobs, keep_ms, log, mailboxes
        self._tag = tag or numbered()
        self.version = self.floor = self.placements = self.arrivals = self.transactions = self.submissions = 0
        self.incarnations = 0
        self.unreadable: dict[tuple[str, str], str] = {}
        self.schedulers: dict[str, Member] = {}
        self.agents_known: dict[str, Agent] = {}
        self.output: dict[tuple[str, int, int, str], bytes] = {}
        self.wakes: set[str] = set()
        # When the tasks of drained machines are to be moved off (ms of the store's clock).
        self.drains: dict[int, int] = {}
        # Shards of MapReduce jobs, by job; mean durations, by the name of a job.
        self.tables: dict[str, Table] = {}
        self.learnt: dict[str, ShardDurations] = {}
        self.blocked: dict[str, Awaited] = {}
        self._log: deque[tuple[int, int, str, list[Line]]] = deque(maxlen=LOG_KEPT)
        self._mailboxes: dict[int, list[Line]] = {}
        # Finished jobs and the versions in which they ended; (version, server's clock) marks: lua/retire.lua.
        self._done: deque[tuple[JobRow, int]] = deque()
        self._times: list[tuple[int, int]] = []
        self.names: dict[str, str] = {}
        self.executors: dict[str, int] = {}
        self.serving: set[int] = set()
        self.indices: dict[str, int] = {}
        self.stats: dict[str, dict[str, Any]] = {}
        # Per version after the floor: its tag, and how long the trail of touched machines was then.
        self._tags: list[str] = []
        self._marks: list[int] = []
        self._trail: list[int] = []
        self._cut = 0
        # (version, machine) where the change list names a machine as drained before it names it as it is.
        self._restated: list[tuple[int, int]] = []
        # The housekeeping set: when housekeeping is due for a job (ms).
        self.due: dict[str, int] = {}
        # Number of versions without both: nothing has requested their changes yet (`catch_up`).
        self._behind = 0
        # Records of all machines without numbers and amounts, which change frequently.
        self._seldom: Rows = np.zeros((8, 4 + 2 * len(dimensions)), dtype=np.int64)
        self.stamp = self.base = self.redescribed = 0
        self.diverged = False
        self.open()

    def open(self) -> None:
        """Begin a call without touched machines and facts."""
        self.stamp += 1
        self.base = self.stamp
        self.facts_now: list[Line] = []
        self.messages_now: dict[int, list[Line]] = {}
        self.changed_jobs: list[JobRow] = []
        self.pend: list[JobRow] = []
        self.retired: list[JobRow] = []
        self.gained: list[JobRow] = []
        self.freed = False

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
                self._trail.append(m.index)
            m.stamp = transaction
            m.number += moves

    def restate(self, m: MachineRow) -> None:
        """List a machine as drained before its present record: its attributes changed."""
        self._restated.append((self.version + 1, m.index))

    def touch_job(self, j: JobRow) -> None:
        """Mark a job's record as changed."""
        if j.call != self.base:
            j.call = self.base
            j.returned = False
            self.changed_jobs.append(j)

    def write_jobs(self) -> None:
        """Complete jobs without remaining tasks, and update which jobs are pending."""
        for j in self.changed_jobs:
            if self.counted and not j.complete:
                self.count_in_lane(j)
            pending = j.unplaced > 0 and j.state <= JobState.HELD and not (j.gang and j.delayed)
            if j.unplaced == 0 and j.placed == 0 and not j.delayed and not j.complete:
                if j.state <= JobState.HELD:
                    j.state = JobState.DONE
                else:
                    self.due.pop(j.id, None)
                j.complete = True
                self.leave_lane(j.lane)
                self.retired.append(j)
                self.fact("done", j.id, int(j.state))
            if pending and (j.returned or not j.arrival):
                self.pend.append(j)
            elif j.arrival and not pending:
                self.remove(j)

    def write_pending(self) -> None:
        """Add jobs to the end of the queue of their lane; at most one token notifies a scheduler (semantics 19)."""
        for j in self.pend:
            if j.arrival:
                self.remove(j)
            self.arrivals += 1
            self.enqueue(j, self.arrivals)
        for kind in {j.kind.name for j in self.pend}:
            self.wake(kind)

    def wake(self, kind: str) -> None:
        """Leave a token for every live scheduler of a kind."""
        for name, member in self.schedulers.items():
            if member.lives and name.partition("/")[0] == kind:
                self.wakes.add(name)

    def notify_blocked(self) -> None:
        """Notify live schedulers with blocked jobs: all of room, those that wait for it of a placement."""
        for name, awaited in self.blocked.items():
            lives = name in self.schedulers and self.schedulers[name].lives
            if lives and (self.freed or any(j.name in awaited or ANY_JOB in awaited for j in self.gained)):
                self.wakes.add(name)

    def write_mailboxes(self) -> None:
        """Deliver messages; an overfull mailbox is replaced by a mark to read everything."""
        for executor, lines in self.messages_now.items():
            mailbox = self._mailboxes.setdefault(executor, [])
            mailbox += lines
            if len(mailbox) > MAILBOX_MOST:
                self._mailboxes[executor] = [("!",)]

    def retire_excess(self) -> None:
        """Delete finished jobs beyond the number to keep, a few per call (semantics 21)."""
        if not self.retired:
            return
        for j in self.retired:
            self.names.pop(j.name, None)
            self._done.append((j, self.version + 1))
        self.forget(min(len(self._done) - self.keep_jobs, len(self.retired) + 4))

    def forget(self, count: int) -> int:
        """Delete the oldest `count` finished jobs; return their number.

        A job with leaving tasks moves to the end: tasks placed in their room need its amounts (2).
        """
        gone = 0
        for _ in range(count):
            j, since = self._done.popleft()
            if any(g.leaving for g in j.groups):
                self._done.append((j, since))
            else:
                del self.J[j.id]
                gone += 1
        return gone

    def announce(self, at: int, by: str) -> None:
        """Announce the touched machines and the facts under the next version."""
        self.catch_up()
        self.version += 1
        self._tags.append(self._tag())
        self._marks.append(self._cut + len(self._trail))
        if self.version - self.floor > 2 * self.CHANGES_KEPT:
            drop = self.version - self.CHANGES_KEPT - self.floor
            self.floor += drop
            del self._trail[: self._marks[drop - 1] - self._cut]
            self._cut = self._marks[drop - 1]
            del self._tags[:drop], self._marks[:drop]
            self._restated = [each for each in self._restated if each[0] > self.floor]
            self.gone_lanes = [each for each in self.gone_lanes if each.version > self.floor]
        if self.log:
            self._log.append((self.version, at, by, self.facts_now))

    def catch_up(self) -> None:
        """Create the tags of versions that were only counted; all their changes count as made after the first."""
        if self._behind:
            mark = self._marks[-1] if self._marks else self._cut
            self._tags += [self._tag() for _ in range(self._behind)]
            self._marks += [mark] * self._behind
            self._behind = 0

    def publish(self, at: int, by: str) -> None:
        """Write everything."""
        self.write_jobs()
        if self.pend:
            self.write_pending()
        if self.left_lanes:
            self.write_lanes()
        if self.blocked and (self.freed or self.gained):
            self.notify_blocked()
        if self.messages_now:
            self.write_mailboxes()
        self.retire_excess()
        self.announce(at, by)

    # Changes for snapshots (delta.lua)

    def describe(self, m: MachineRow) -> None:
        """Update the rarely changing part of a machine's record."""
        if m.index >= len(self._seldom):
            self._seldom = np.concatenate([self._seldom, np.zeros_like(self._seldom)])
        self.redescribed += 1
        self._seldom[m.index, : 4 + len(m.capacity)] = (m.index, 0, m.state, m.executor, *m.capacity)
        if m.state is MachineState.UP:
            self.shut.discard(m.index)
        else:
            self.shut.add(m.index)

    def rows(self, machines: Iterable[int]) -> Rows:
        """Return the records of some machines; a machine may occur several times."""
        size, listed = len(self.dimensions), list(machines)
        if not listed:
            return self._seldom[:0]
        rows = self._seldom[listed]
        rows[:, 1] = [self.numbers[index] for index in listed]
        free = fields([self.free[index] for index in listed], size)
        np.subtract(rows[:, 4 : 4 + size], free - GUARD, out=rows[:, 4 + size :])
        return rows

    def has_diverged(self, since: Position) -> bool:
        """Return whether a snapshot belongs to a history that this cell does not have (semantics 16)."""
        self.catch_up()
        at = since.version - self.floor - 1
        return since.version > self.version or (at >= 0 and self._tags[at] != since.tag)

    def delta(self, since: Position) -> tuple[bool, Rows]:
        """Return whether the reply is complete, and the records changed after `since` (semantics 16, 18)."""
        self.catch_up()
        at = since.version - self.floor - 1
        if at < 0 or self.has_diverged(since):
            return True, self.rows(self.M)
        changed = self._trail[self._marks[at] - self._cut :]
        rows = self.rows(changed if len(changed) < 64 else dict.fromkeys(changed))
        restated = [index for version, index in self._restated if version > since.version]
        if restated:
            drained = self.rows(restated).copy()
            drained[:, 2] = MachineState.DRAINED
            rows = np.concatenate([drained, rows])
        return False, rows

    def latest(self) -> Position:
        """Return the version and its tag."""
        self.catch_up()
        return Position(self.version, self._tags[-1] if self._tags else "")
