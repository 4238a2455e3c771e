"""The authoritative state of a simulated cell: a cell in memory, or a real store with the same results.

A simulation uses these operations; both implementations give the same answers.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from omega.cellstate.cell import Cell
from omega.cellstate.errors import Refused
from omega.cellstate.memory import MemoryCell
from omega.cellstate.memory.commit import carry_out, place_unchecked
from omega.cellstate.memory.state import Noted, job_of
from omega.cellstate.memory.tasks import end_block, split_block, tick
from omega.cellstate.model import MOST_CLAIMS, Job, JobSpec, JobState, MachineSpec
from omega.cellstate.override import override
from omega.cellstate.replies import CommitRequest, Membership
from omega.cellstate.resources import Dimensions
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import (
    Basis,
    ClaimColumns,
    Detection,
    Outcome,
    Placed,
    Position,
    Transaction,
    placed_runs,
)
from omega.simulation.packed_snapshot import PackedSnapshot

EXECUTOR = "simulated"
RESIDENTS = "resident/0"
"""The scheduler that placed the residents."""
LEASE_MS = 7 * 24 * 3600 * 1000
"""Longer than any simulation takes in real time; leases expire on the server's clock."""
UNREAD = 50_000
"""Number of messages to the executor after which they are discarded."""
WHOLESALE = 16
"""Part of the machines that changed above which copying all of them costs less than checking each."""


class SimulatedStore(Protocol):
    """Authoritative cell state. Times since the simulation began: `at_ms` in milliseconds, `at` in microseconds."""

    cell: Cell
    checks_residents: bool
    """Whether `put` needs machines with room for the tasks."""

    def join(self, machines: Sequence[MachineSpec]) -> None:
        """Add machines, or change their capacities."""

    def put(self, job_id: str, group: int, machines: list[int]) -> Placed:
        """Place the first tasks of a group, one on each machine; a machine may end up with more than it has."""

    def refresh(self, copy: PackedSnapshot) -> None:
        """Bring a working copy up to date."""

    def submit(self, jobs: Sequence[JobSpec], at_ms: int) -> None:
        """Submit jobs."""

    def commit(
        self, member: str, transaction: Transaction, copy: PackedSnapshot, at: int
    ) -> tuple[Outcome, Sequence[Placed]]:
        """Validate a transaction decided on `copy` and apply the accepted claims; also returns the placements."""

    def split(self, placed: Placed) -> Sequence[Placed]:
        """Return the runs of a new placement, of one task each, for `end_several`."""

    def end(self, placed: Placed, at: int) -> int:
        """Finish tasks that still exist; returns their number."""

    def end_several(self, runs: Sequence[Placed], at: int) -> int:
        """Finish some runs of one group that still exist, each apart, at once; returns the number of their tasks."""

    def finish(self, endings: Sequence[TaskEnd], at_ms: int) -> int:
        """End tasks that still exist; returns their number."""

    def job(self, job_id: str) -> Job | None:
        """Return a job as schedulers receive it, without its runs; None when it is not stored."""

    def abandon(self, job_id: str, at_ms: int, by: str, *, keep: bool) -> None:
        """Abandon a job; with `keep` its running tasks continue."""

    def release(self, at_ms: int) -> bool:
        """Release more of the jobs that waited for ended ones; return whether there may be others."""

    def tick(self, at_ms: int) -> None:
        """Record the last placement id, once per minute; a real store does it by its own clock."""


class _CellStore(SimulatedStore):
    """What both stores do alike: calls of the cell."""

    _registered = False

    @override
    def join(self, machines: Sequence[MachineSpec]) -> None:
        if not self._registered:
            self._registered = True
            self.cell.executors.register(EXECUTOR, EXECUTOR, LEASE_MS, 0)
        self.cell.machines.join(EXECUTOR, machines, 0)

    @override
    def submit(self, jobs: Sequence[JobSpec], at_ms: int) -> None:
        self.cell.jobs.submit(jobs, at_ms, EXECUTOR)

    @override
    def finish(self, endings: Sequence[TaskEnd], at_ms: int) -> int:
        return sum(self.cell.executors.end(endings, at_ms, EXECUTOR))

    @override
    def abandon(self, job_id: str, at_ms: int, by: str, *, keep: bool) -> None:
        self.cell.jobs.stop(job_id, at_ms, by, JobState.ABANDONED, keep=keep)

    @override
    def release(self, at_ms: int) -> bool:
        return self.cell.jobs.housekeep(at_ms, EXECUTOR).more


class MemoryStore(_CellStore):
    """A cell in memory. It writes no log and sends no messages, so that runs stay blocks."""

    checks_residents = False

    def __init__(
        self, name: str, dimensions: Dimensions, *, release_moves_number: bool = True, numbered: bool = True,
        counted: bool = True, keeps: bool = False,
    ) -> None:  # fmt: skip
        """Create an empty cell; finished jobs are deleted at once, unless it `keeps` them: later ones wait for some.

        `numbered`: whether sequence numbers are read; `counted`: whether use by user and pool is.
        """
        self.cell: MemoryCell = MemoryCell(
            name, dimensions, keep_jobs=1 << 40 if keeps else 0, keep_ms=0, log=False, mailboxes=False,
            release_moves_number=release_moves_number, numbered=numbered, counted=counted,
        )  # fmt: skip

    @override
    def put(self, job_id: str, group: int, machines: list[int]) -> Placed:
        return place_unchecked(self.cell, self.cell.J[job_id].groups[group], machines)

    @override
    def refresh(self, copy: PackedSnapshot) -> None:
        cell = self.cell
        if copy.wants_use:
            copy.usage.state_all(_use_of_lanes(cell))
        at, end = copy.followed - cell.cut, len(cell.trail)
        if at == end and copy.followed >= 0:
            return
        copy.followed = cell.cut + end
        copy.changes += 1
        rest, free, numbers = copy.rest, cell.free, cell.numbers
        if copy.redescribed != len(cell.redescribed):
            self._describe(copy)
        gained: list[int] | None = None
        if at < 0 or ((end - at) * WHOLESALE > len(free) and copy.wholesale):
            rest[:] = free
            changed: Sequence[int] = range(len(free))
        else:
            changed = cell.trail[at:]
            if copy.watching:
                gained = [machine for machine in changed if copy.has_more(free[machine], rest[machine])]
            for machine in changed:
                rest[machine] = free[machine]
        if copy.numbered and len(changed) == len(free):
            copy.numbers[:] = numbers
        elif copy.numbered:
            for machine in changed:
                copy.numbers[machine] = numbers[machine]
        for machine in cell.shut:
            rest[machine] = copy.nothing
        copy.took_over(changed, gained)

    def _describe(self, copy: PackedSnapshot) -> None:
        """Write the records of machines that changed, all but their free amounts, into a snapshot."""
        cell, known = self.cell, copy.redescribed
        copy.redescribed = len(cell.redescribed)
        if known < 0:
            copy.start(cell.rows_of(cell.M))
        else:
            copy.restate(cell.rows_of(dict.fromkeys(cell.redescribed[known:])))

    @override
    def commit(
        self, member: str, transaction: Transaction, copy: PackedSnapshot, at: int
    ) -> tuple[Outcome, Sequence[Placed]]:
        cell = self.cell
        decided = copy.decided() if copy.followed == cell.cut + len(cell.trail) else None
        outcome, placed = carry_out(cell, transaction, at // 1000, member, decided)
        # Claims that alone changed the cell since the last sync are in the copy already. As on a store, the machines
        # count as changed for a copy that is `watching`.
        if decided is not None and outcome.accepted and not (copy.watching or copy.numbered):
            noted = placed[0]
            if isinstance(noted, Noted) and noted.need == decided[1] and noted.machines == decided[0]:
                copy.followed = cell.cut + len(cell.trail)
                copy.changes += 1
        return outcome, placed

    @override
    def split(self, placed: Placed) -> Sequence[Placed]:
        return split_block(self.cell, placed)

    @override
    def end(self, placed: Placed, at: int) -> int:
        return end_block(self.cell, placed, at // 1000)

    @override
    def end_several(self, runs: Sequence[Placed], at: int) -> int:
        return sum([end_block(self.cell, run, at // 1000) for run in runs])

    @override
    def job(self, job_id: str) -> Job | None:
        j = self.cell.J.get(job_id)
        return None if j is None else job_of(j, runs=False)

    @override
    def tick(self, at_ms: int) -> None:
        tick(self.cell, at_ms)


def _use_of_lanes(cell: MemoryCell) -> dict[tuple[str, str], tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return use and demand by (pool, user)."""
    sums: dict[tuple[str, str], tuple[int, int]] = {}
    for each in cell.L.values():
        whose = each.lane.pool, each.lane.user
        held, wanted = sums.get(whose, (0, 0))
        sums[whose] = held + each.held, wanted + each.wanted
    return {whose: (cell.spread(held), cell.spread(wanted)) for whose, (held, wanted) in sums.items()}


class ServerStore(_CellStore):
    """A cell on a real store without other users.

    Its releases always raise sequence numbers. Without `release_moves_number` they are counted and subtracted
    from the numbers that copies show; transactions are committed with the store's numbers.
    """

    checks_residents = True

    def __init__(self, cell: Cell, *, release_moves_number: bool = True) -> None:
        """Take a newly created cell."""
        self.cell = cell
        self.release_moves_number = release_moves_number
        self._released: Counter[int] = Counter()
        self._members: dict[str, Membership] = {}
        self._numbers: dict[str, int] = {}
        self._position = Position()
        self._copy = PackedSnapshot(len(cell.dimensions))
        """Of the machines on which residents are put, for their executors."""
        self._placements = 0
        self._unread = 0

    @override
    def job(self, job_id: str) -> Job | None:
        job = self.cell.jobs.get(job_id)
        return None if job is None else replace(job, groups=[replace(group, runs=()) for group in job.groups])

    @override
    def refresh(self, copy: PackedSnapshot) -> None:
        reply = self.cell.schedulers.sync(copy.position)
        copy.apply(reply)
        copy.lanes.learn(self.cell.schedulers.lanes(copy.lanes.unknown()))
        self._position = reply.position
        if not self.release_moves_number and copy.numbered:
            for machine in set(reply.rows[:, 0].tolist()):
                copy.numbers[machine] -= self._released[machine]

    def _membership(self, member: str) -> Membership:
        if member not in self._members:
            self._members[member] = self.cell.schedulers.register(member, member.replace("/", "-"), LEASE_MS, 0)
            self._numbers[member] = 0
        return self._members[member]

    @override
    def commit(
        self, member: str, transaction: Transaction, copy: PackedSnapshot, at: int
    ) -> tuple[Outcome, Sequence[Placed]]:
        membership = self._membership(member)
        self._numbers[member] += 1
        since = self._position
        if transaction.detection is Detection.COARSE:
            since = copy.position
            if not self.release_moves_number:
                claims = [c._replace(seen=c.seen + self._released[c.machine]) for c in transaction.claims]
                transaction = transaction._replace(claims=claims)
        executors = copy.executors([claim.machine for claim in transaction.claims])
        basis = Basis(copy.position.version, round(copy.began * 1000))
        number, at_ms = self._numbers[member], at // 1000
        reply = self.cell.schedulers.commit(
            CommitRequest(membership, number, [transaction], since, at_ms, executors=executors, basis=basis)
        )
        self._position = reply.position
        outcome = reply.outcomes[0]
        # No other process places tasks here, and ids are issued in the order of the claims.
        placed = placed_runs(transaction, outcome, self._placements + 1)
        runs = sum(len(each.machines) for each in placed)
        self._placements += runs
        self._unread += runs
        if self._unread >= UNREAD:
            self._unread = 0
            for executor in executors:
                while self.cell.executors.receive(executor):
                    continue
        return outcome, placed

    @override
    def put(self, job_id: str, group: int, machines: list[int]) -> Placed:
        copy, first = self._copy, self._placements + 1
        if not copy.size:
            self.refresh(copy)
        for start in range(0, len(machines), MOST_CLAIMS):
            claims = ClaimColumns(machines[start : start + MOST_CLAIMS], group=group)
            outcome, _ = self.commit(RESIDENTS, Transaction(job_id, claims), copy, 0)
            if not outcome.accepted:
                raise Refused(f"cell {self.cell.name}: resident job {job_id} is not placed: {outcome}")
        return Placed(range(first, first + len(machines)), machines, None, group)

    @override
    def split(self, placed: Placed) -> Sequence[Placed]:
        runs = zip(placed.placements, placed.machines, strict=True)
        return [Placed((placement,), (machine,), None, placed.group) for placement, machine in runs]

    @override
    def end(self, placed: Placed, at: int) -> int:
        return self.finish(placed.endings(), at // 1000)

    @override
    def end_several(self, runs: Sequence[Placed], at: int) -> int:
        return self.finish([ending for run in runs for ending in run.endings()], at // 1000)

    @override
    def finish(self, endings: Sequence[TaskEnd], at_ms: int) -> int:
        counts = self.cell.executors.end(endings, at_ms, EXECUTOR)
        ended = zip(endings, counts, strict=True)
        self._released.update({each.machine for each, count in ended if count and each.how < EndKind.LEFT})
        return sum(counts)

    @override
    def tick(self, at_ms: int) -> None:
        """Do nothing: the store does it by its own clock."""
