"""Jobs of a simulated cell that have no rows in the ledger yet.

Most jobs of a simulation have one group, are placed by one transaction and end together. Such a job needs one record
from its submission to its end. Its rows are written into the ledger as soon as anything else concerns the job, or
anything reads the ledger.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from cellstate.lanes import lane_of
from cellstate.memory.lanes import lane_named, leave_lane, write_lanes
from cellstate.memory.ledger import Ledger
from cellstate.memory.publish import announce, wake
from cellstate.memory.words import Group, JobRow, KindRow, LaneRow
from cellstate.model import JobSpec, JobState
from cellstate.packing import packed
from cellstate.resources import LARGEST, MOST_TOGETHER, Resources
from cellstate.transaction import Detection, Mode, Outcome, Placed, Singles, Transaction, all_placed
from omega.simulation.packed_snapshot import PackedSnapshot

_ACTIVE, _GANG, _COARSE = JobState.ACTIVE, Mode.GANG, Detection.COARSE
_new = tuple.__new__


class Entry(NamedTuple):
    """Fields of a job's row that only its submission sets."""

    order: int
    arrival: int
    submitted: int
    submitter: str
    modified: int


class SimpleJob(NamedTuple):
    """A job of `total` tasks with packed amounts `need` each."""

    spec: JobSpec
    total: int
    need: int
    kind: KindRow
    lane: LaneRow
    entry: Entry


class SimpleJobs:
    """The jobs of a ledger without rows: none of their tasks is placed, or all of them are.

    The ledger keeps no log, no finished jobs and no counts of its lanes, and has no pools.
    """

    def __init__(self, ledger: Ledger) -> None:
        """Hold no jobs."""
        self._ledger = ledger
        self.numbered = True
        """With False, sequence numbers stay constant: for simulations that do not read them."""
        self._waiting: dict[str, SimpleJob] = {}
        self._running: dict[int, tuple[SimpleJob, Sequence[int]]] = {}
        # By the id of a running job: its first placement.
        self._first: dict[str, int] = {}
        # By need: the maximum number of tasks of a job, and the packed amounts of one.
        self._needs: dict[Resources, tuple[int, int]] = {}

    # Submission

    def submit(self, jobs: Sequence[JobSpec], at_ms: int, by: str) -> bool:
        """Submit new jobs as `cellstate.memory.jobs.submit` does; False, without effect, unless all are simple.

        A simple job has one group and no further fields. A job that `submit` would refuse is not simple, so that
        `submit` raises the error.
        """
        ledger = self._ledger
        if ledger.log or ledger.mailboxes or ledger.counted or ledger.pools_state or ledger.keep_jobs:
            return False
        if not (ledger.shortcut and self._are_simple(jobs)):
            return False
        waiting, needs, modified = self._waiting, self._needs, ledger.version + 1
        order, arrival = ledger.submissions, ledger.arrivals
        rows: dict[tuple[str, int], tuple[KindRow, LaneRow]] = {}
        for spec in jobs:
            whose = spec.kind, spec.precedence
            found = rows.get(whose)
            if found is None:
                lane = lane_named(ledger, lane_of(spec.kind, spec.precedence, spec.extra))
                found = rows[whose] = ledger.kind(spec.kind), lane
            kind, lane = found
            (group,) = spec.groups
            order, arrival = order + 1, arrival + 1
            entry = _new(Entry, (order, arrival, at_ms, by, modified))
            waiting[spec.id] = _new(SimpleJob, (spec, group.count, needs[group.need][1], kind, lane, entry))
            lane.live += 1
            lane.pending += 1
            lane.arrival = arrival
        ledger.names.update([(spec.name, spec.id) for spec in jobs])
        ledger.submissions, ledger.arrivals = order, arrival
        for kind, lane in rows.values():
            lane.version = modified
            wake(ledger, kind.name)
        announce(ledger, at_ms, by)
        return True

    def _are_simple(self, jobs: Sequence[JobSpec]) -> bool:
        """Return whether all jobs are new, valid, and have one group and no further fields."""
        ledger, needs = self._ledger, self._needs
        ids, names = {spec.id for spec in jobs}, {spec.name for spec in jobs}
        if not len(ids) == len(names) == len(jobs) or not names.isdisjoint(ledger.names):
            return False
        if not (ids.isdisjoint(self._waiting) and ids.isdisjoint(self._first) and ids.isdisjoint(ledger.J)):
            return False
        for spec in jobs:
            groups = spec.groups
            if len(groups) != 1 or spec.extra or spec.after:
                return False
            group = groups[0]
            known = needs.get(group.need) or self._measure(spec.name, group.need)
            if group.extra or group.count > known[0] or not 0 <= group.duration_ms <= LARGEST:
                return False
        return bool(jobs) and all(ledger.kind(kind).plain for kind in {spec.kind for spec in jobs})

    def _measure(self, name: str, need: Resources) -> tuple[int, int]:
        """Return the entry of a new need. Raises BadInput when it is no vector of the cell."""
        self._ledger.check(f"job {name}", need)
        found = self._needs[need] = min(LARGEST, MOST_TOGETHER // max(1, *need)), packed(need)
        return found

    # Placement

    def place(self, transaction: Transaction, copy: PackedSnapshot | None) -> tuple[Outcome, list[Placed]] | None:
        """Place all tasks of a simple job, one by one, as `commit` does; None, without effect, for anything else.

        A decision on a `copy` needs no second validation when the cell did not change since. Its machines count as
        changed at the next sync of a snapshot that is `watching`, as on a store: blocked jobs are retried. Other
        snapshots read their amounts.
        """
        job_id, claims, mode, detection, asserted = transaction
        job = self._waiting.get(job_id)
        if job is None or type(claims) is not Singles or asserted is not None:
            return None
        ledger, machines = self._ledger, claims.machines
        spec, total, need, kind, lane, _ = job
        if len(machines) != total or claims.group or (spec.gang and mode is not _GANG):
            return None
        free, trail, shut = ledger.free, ledger.trail, ledger.shut
        if shut and not shut.isdisjoint(machines):
            return None
        if detection is _COARSE and not self._unmoved(machines, claims.seen):
            return None
        if copy is not None and copy.followed == ledger.cut + len(trail) and copy.took(machines, need):
            rest = copy.rest
            for machine in machines:
                free[machine] = rest[machine]
            if not (copy.watching or copy.numbered):
                copy.followed += total
                copy.changes += 1
        elif not take_singles(ledger, machines, need):
            return None
        del self._waiting[job_id]
        first = self._first[job_id] = ledger.placements + 1
        self._running[first] = job, machines
        ledger.placements += total
        if self.numbered:
            self.raise_numbers(machines)
        trail += machines
        kind.kept = True
        kind.used += need * total
        kind.jobs += 1
        lane.pending -= 1
        ledger.transactions += 1
        ledger.behind += 1
        lane.version = ledger.version = ledger.version + 1
        return all_placed(total), [_new(Placed, (range(first, first + total), machines, None, 0))]

    def _unmoved(self, machines: Sequence[int], seen: Sequence[int] | None) -> bool:
        numbers = self._ledger.numbers
        return (seen or [0] * len(machines)) == [numbers[machine] for machine in machines]

    def raise_numbers(self, machines: Sequence[int]) -> None:
        """Raise the sequence numbers of machines that one transaction changed, by one each."""
        numbers = self._ledger.numbers
        for machine in set(machines):
            numbers[machine] += 1

    # Endings

    def end(self, placed: Placed) -> int:
        """End all tasks of a running job and delete it. Returns their number, 0 when these are not of a simple job."""
        found = self._running.pop(placed.placements[0], None)
        if found is None:
            return 0
        job, machines = found
        spec, total, need, kind, lane, _ = job
        ledger = self._ledger
        if ledger.done:
            self._running[placed.placements[0]] = found
            self.write()
            return 0
        free = ledger.free
        for machine in machines:
            free[machine] += need
        if self.numbered and ledger.release_moves_number:
            self.raise_numbers(machines)
        ledger.trail += machines
        kind.used -= need * total
        kind.jobs -= 1
        ledger.transactions += 1
        leave(ledger, lane)
        ledger.version += 1
        ledger.behind += 1
        del self._first[spec.id], ledger.names[spec.name]
        return total

    # Rows

    def write(self) -> None:
        """Write the rows of all jobs into the ledger."""
        for job in self._waiting.values():
            self._write(job)
        self._waiting.clear()
        for first, (job, machines) in self._running.items():
            g = self._write(job, placed=job.total).groups[0]
            self._ledger.blocks[first] = g, machines, None, 0
        if self._running:
            self._ledger.blocks = dict(sorted(self._ledger.blocks.items()))
        self._running.clear()
        self._first.clear()

    def write_one(self, job_id: str) -> None:
        """Write the rows of a job that is waiting."""
        job = self._waiting.pop(job_id, None)
        if job is not None:
            self._write(job)

    def _write(self, job: SimpleJob, placed: int = 0) -> JobRow:
        spec, total, _, kind, lane, (order, arrival, submitted, submitter, modified) = job
        j = self._ledger.J[spec.id] = JobRow(spec.id, spec.name, kind, spec.precedence, _ACTIVE, spec.gang)
        g = Group(j, 0, spec.groups[0], total)
        j.groups.append(g)
        j.order, j.submitted, j.submitter, j.modified, j.lane = order, submitted, submitter, modified, lane
        if placed:
            j.placed, g.placed, g.unplaced, g.waiting = placed, placed, 0, ()
        else:
            j.unplaced, j.arrival = total, arrival
            at = bisect_left(lane.arrivals, arrival)
            lane.arrivals.insert(at, arrival)
            lane.queue.insert(at, j)
        return j


def take_singles(ledger: Ledger, machines: Sequence[int], need: int) -> bool:
    """Deduct room (packed) on each machine, or on none when one has too little."""
    free, guards = ledger.free, ledger.guards
    for at, machine in enumerate(machines):
        left = free[machine] - need
        if left & guards != guards:
            for done in machines[:at]:
                free[done] += need
            return False
        free[machine] = left
    return True


def leave(ledger: Ledger, lane: LaneRow) -> None:
    """Remove a job that ended from its lane."""
    if lane.live > 1:
        lane.live -= 1
        lane.version = ledger.version + 1
    else:
        leave_lane(ledger, lane)
        write_lanes(ledger)
