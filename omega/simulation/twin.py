"""The in-memory twin as the simulator uses it: validation as in `commit` and `end`, without messages and log.

A day of a cell has a quarter of a million tasks; each is validated, placed and ended here in few steps. Uncommon cases
take the full path. tests/property compares both paths exactly.
"""

from collections.abc import Sequence
from operator import length_hint

from cellstate.lanes import lane_of
from cellstate.memory import MemoryCell
from cellstate.memory.commit import decide
from cellstate.memory.delta import rows_of
from cellstate.memory.done import retire_excess
from cellstate.memory.lanes import count_in_lane, lane_named, leave_lane, remove, use_of_lanes, write_lanes
from cellstate.memory.plain import simply
from cellstate.memory.publish import announce, publish, wake, write_jobs, write_pending
from cellstate.memory.words import Group, JobRow, KindRow, LaneRow
from cellstate.model import JobSpec, JobState
from cellstate.resources import LARGEST, MOST_TOGETHER, Resources
from cellstate.transaction import (
    PLACED_ONE,
    Claim,
    Columns,
    Detection,
    Mode,
    Outcome,
    Placed,
    Singles,
    Transaction,
    Verdict,
    all_placed,
    placed_runs,
)
from omega.simulation.packed_snapshot import PackedSnapshot

_ACTIVE, _GANG, _COARSE = JobState.ACTIVE, Mode.GANG, Detection.COARSE
"""Members that are compared for each transaction; reading one from its class costs as much as a call."""
_new = tuple.__new__
FULL_ONE, MOVED_ONE, ABORTED_ONE = (0, Verdict.FULL), (0, Verdict.MOVED), (0, Verdict.ABORTED)


WHOLESALE = 16
"""Number of changed machines above which copying them all at once costs less than checking each."""


class SimulatedTwin(MemoryCell):
    """One transaction per call, by schedulers with an assumed right to commit."""

    numbered = True
    """With False, sequence numbers stay constant: for simulations that do not read them."""

    # Submission

    def submit_simply(self, jobs: Sequence[JobSpec], at_ms: int, by: str) -> bool:
        """Submit new jobs as `submit` does; False, without effect, unless all are simple: one group, no further fields.

        A job that `submit` would refuse is not simple, so that `submit` raises the error.
        """
        ledger = self.ledger
        if ledger.log or ledger.counted or ledger.pools_state or not (ledger.shortcut and self._are_simple(jobs)):
            return False
        known, names, version = ledger.J, ledger.names, ledger.version + 1
        order, arrival = ledger.submissions, ledger.arrivals
        rows: dict[tuple[str, int], tuple[LaneRow, KindRow]] = {}
        for spec in jobs:
            job_id, name, (group,), count = spec.id, spec.name, spec.groups, spec.groups[0].count
            found = rows.get((spec.kind, spec.precedence))
            if found is None:
                lane = lane_named(ledger, lane_of(spec.kind, spec.precedence, spec.extra))
                found = rows[spec.kind, spec.precedence] = lane, ledger.kind(spec.kind)
            lane, kind = found
            order, arrival = order + 1, arrival + 1
            j = JobRow(job_id, name, kind, spec.precedence, _ACTIVE, spec.gang)
            j.groups.append(Group(j, 0, group, count))
            j.order, j.submitted, j.unplaced, j.modified = order, at_ms, count, version
            j.lane, j.submitter, j.arrival = lane, by, arrival
            lane.arrivals.append(arrival)
            lane.queue.append(j)
            lane.live += 1
            lane.pending += 1
            lane.arrival, lane.version = arrival, version
            known[job_id], names[name] = j, job_id
        ledger.submissions, ledger.arrivals = order, arrival
        for name in {spec.kind for spec in jobs} if ledger.schedulers else ():
            wake(ledger, name)
        announce(ledger, at_ms, by)
        return True

    def _are_simple(self, jobs: Sequence[JobSpec]) -> bool:
        """Return whether all jobs are new, valid, and have one group and no further fields."""
        ledger = self.ledger
        ids, names, most = {spec.id for spec in jobs}, {spec.name for spec in jobs}, dict[Resources, int]()
        if not len(ids) == len(names) == len(jobs) or not (ids.isdisjoint(ledger.J) and names.isdisjoint(ledger.names)):
            return False
        for spec in jobs:
            if len(spec.groups) != 1 or spec.extra or spec.after:
                return False
            (group,) = spec.groups
            limit = most.get(group.need)
            if limit is None:
                ledger.check(f"job {spec.name}", group.need)
                limit = most[group.need] = min(LARGEST, MOST_TOGETHER // max(1, *group.need))
            if group.extra or group.count > limit or not 0 <= group.duration_ms <= LARGEST:
                return False
        return bool(jobs)

    # Snapshots

    def bring_up_to_date(self, copy: PackedSnapshot) -> None:
        """Write the changes since its last update into a snapshot."""
        ledger = self.ledger
        if copy.wants_use:
            copy.usage.state_all(use_of_lanes(ledger))
        at, end = copy.followed - ledger.cut, len(ledger.trail)
        if at == end and copy.followed >= 0:
            return
        copy.followed = ledger.cut + end
        copy.changes += 1
        rest, free, numbers = copy.rest, ledger.free, ledger.numbers
        if copy.redescribed != ledger.redescribed:
            copy.redescribed, at = ledger.redescribed, -1
            copy.start(rows_of(ledger, ledger.M))
        if at < 0 or ((end - at) * WHOLESALE > len(free) and copy.wholesale):
            rest[:] = free
            changed: Sequence[int] = range(len(free))
        else:
            changed = ledger.trail[at:]
            for machine in changed:
                rest[machine] = free[machine]
        if copy.numbered and len(changed) == len(free):
            copy.numbers[:] = numbers
        elif copy.numbered:
            for machine in changed:
                copy.numbers[machine] = numbers[machine]
        for machine in ledger.shut:
            rest[machine] = copy.nothing
        copy.took_over(changed)

    # Placement

    def carry_out(
        self, member: str, transaction: Transaction, copy: PackedSnapshot | None, at_ms: int
    ) -> tuple[Outcome, list[Placed]]:
        """Validate a transaction and apply its accepted claims, as `commit` does with this one alone.

        Decisions on a `copy` need no second validation when the cell did not change since.
        """
        ledger = self.ledger
        ledger.diverged = False
        found = self.swiftly(transaction, copy)
        if found is None:
            found = self.at_length(transaction, at_ms, member)
        else:
            ledger.version += 1
            ledger.behind += 1
        return found

    def at_length(self, transaction: Transaction, at_ms: int, member: str) -> tuple[Outcome, list[Placed]]:
        """Take the full path."""
        ledger = self.ledger
        ledger.open()
        first = ledger.placements + 1
        outcome = decide(ledger, transaction)
        publish(ledger, at_ms, member)
        return outcome, placed_runs(transaction, outcome, first)

    def swiftly(self, transaction: Transaction, copy: PackedSnapshot | None) -> tuple[Outcome, list[Placed]] | None:
        """Take the fast path; None, without effect, when it does not apply."""
        ledger = self.ledger
        job_id, claims, mode, detection, asserted = transaction
        j = ledger.J.get(job_id)
        if j is None or ledger.log or ledger.mailboxes or not ledger.shortcut or not simply(ledger, j):
            return None
        if asserted is not None:
            return None
        if type(claims) is Singles:
            machines, number, counts, seen = claims.machines, claims.group, None, claims.seen
        elif type(claims) is Columns:
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
        if j.gang and not (gang and total == j.unplaced):
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
        self, j: JobRow, g: Group, machines: Sequence[int], copy: PackedSnapshot
    ) -> tuple[Outcome, list[Placed]]:
        """Copy the free amounts of these machines from the snapshot; nothing else changed since its last sync.

        The machines count as changed at the next sync of a snapshot that is `watching`, as on a store: blocked jobs are
        retried. Other snapshots read their amounts.
        """
        ledger = self.ledger
        free, rest, total = ledger.free, copy.rest, len(machines)
        for machine in machines:
            free[machine] = rest[machine]
        placed = self.note(j, g, machines, None, total)
        if not (copy.watching or copy.numbered):
            copy.followed = ledger.cut + len(ledger.trail)
            copy.changes += 1
        return all_placed(total), [placed]

    def takes_all(self, g: Group, machines: Sequence[int], counts: Sequence[int] | None) -> bool:
        """Deduct room for every claim, or for none when one does not fit."""
        ledger = self.ledger
        free, need, guards = ledger.free, g.need, ledger.guards
        if counts is not None:
            if max(counts) > g.many or min(counts) < 1:
                return False
            needs = [need * count for count in counts]
            for i, (machine, amounts) in enumerate(zip(machines, needs, strict=True)):
                left = free[machine] - amounts
                if left & guards != guards:
                    for done, taken in zip(machines[:i], needs, strict=False):
                        free[done] += taken
                    return False
                free[machine] = left
            return True
        going = iter(machines)
        for machine in going:
            left = free[machine] - need
            if left & guards != guards:
                for done in machines[: len(machines) - length_hint(going) - 1]:
                    free[done] += need
                return False
            free[machine] = left
        return True

    def some_stand(
        self, j: JobRow, g: Group, machines: Sequence[int], seen: Sequence[int] | None, *, gang: bool
    ) -> tuple[Outcome, list[Placed]] | None:
        """Validate single tasks in order; `seen` when numbers count. No room was deducted yet."""
        ledger = self.ledger
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
        # A machine that was over its capacity is down, not full: that verdict is left to the full path.
        over = any(free[machine] & guards != guards for machine in machines)
        if over or (gang and len(stands) < len(machines)):
            for machine in stands:
                free[machine] += need
            if over:
                return None
            return Outcome(tuple(ABORTED_ONE if verdict is PLACED_ONE else verdict for verdict in verdicts)), []
        placed = [self.note(j, g, stands, None, len(stands))] if stands else []
        return Outcome(tuple(verdicts)), placed

    def note(self, j: JobRow, g: Group, machines: Sequence[int], counts: Sequence[int] | None, total: int) -> Placed:
        """Record runs on these machines as a block; single runs are expanded on demand."""
        ledger = self.ledger
        first, (task, last) = ledger.placements + 1, g.waiting
        ledger.placements += len(machines)
        ledger.blocks[first] = g, machines, counts, task
        g.waiting = (task + total, last) if task + total <= last else ()
        if self.numbered:
            numbers = ledger.numbers
            for machine in set(machines):
                numbers[machine] += 1
        ledger.trail += machines
        k = j.kind
        k.kept = True
        k.used += g.need * total
        k.jobs += not j.placed
        g.unplaced -= total
        g.placed += total
        if ledger.counted:
            count_in_lane(ledger, j)
        j.unplaced -= total
        j.placed += total
        if not j.unplaced and j.arrival:
            remove(ledger, j)
        ledger.transactions += 1
        return _new(Placed, (range(first, first + len(machines)), machines, counts, g.number))

    # Endings

    def finish_placed(self, placed: Placed, at_ms: int) -> int:
        """End all of these tasks as finished, as `end` for each of the runs. Returns their number."""
        ledger = self.ledger
        block = ledger.blocks.pop(placed.placements[0], None)
        if block is None:
            return sum(self.end(placed.endings(), at_ms, "-"))
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
        if self.numbered and ledger.release_moves_number:
            numbers = ledger.numbers
            for machine in set(machines):
                numbers[machine] += 1
        ledger.trail += machines
        j = g.job
        k = j.kind
        k.used -= need * total
        g.placed -= total
        if ledger.counted:
            count_in_lane(ledger, j)
        g.finished += total
        j.placed -= total
        ledger.transactions += 1
        if not j.placed:
            k.jobs -= 1
            if not j.unplaced and not j.delayed:
                self.complete(j, at_ms)
        ledger.version += 1
        ledger.behind += 1
        return total

    def complete(self, j: JobRow, at_ms: int) -> None:
        """Complete a job after its last task."""
        ledger = self.ledger
        if ledger.keep_jobs or ledger.done or j.arrival or j.awaited or len(j.groups) > 1 or j.groups[0].leaving:
            ledger.changed_jobs, ledger.pend, ledger.retired = [j], [], []
            write_jobs(ledger)
            if ledger.pend:
                write_pending(ledger)
            if ledger.left_lanes:
                write_lanes(ledger)
            retire_excess(ledger)
            return
        # It is not kept: removed from all indexes, and dismantled so that it needs no garbage collection.
        lane = j.lane
        if lane.live > 1:
            lane.live -= 1
            lane.version = ledger.version + 1
        else:
            leave_lane(ledger, lane)
            write_lanes(ledger)
        del ledger.J[j.id], ledger.names[j.name]
        j.groups.clear()


def _columns(claims: Sequence[Claim]) -> tuple[list[int], int, list[int], list[int]] | None:
    """Return machines, group, tasks and numbers of claims of one group that evict nothing; None for others."""
    number = claims[0].group
    if any(claim.group != number or claim.evict for claim in claims):
        return None
    machines, _, counts, seen, _ = map(list, zip(*claims, strict=True))
    return machines, number, counts, seen
