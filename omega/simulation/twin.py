"""The in-memory twin as the simulator uses it: validation as in `commit` and `end`, without messages and log.

A day of a cell has a quarter of a million tasks; each is validated, placed and ended here in few steps. Uncommon cases
take the general path. tests/property compares both paths exactly.
"""

from collections.abc import Sequence

from omega.cellstate.memory import MemoryCell
from omega.cellstate.memory.commit import decide
from omega.cellstate.memory.delta import rows_of
from omega.cellstate.memory.done import retire_excess
from omega.cellstate.memory.lanes import count_in_lane, remove, use_of_lanes, write_lanes
from omega.cellstate.memory.ledger import Ledger
from omega.cellstate.memory.pools import is_bounded
from omega.cellstate.memory.publish import publish, write_jobs, write_pending
from omega.cellstate.memory.records import Block, GroupRow, JobRow
from omega.cellstate.model import JobSpec, JobState
from omega.cellstate.override import override
from omega.cellstate.transaction import (
    PLACED_ONE,
    Claim,
    ClaimColumns,
    Detection,
    Mode,
    Outcome,
    Placed,
    Transaction,
    Verdict,
    all_placed,
    placed_runs,
)
from omega.simulation.job_machines import JobMachines
from omega.simulation.packed_snapshot import PackedSnapshot
from omega.simulation.simple_jobs import SimpleJob, SimpleJobs, leave, take_singles

_ACTIVE, _GANG, _COARSE = JobState.ACTIVE, Mode.GANG, Detection.COARSE
"""Members that are compared for each transaction; reading one from its class costs as much as a call."""
_new = tuple.__new__
FULL_ONE, MOVED_ONE, ABORTED_ONE = (0, Verdict.FULL), (0, Verdict.MOVED), (0, Verdict.ABORTED)
WHOLESALE = 16
"""Number of changed machines above which copying them all at once costs less than checking each."""


class SimulatedTwin(MemoryCell):
    """One transaction per call, by schedulers with an assumed right to commit."""

    @property
    def ledger(self) -> Ledger:
        """The whole state of the cell: the jobs that have no rows yet get theirs."""
        self.simple.write()
        if self._machines:
            self._machines.forget()  # the caller may end or move tasks
        return self._ledger

    @ledger.setter
    def ledger(self, ledger: Ledger) -> None:
        self._ledger, self.simple = ledger, SimpleJobs(ledger)
        self._machines = JobMachines()

    def submit_simple(self, jobs: Sequence[JobSpec], at_ms: int, by: str) -> bool:
        """Submit new jobs as `submit` does; False, without effect, unless all are simple."""
        return self.simple.submit(jobs, at_ms, by)

    @override
    def tasks_by_machine(self, job_id: str) -> dict[int, int]:
        return self._machines.of(self.ledger if self.simple.has(job_id) else self._ledger, job_id)

    # Snapshots

    def bring_up_to_date(self, copy: PackedSnapshot) -> None:
        """Write the changes since its last update into a snapshot."""
        ledger = self._ledger
        if copy.wants_use:
            copy.usage.state_all(use_of_lanes(ledger))
        at, end = copy.followed - ledger.cut, len(ledger.trail)
        if at == end and copy.followed >= 0:
            return
        copy.followed = ledger.cut + end
        copy.changes += 1
        rest, free, numbers = copy.rest, ledger.free, ledger.numbers
        if copy.redescribed != len(ledger.described):
            self._describe(copy)
        gained: list[int] | None = None
        if at < 0 or ((end - at) * WHOLESALE > len(free) and copy.wholesale):
            rest[:] = free
            changed: Sequence[int] = range(len(free))
        else:
            changed = ledger.trail[at:]
            if copy.watching:
                gained = [machine for machine in changed if copy.has_more(free[machine], rest[machine])]
            for machine in changed:
                rest[machine] = free[machine]
        if copy.numbered and len(changed) == len(free):
            copy.numbers[:] = numbers
        elif copy.numbered:
            for machine in changed:
                copy.numbers[machine] = numbers[machine]
        for machine in ledger.shut:
            rest[machine] = copy.nothing
        copy.took_over(changed, gained)

    def _describe(self, copy: PackedSnapshot) -> None:
        """Write the records of machines that changed, all but their free amounts, into a snapshot."""
        ledger, known = self._ledger, copy.redescribed
        copy.redescribed = len(ledger.described)
        if known < 0:
            copy.start(rows_of(ledger, ledger.M))
        else:
            copy.restate(rows_of(ledger, dict.fromkeys(ledger.described[known:])))

    # Placement

    def carry_out(
        self, member: str, transaction: Transaction, copy: PackedSnapshot | None, at: int
    ) -> tuple[Outcome, Sequence[Placed | SimpleJob]]:
        """Validate a transaction and apply its accepted claims, as `commit` does with this one alone.

        Decisions on a `copy` need no second validation when the cell did not change since. `at` is in microseconds.
        """
        whole = self.simple.place(transaction, copy)
        if whole is not None:
            return whole[0], (whole[1],)
        ledger = self._ledger
        ledger.diverged = False
        self.simple.write_one(transaction.job)
        found = self.fast_path(transaction, copy)
        if found is None:
            return self.general_path(transaction, at // 1000, member)
        ledger.version += 1
        ledger.behind += 1
        return found

    def general_path(self, transaction: Transaction, at_ms: int, member: str) -> tuple[Outcome, list[Placed]]:
        """Take the general path."""
        ledger = self.ledger
        ledger.open()
        first = ledger.placements + 1
        outcome = decide(ledger, transaction)
        publish(ledger, at_ms, member)
        return outcome, placed_runs(transaction, outcome, first)

    def fast_path(self, transaction: Transaction, copy: PackedSnapshot | None) -> tuple[Outcome, list[Placed]] | None:
        """Take the fast path; None, without effect, when it does not apply."""
        ledger = self._ledger
        job_id, claims, mode, detection, asserted = transaction
        j = ledger.J.get(job_id)
        if j is None or ledger.log or ledger.mailboxes or not _is_free(ledger, j):
            return None
        if asserted is not None:
            return None
        if type(claims) is ClaimColumns:
            machines, number, counts, seen = claims.machines, claims.group, claims.counts, claims.seen
        else:
            split = _columns(claims)
            if split is None:
                return None
            machines, number, counts, seen = split
        g = j.groups[number] if 0 <= number < len(j.groups) else None
        total = len(machines) if counts is None else sum(counts)
        if g is None or j.state is not _ACTIVE or total > g.unplaced or len(g.waiting) != 2:
            return None
        gang = mode is _GANG
        if j.gang and not _takes_effect(j, total, gang=gang):
            return None
        if ledger.shut and not ledger.shut.isdisjoint(machines):
            return None
        moved = False
        if detection is _COARSE:
            numbers, seen = ledger.numbers, seen or [0] * len(machines)
            moved = seen != [numbers[machine] for machine in machines]
        in_step = copy is not None and not moved and copy.followed == ledger.cut + len(ledger.trail)
        if in_step and copy is not None and counts is None and copy.took(machines, g.need):
            return self.take_over(j, g, machines, copy)
        if not moved and self.takes_all(g, machines, counts):
            placed = [self.note(j, g, machines, counts, total)]
            if counts is None:
                return all_placed(total), placed
            return Outcome(tuple([(count, Verdict.PLACED) for count in counts])), placed
        if counts is not None:
            return None
        return self.some_stand(j, g, machines, seen if moved else None, gang=gang)

    def take_over(
        self, j: JobRow, g: GroupRow, machines: Sequence[int], copy: PackedSnapshot
    ) -> tuple[Outcome, list[Placed]]:
        """Copy the free amounts of these machines from the snapshot; nothing else changed since its last sync.

        The machines count as changed at the next sync of a snapshot that is `watching`, as on a store. Other snapshots
        read their amounts.
        """
        ledger = self._ledger
        free, rest, total = ledger.free, copy.rest, len(machines)
        for machine in machines:
            free[machine] = rest[machine]
        placed = self.note(j, g, machines, None, total)
        if not (copy.watching or copy.numbered):
            copy.followed = ledger.cut + len(ledger.trail)
            copy.changes += 1
        return all_placed(total), [placed]

    def takes_all(self, g: GroupRow, machines: Sequence[int], counts: Sequence[int] | None) -> bool:
        """Deduct room for every claim, or for none when one does not fit."""
        if counts is None:
            return take_singles(self._ledger, machines, g.need)
        free, guards = self._ledger.free, self._ledger.guards
        if max(counts) > g.many or min(counts) < 1:
            return False
        needs = [g.need * count for count in counts]
        for i, (machine, amounts) in enumerate(zip(machines, needs, strict=True)):
            left = free[machine] - amounts
            if left & guards != guards:
                for done, taken in zip(machines[:i], needs, strict=False):
                    free[done] += taken
                return False
            free[machine] = left
        return True

    def some_stand(
        self, j: JobRow, g: GroupRow, machines: Sequence[int], seen: Sequence[int] | None, *, gang: bool
    ) -> tuple[Outcome, list[Placed]] | None:
        """Validate single tasks in order; `seen` when numbers count. No room was deducted yet."""
        ledger = self._ledger
        free, numbers, need, guards = ledger.free, ledger.numbers, g.need, ledger.guards
        verdicts, stands = [], []
        for i, machine in enumerate(machines):
            left = free[machine] - need
            if seen is not None and seen[i] != numbers[machine]:
                verdicts.append(MOVED_ONE)
            elif left & guards == guards:
                free[machine] = left
                stands.append(machine)
                verdicts.append(PLACED_ONE)
            else:
                verdicts.append(FULL_ONE)
        # A machine that was over its capacity is down, not full: that verdict is left to the general path.
        over = any(free[machine] & guards != guards for machine in machines)
        if over or (gang and len(stands) < len(machines)):
            for machine in stands:
                free[machine] += need
            if over:
                return None
            return Outcome(tuple(ABORTED_ONE if verdict is PLACED_ONE else verdict for verdict in verdicts)), []
        placed = [self.note(j, g, stands, None, len(stands))] if stands else []
        return Outcome(tuple(verdicts)), placed

    def note(self, j: JobRow, g: GroupRow, machines: Sequence[int], counts: Sequence[int] | None, total: int) -> Placed:
        """Record runs on these machines as a block; single runs are expanded on demand."""
        ledger = self._ledger
        first, (task, last) = ledger.placements + 1, g.waiting
        ledger.placements += len(machines)
        ledger.blocks[first] = g, machines, counts, task
        g.waiting = (task + total, last) if task + total <= last else ()
        if self.simple.numbered:
            self.simple.raise_numbers(machines)
        ledger.trail += machines
        k = j.kind
        k.used += g.need * total
        k.jobs += not j.placed
        g.unplaced -= total
        g.placed += total
        if ledger.counted:
            count_in_lane(ledger, j)
        if self._machines:
            self._machines.add(j.id, machines, counts, 1)
        j.unplaced -= total
        j.placed += total
        if not j.unplaced and j.arrival:
            remove(ledger, j)
        ledger.transactions += 1
        return _new(Placed, (range(first, first + len(machines)), machines, counts, g.number))

    def put(self, job_id: str, group: int, machines: list[int]) -> Placed:
        """Place the first tasks of a group, one on each machine; a machine may end up with more than it has."""
        self.simple.write_one(job_id)
        ledger = self._ledger
        j, free = ledger.J[job_id], ledger.free
        g = j.groups[group]
        for machine in machines:
            free[machine] -= g.need
        ledger.version += 1
        ledger.behind += 1
        return self.note(j, g, machines, None, len(machines))

    def split(self, placed: Placed | SimpleJob) -> Sequence[Placed]:
        """Keep the runs of a new placement apart, because they end one by one; returns each."""
        if type(placed) is SimpleJob:
            self.simple.write_placed(placed)
        ledger, first = self._ledger, placed.placements[0]
        block = ledger.blocks.pop(first, None)
        runs = singles(placed)
        if block is not None:
            g, _, _, task = block
            ledger.blocks.update((run.placements[0], (g, run.machines, None, task + i)) for i, run in enumerate(runs))
        return runs

    # Endings

    def finish_placed(self, placed: Placed | SimpleJob, at: int) -> int:
        """End all of these tasks as finished at a time in microseconds, as `end` for each run. Returns their number."""
        if type(placed) is SimpleJob and (total := self.simple.end(placed)):
            return total
        ledger = self._ledger
        block = ledger.blocks.get(placed.placements[0]) or self._fold(placed)
        if block is None or block[0].losses:  # its tasks may have losses, which their end deletes
            return sum(self.end(placed.endings(), at // 1000, "-"))
        ledger.blocks.pop(placed.placements[0], None)
        g, machines, counts, _ = block
        free, need = ledger.free, g.need
        if counts is None:
            total = len(machines)
            for machine in machines:
                free[machine] += need
        else:
            total = sum(counts)
            for machine, count in zip(machines, counts, strict=True):
                free[machine] += need * count
        if self.simple.numbered and ledger.release_moves_number:
            self.simple.raise_numbers(machines)
        ledger.trail += machines
        j = g.job
        k = j.kind
        k.used -= need * total
        g.placed -= total
        if ledger.counted:
            count_in_lane(ledger, j)
        if self._machines:
            self._machines.add(j.id, machines, counts, -1)
        g.finished += total
        j.placed -= total
        ledger.transactions += 1
        if not j.placed:
            k.jobs -= 1
            if not j.unplaced and not j.delayed:
                self.complete(j)
        ledger.version += 1
        ledger.behind += 1
        return total

    def _fold(self, placed: Placed | SimpleJob) -> Block | None:
        """Take whole runs out of the rows of their machines, as the block they were; None when they must stay."""
        ledger, found = self._ledger, list[tuple[int, int, GroupRow, int, int]]()
        if ledger.pools_state or ledger.copied:
            return None
        for machine, placement in zip(placed.machines, placed.placements, strict=True):
            run = ledger.M[machine].runs.get(placement)
            if run is None or len(run[1]) != 2 or run[0].losses:
                return None
            found.append((machine, placement, run[0], *run[1]))
        for machine, placement, g, _, _ in found:
            del ledger.M[machine].runs[placement], g.runs[placement]
        tasks = [last - first + 1 for _, _, _, first, last in found]
        return found[0][2], placed.machines, None if max(tasks) == 1 else tasks, found[0][3]

    def complete(self, j: JobRow) -> None:
        """Complete a job after its last task."""
        ledger = self._ledger
        self._machines.drop(j.id)
        if ledger.keep_jobs or ledger.done or j.arrival or j.awaited or len(j.groups) > 1 or j.groups[0].leaving:
            ledger.changed_jobs, ledger.pend, ledger.retired, ledger.releasing = [j], [], [], []
            write_jobs(ledger, ())
            if ledger.pend:
                write_pending(ledger)
            if ledger.left_lanes:
                write_lanes(ledger)
            retire_excess(ledger)
            return
        # It is not kept: removed from all indexes, and dismantled so that it needs no garbage collection.
        leave(ledger, j.lane)
        del ledger.J[j.id], ledger.names[j.name]
        j.groups.clear()


def singles(placed: Placed | SimpleJob) -> list[Placed]:
    """Return the runs of a placement, of one task each."""
    runs = zip(placed.placements, placed.machines, strict=True)
    return [_new(Placed, ((placement,), (machine,), None, placed.group)) for placement, machine in runs]


def _is_free(ledger: Ledger, j: JobRow) -> bool:
    """Return whether nothing limits a job's claims and any machine may take them."""
    return j.kind.unrestricted and not j.commands and not (ledger.pools_state and is_bounded(ledger, j))


def _columns(claims: Sequence[Claim]) -> tuple[list[int], int, list[int], list[int]] | None:
    """Return machines, group, tasks and numbers of claims of one group that evict nothing; None for others."""
    number = claims[0].group
    if any(claim.group != number or claim.evict for claim in claims):
        return None
    machines, _, counts, seen, _ = map(list, zip(*claims, strict=True))
    return machines, number, counts, seen


def _takes_effect(j: JobRow, total: int, *, gang: bool) -> bool:
    """Return whether a transaction with so many claims may place tasks of a gang: all of them, or its minimum."""
    if j.gang_min:
        lacks = min(j.gang_min - j.placed, j.unplaced + j.delayed)
        return lacks <= 0 or (gang and total >= lacks)
    return gang and not j.delayed and total == j.unplaced
