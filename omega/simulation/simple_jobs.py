"""Jobs of a simulated cell that have no rows in the ledger yet.

Most jobs of a simulation have one group, are placed by one transaction and end together. Such a job needs one record
from its submission to its end. Its rows are written into the ledger as soon as anything else concerns the job, or
anything reads the ledger.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from omega.cellstate.lanes import lane_of
from omega.cellstate.memory.lanes import lane_named, leave_lane, write_lanes
from omega.cellstate.memory.ledger import Ledger
from omega.cellstate.memory.publish import announce, wake
from omega.cellstate.memory.records import GroupRow, JobRow, KindRow, LaneRow
from omega.cellstate.model import JobSpec, JobState
from omega.cellstate.packing import packed
from omega.cellstate.resources import LARGEST, MOST_TOGETHER, Resources
from omega.cellstate.tasks import TaskEnd
from omega.cellstate.transaction import ClaimColumns, Detection, Mode, Outcome, Placed, Transaction, all_placed
from omega.simulation.packed_snapshot import PackedSnapshot

_ACTIVE, _GANG, _COARSE = JobState.ACTIVE, Mode.GANG, Detection.COARSE


class Submission:
    """The jobs that one call submits to a lane: what they share.

    `jobs` is their number, `last` the order of the last one; an order and `ahead` are an arrival in the lane's queue.
    """

    __slots__ = ("ahead", "at_ms", "by", "jobs", "kind", "lane", "last", "modified")
    kind: KindRow
    lane: LaneRow

    def __init__(self, ledger: Ledger, at_ms: int, by: str) -> None:
        """Create without jobs."""
        self.ahead, self.modified = ledger.arrivals - ledger.submissions, ledger.version + 1
        self.at_ms, self.by, self.jobs, self.last = at_ms, by, 0, 0


class SimpleJob:
    """A job and the number of its `tasks`, with packed amounts `need` each.

    Once its tasks are placed, `first` is the first of their placement ids, 0 before, and this is their `Placed`: one
    task on each of `machines`.
    """

    __slots__ = ("first", "machines", "need", "order", "spec", "submission", "tasks")
    counts, group = None, 0
    spec: JobSpec
    submission: Submission
    order: int
    tasks: int
    need: int
    first: int
    machines: Sequence[int]

    @property
    def placements(self) -> Sequence[int]:
        """Return the ids of its placements."""
        return range(self.first, self.first + self.tasks)

    def endings(self) -> list[TaskEnd]:
        """Return the ends of its tasks."""
        return self.placed().endings()

    def placed(self) -> Placed:
        """Return its tasks as those of any other job."""
        return Placed(self.placements, self.machines, None, 0)


class SimpleJobs:
    """The jobs of a ledger without rows: none of their tasks is placed, or all of them are.

    The ledger keeps no log, no finished jobs and no counts of its lanes, and has no pools. The rows of kinds and lanes
    count placed and pending jobs only from when these have rows.
    """

    def __init__(self, ledger: Ledger) -> None:
        """Hold no jobs."""
        self._ledger = ledger
        self.numbered = True
        """With False, sequence numbers stay constant: for simulations that do not read them."""
        self._jobs: dict[str, SimpleJob] = {}
        # By need: the maximum number of tasks of a job, and the packed amounts of one.
        self._needs: dict[Resources, tuple[int, int]] = {}

    # Submission

    def submit(self, specs: Sequence[JobSpec], at_ms: int, by: str) -> bool:
        """Submit new jobs as `omega.cellstate.memory.jobs.submit` does; False, without effect, unless all are simple.

        A simple job has one group and no further fields. A job that `submit` would refuse is not simple, so that
        `submit` raises the error.
        """
        ledger = self._ledger
        if ledger.log or ledger.mailboxes or ledger.counted or ledger.pools_state or ledger.keep_jobs:
            return False
        ids, names = [spec.id for spec in specs], [spec.name for spec in specs]
        if not self._are_new(ids, names):
            return False
        submissions = dict[tuple[str, int], Submission]()
        jobs = self._simple(specs, submissions, at_ms, by)
        if jobs is None or not all(ledger.kind(kind).unrestricted for kind, _ in submissions):
            return False
        self._jobs.update(zip(ids, jobs, strict=True))
        ledger.names.update(zip(names, ids, strict=True))
        ledger.submissions += len(jobs)
        ledger.arrivals += len(jobs)
        for (kind, precedence), each in submissions.items():
            each.kind = ledger.kind(kind)
            each.lane = lane = lane_named(ledger, lane_of(kind, precedence, {}))
            lane.live += each.jobs
            lane.arrival, lane.version = each.last + each.ahead, each.modified
            wake(ledger, kind)
        announce(ledger, at_ms, by)
        return True

    def _are_new(self, ids: Sequence[str], names: Sequence[str]) -> bool:
        """Return whether there are some, and no other job has the id or the name of one."""
        ledger, distinct, named = self._ledger, set(ids), set(names)
        if not len(distinct) == len(named) == len(ids) > 0 or not named.isdisjoint(ledger.names):
            return False
        return distinct.isdisjoint(self._jobs) and distinct.isdisjoint(ledger.J)

    def _simple(
        self, specs: Iterable[JobSpec], submissions: dict[tuple[str, int], Submission], at_ms: int, by: str
    ) -> list[SimpleJob] | None:
        """Return valid jobs of one group without further fields, and their submissions; None when one is not simple."""
        ledger, needs, jobs = self._ledger, self._needs, list[SimpleJob]()
        whose, submission = ("", -1), Submission(ledger, at_ms, by)
        for order, spec in enumerate(specs, ledger.submissions + 1):
            groups = spec.groups
            if len(groups) != 1 or spec.spec or spec.after:
                return None
            group = groups[0]
            most, need = needs.get(group.need) or self._measure(spec.name, group.need)
            if group.spec or group.count > most or not 0 <= group.duration_ms <= LARGEST:
                return None
            if whose != (spec.kind, spec.precedence):
                whose = spec.kind, spec.precedence
                submission = submissions.get(whose) or Submission(ledger, at_ms, by)
                submissions[whose] = submission
            submission.jobs += 1
            submission.last = order
            job = SimpleJob()
            job.spec, job.submission, job.order, job.tasks = spec, submission, order, group.count
            job.need, job.first = need, 0
            jobs.append(job)
        return jobs

    def _measure(self, name: str, need: Resources) -> tuple[int, int]:
        """Return the entry of a new need. Raises BadInput when it is no vector of the cell."""
        self._ledger.check(f"job {name}", need)
        found = self._needs[need] = min(LARGEST, MOST_TOGETHER // max(1, *need)), packed(need)
        return found

    def has(self, job_id: str) -> bool:
        """Return whether a job has no rows."""
        return job_id in self._jobs

    # Placement

    def place(self, transaction: Transaction, copy: PackedSnapshot | None) -> tuple[Outcome, SimpleJob] | None:
        """Place all tasks of a simple job, one by one, as `commit` does; None, without effect, for anything else.

        A decision on a `copy` needs no second validation when the cell did not change since. Its machines count as
        changed at the next sync of a snapshot that is `watching`, as on a store. Other
        snapshots read their amounts.
        """
        job_id, claims, mode, detection, asserted = transaction
        job = self._jobs.get(job_id)
        if job is None or job.first or type(claims) is not ClaimColumns or claims.counts or asserted is not None:
            return None
        machines, total, need = claims.machines, job.tasks, job.need
        if len(machines) != total or claims.group or (job.spec.gang and mode is not _GANG):
            return None
        ledger = self._ledger
        free, trail = ledger.free, ledger.trail
        if ledger.shut and not ledger.shut.isdisjoint(machines):
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
        job.machines, job.first = machines, ledger.placements + 1
        ledger.placements += total
        if self.numbered:
            self.raise_numbers(machines)
        trail += machines
        ledger.transactions += 1
        ledger.behind += 1
        submission = job.submission
        submission.lane.version = ledger.version = ledger.version + 1
        return all_placed(total), job

    def _unmoved(self, machines: Sequence[int], seen: Sequence[int] | None) -> bool:
        numbers = self._ledger.numbers
        return (seen or [0] * len(machines)) == [numbers[machine] for machine in machines]

    def raise_numbers(self, machines: Sequence[int]) -> None:
        """Raise the sequence numbers of machines that one transaction changed, by one each."""
        numbers = self._ledger.numbers
        for machine in set(machines):
            numbers[machine] += 1

    # Endings

    def end(self, job: SimpleJob) -> int:
        """End all tasks of a running job and delete it. Returns their number, 0 when the job has rows."""
        ledger, spec = self._ledger, job.spec
        if self._jobs.get(spec.id) is not job:
            return 0
        if ledger.done:
            self.write()
            return 0
        free, need, machines = ledger.free, job.need, job.machines
        for machine in machines:
            free[machine] += need
        if self.numbered and ledger.release_moves_number:
            self.raise_numbers(machines)
        ledger.trail += machines
        ledger.transactions += 1
        leave(ledger, job.submission.lane)
        ledger.version += 1
        ledger.behind += 1
        del self._jobs[spec.id], ledger.names[spec.name]
        return job.tasks

    # Rows

    def write(self) -> None:
        """Write the rows of all jobs into the ledger."""
        if not self._jobs:
            return
        ledger, jobs = self._ledger, self._jobs
        self._jobs = {}
        for job in jobs.values():
            if not job.first:
                self._write(job)
        running = sorted((job for job in jobs.values() if job.first), key=lambda job: job.first)
        for job in running:
            g = self._write(job).groups[0]
            ledger.blocks[job.first] = g, job.machines, None, 0
        if running:
            ledger.blocks = dict(sorted(ledger.blocks.items()))

    def write_one(self, job_id: str) -> None:
        """Write the rows of a job that is waiting."""
        job = self._jobs.get(job_id)
        if job is not None and not job.first:
            del self._jobs[job_id]
            self._write(job)

    def write_placed(self, job: SimpleJob) -> None:
        """Write the rows of a job that was placed last of all."""
        if self._jobs.get(job.spec.id) is job:
            del self._jobs[job.spec.id]
            self._ledger.blocks[job.first] = self._write(job).groups[0], job.machines, None, 0

    def _write(self, job: SimpleJob) -> JobRow:
        spec, total, submission = job.spec, job.tasks, job.submission
        kind, lane = submission.kind, submission.lane
        j = self._ledger.J[spec.id] = JobRow(spec.id, spec.name, kind, spec.precedence, _ACTIVE, spec.gang)
        g = GroupRow(j, 0, spec.groups[0], total)
        j.groups.append(g)
        j.order, j.submitted, j.submitter, j.lane = job.order, submission.at_ms, submission.by, lane
        j.modified, j.gang_min = submission.modified, spec.gang_min
        if job.first:
            j.placed, g.placed, g.unplaced, g.waiting = total, total, 0, ()
            kind.used += job.need * total
            kind.jobs += 1
        else:
            j.unplaced, j.arrival = total, job.order + submission.ahead
            lane.pending += 1
            at = bisect_left(lane.arrivals, j.arrival)
            lane.arrivals.insert(at, j.arrival)
            lane.queue.insert(at, j)
        return j


def take_singles(ledger: Ledger, machines: Sequence[int], need: int) -> bool:
    """Deduct room (packed) on each machine, or on none when one has too little."""
    free, guards = ledger.free, ledger.guards
    fit = guards
    for machine in machines:
        free[machine] = left = free[machine] - need
        fit &= left
    if fit == guards:
        return True
    for machine in machines:
        free[machine] += need
    return False


def leave(ledger: Ledger, lane: LaneRow) -> None:
    """Remove a job that ended from its lane."""
    if lane.live > 1:
        lane.live -= 1
        lane.version = ledger.version + 1
    else:
        leave_lane(ledger, lane)
        write_lanes(ledger)
