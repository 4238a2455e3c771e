"""Events of a simulated cell, independent of the schedulers: jobs arrive, tasks start, run and end."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, repeat
from typing import Any, NamedTuple, cast

from omega.cellstate import ranges
from omega.cellstate.errors import Refused
from omega.cellstate.model import Job, JobState, Run
from omega.cellstate.packing import packed_need
from omega.cellstate.pools import Epoch, Pools
from omega.cellstate.replies import ANY_JOB, Awaited
from omega.cellstate.resources import Resources
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, ClaimColumns, Outcome, Placed, Transaction, Verdict
from omega.schedulers.work import keeps_running
from omega.simulation.digest import Digest
from omega.simulation.engine import Engine, microseconds
from omega.simulation.meter import Meter
from omega.simulation.packed_snapshot import PackedSnapshot
from omega.simulation.records import Recorder
from omega.simulation.simulated_store import SimulatedStore
from omega.upkeep import over_limit, time_limits
from omega.workload.workload import Workload

Spans = Callable[[Job, Placed, Sequence[int]], Sequence[int] | None]
"""Returns how long each of these tasks of a placement runs (µs); None: as its group says."""
Ended = Callable[[Sequence[int], Sequence[int], int], None]
Answers = Mapping[type, Callable[[Any], Any]]


RESIDENT = -2
"""In place of a scheduler's number: of the tasks that run when the simulation begins."""


class Eviction(NamedTuple):
    """Tasks of a pool that were evicted at a time (seconds), and how long they had run, together (task-seconds)."""

    at: float
    pool: str
    tasks: int
    wasted: float


class World:
    """Engine, simulated store and accounts of one run of `horizon` microseconds.

    `completed` is as in Meter; `numbered` sets whether working copies keep sequence numbers. `on_end`
    is called for tasks that end together, with their machines, packed amounts and the number of the scheduler.
    """

    def __init__(self, store: SimulatedStore, horizon: int, *, completed: bool, numbered: bool) -> None:
        """Create a world without events."""
        self.engine, self.digest = Engine(), Digest()
        self.store, self.horizon, self.completed, self.numbered = store, horizon, completed, numbered
        self.dimensions = len(store.cell.dimensions)
        self._spans: dict[Resources, int] = {}
        # By the resources of a task: total microseconds of running tasks.
        self.ends_abandoned = True
        """Whether running tasks of abandoned jobs end; not under the authors' rules."""
        self._stopped: set[int] = set()
        # Placements that ended with their job.
        self.on_end: Ended | None = None
        self.evicted: Counter[str] = Counter()
        """Tasks that were evicted, by kind."""
        self.pool_evictions: list[Eviction] = []
        """In a cell with pools: all evictions."""
        self.pools, self.epoch = Pools(), cast("Epoch | None", None)
        """The cell's pools, and the fair shares in force."""
        self.resources: Sequence[str] = ()
        """Names of the cell's resources, once it has pools."""
        self.frees = 0
        """Number of times that resources were freed."""
        self.watching: dict[int, Callable[[], None]] = {}
        """By scheduler number: callbacks of idle schedulers with blocked jobs, called when resources are freed."""
        self.placements = 0
        """Number of transactions that placed tasks."""
        self.awaiting: dict[int, tuple[Awaited, Callable[[], None]]] = {}
        """By scheduler number: the placements that blocked jobs wait for, and a callback."""
        self.spans: Spans | None = None
        """How long tasks run, where they do not run as their groups say."""
        self.recorder: Recorder | None = None
        """Records every task, if the run is recorded."""
        self.residents = 0
        """Number of jobs that are there before any arrives."""
        self.deliver: Callable[[Job], None] = _to_nobody
        """Gives a job, numbered by arrival, to its scheduler."""
        self.followers: dict[int, tuple[str, list[str]]] = {}
        """By the number of a job that others wait for: its id and theirs."""
        self._unplaced: dict[str, list[Iterator[int]]] = {}
        # By job, where somebody asks: the indices of the tasks of each group that are not placed, in order.

    def copy(self) -> PackedSnapshot:
        """Return an empty working copy."""
        return PackedSnapshot(self.dimensions, numbered=self.numbered)

    def meter(self) -> Meter:
        """Return the meter of one scheduler."""
        return Meter(completed=self.completed)

    def answers(self, kind: str, by: str) -> Answers:
        """Return the answers to effects other than commits for scheduler `by` of this kind: none here."""
        return {}

    def commit(self, number: int, member: str, job: Job, transaction: Transaction, copy: PackedSnapshot) -> Outcome:
        """Commit a transaction and start the placed tasks."""
        now, claims = self.engine.now, transaction.claims
        counts = None if self.spans is None else counts_of(claims)
        if counts is None:
            outcome, placed = self.store.commit(member, transaction, copy, now)
        else:
            outcome, placed = self.store.commit(member, apart(transaction, counts), copy, now)
            outcome = together(outcome, counts)
        for each in placed:
            self._start(number, job, each)
        if placed:
            self.placements += 1
            if self.awaiting:
                self._notify_of(job)
        if outcome.accepted and type(claims) is ClaimColumns and claims.counts is None:
            self.digest.placed(now, number, job.order, group=claims.group, machines=claims.machines)
        else:
            self.digest.decided(now, number, job.order, transaction, outcome)
        return outcome

    def _notify_of(self, job: Job) -> None:
        """Call back the schedulers whose blocked jobs wait for a placement of this job."""
        for number in sorted(self.awaiting):
            awaited, notify = self.awaiting[number]
            if job.name in awaited or ANY_JOB in awaited:
                notify()

    def _start(self, number: int, job: Job, placed: Placed) -> None:
        group, engine, spans = job.groups[placed.group], self.engine, self._spans
        need = group.need
        if self.spans is not None or self.recorder is not None:
            tasks = self.tasks_of(job, placed)
            if self.recorder is not None:
                self.recorder.started(job, placed, tasks, engine.now)
            if self.spans is not None and (each := self.spans(job, placed, tasks)) is not None:
                self._start_each(number, job, placed, tasks, each)
                return
        span, limit = self.time_of(job, placed.group) if job.spec else (group.duration_ms * 1000, 0)
        until = engine.now + span
        if until <= self.horizon:
            engine.at(until, self._end, (number, job.order, need, placed, limit))
        else:
            span = self.horizon - engine.now
        spans[need] = spans.get(need, 0) + placed.tasks * span

    def start_resident(self, job: Job, placed: Placed) -> None:
        """Start tasks that run when the simulation begins."""
        self._start(RESIDENT, job, placed)
        self.digest.placed(0, RESIDENT, job.order, group=placed.group, machines=placed.machines)

    def tasks_of(self, job: Job, placed: Placed) -> list[int]:
        """Return the indices of tasks that were just placed: the first of their group that were not."""
        groups = self._unplaced.get(job.id)
        if groups is None:
            groups = self._unplaced[job.id] = [iter(range(group.total)) for group in job.groups]
        return list(islice(groups[placed.group], placed.tasks))

    def unplace(self, job: Job) -> None:
        """Take note of a job as stored, some tasks of which wait again."""
        if job.id in self._unplaced:
            self._unplaced[job.id] = [iter(ranges.indices(group.waiting)) for group in job.groups]

    def _start_each(self, number: int, job: Job, placed: Placed, tasks: Sequence[int], spans: Sequence[int]) -> None:
        """Schedule the ends of tasks that run `spans` microseconds: one event for those that end at one instant."""
        now, horizon, need = self.engine.now, self.horizon, job.groups[placed.group].need
        limit = dict(enumerate(time_limits(job.spec))).get(placed.group, 0) * 1000 if job.spec else 0
        if limit:
            late = [span > limit for span in spans]
            spans = [min(span, limit) for span in spans]
            runs: Sequence[Placed | TaskEnd] = [
                each._replace(how=EndKind.FAILED, reason=over_limit(limit // 1000)) if over else each
                for each, over in zip(ends_of(placed, tasks), late, strict=True)
            ]
        elif max(placed.counts or (1,)) == 1:
            runs = self.store.split(placed)
        else:
            runs = ends_of(placed, tasks)
        self.held(need, sum([min(span, horizon - now) for span in spans]))
        ends = dict[int, list[Placed | TaskEnd]]()
        for run, span in zip(runs, spans, strict=True):
            if now + span <= horizon:
                ends.setdefault(now + span, []).append(run)
        for until, each in ends.items():
            self.engine.at(until, self._end_some, (number, job.order, need, each))

    def held(self, need: Resources, span: int) -> None:
        """Count the microseconds that tasks with these resources run, together."""
        self._spans[need] = self._spans.get(need, 0) + span

    def _end_some(self, what: tuple[int, int, Resources, list[Any]]) -> None:
        number, order, need, runs = what
        now = self.engine.now
        if self._stopped:
            stand = [run for run in runs if _placement(run) not in self._stopped]
            self.held(need, (len(runs) - len(stand)) * (self.horizon - now))
            runs = stand
        if not runs:
            return
        machines, tasks = [run.machine if isinstance(run, TaskEnd) else run.machines[0] for run in runs], self.end(runs)
        if self.recorder is not None:
            self.recorder.ended(runs, now)
        self.digest.ended((now, -1, order, tasks))
        if self.on_end is not None:
            self.on_end(machines, [packed_need(need)] * len(machines), number)
        if self.followers:
            self.release(order)
        self.tell_freed(None)

    def end(self, runs: Sequence[Any]) -> int:
        """End runs of one group that still exist: whole ones of one task, or as `TaskEnd`. Returns their tasks."""
        now = self.engine.now
        if isinstance(runs[0], TaskEnd):
            return self.store.finish(runs, now // 1000)
        return self.store.end_several(runs, now)

    def tell_freed(self, _: Any) -> None:
        """Record that resources were freed, and call back the schedulers that wait for some."""
        self.frees += 1
        if self.watching:
            self.wake()

    @staticmethod
    def time_of(job: Job, group: int) -> tuple[int, int]:
        """Return how long the tasks of a group run (µs), and their time limit (ms) if that ends them, else 0."""
        ms = job.groups[group].duration_ms
        limit = dict(enumerate(time_limits(job.spec))).get(group, 0)
        return (limit * 1000, limit) if 0 < limit < ms else (ms * 1000, 0)

    @property
    def used(self) -> list[int]:
        """Amounts × microseconds, by dimension."""
        return [sum(need[d] * span for need, span in self._spans.items()) for d in range(self.dimensions)]

    def _end(self, what: tuple[int, int, Resources, Placed, int]) -> None:
        number, order, need, placed, limit = what
        if self._stopped and placed.placements[0] in self._stopped:
            self._spans[need] += placed.tasks * (self.horizon - self.engine.now)
            return
        now = self.engine.now
        tasks = self.store.finish(failed(placed, limit), now // 1000) if limit else self.store.end(placed, now)
        if tasks != placed.tasks:
            raise Refused(f"{tasks} of {placed.tasks} simulated tasks ended; another process uses the cell")
        self.digest.ended((now, -1, order, tasks))
        if self.recorder is not None:
            self.recorder.ended(failed(placed, limit) if limit else [placed], now)
        if self.on_end is not None:
            each, counts = packed_need(need), placed.counts
            amounts = [each] * tasks if counts is None else [each * count for count in counts]
            self.on_end(placed.machines, amounts, number)
        if self.followers:
            self.release(order)
        self.tell_freed(None)

    def wake(self) -> None:
        """Call back the idle schedulers with blocked jobs."""
        for number in sorted(self.watching):
            if number in self.watching:
                self.watching[number]()

    # Jobs that wait for others to end

    def follows(self, job_id: str) -> bool:
        """Return whether a job waits for others to end. It is delivered once they ended: the store holds it."""
        job = self.store.job(job_id)
        if job is None or job.state is not JobState.HELD:
            return False
        for other in filter(None, (self.store.job(wait.job) for wait in job.after)):
            self.followers.setdefault(self.numbered_as_arrived(other).order, (other.id, []))[1].append(job_id)
        return True

    def release(self, order: int | None = None) -> None:
        """Deliver the jobs that waited for one (by its number; None: for any), if it has ended."""
        for each in list(self.followers) if order is None else [order] if order in self.followers else ():
            awaited = self.store.job(self.followers[each][0])
            if awaited is None or not (awaited.unplaced or awaited.placed):
                _, waiting = self.followers.pop(each)
                self.engine.at(self.engine.now, self._release, waiting)

    def _release(self, waiting: Sequence[str]) -> None:
        for job_id in waiting:
            job = self.store.job(job_id)
            while job is not None and job.state is JobState.HELD and self.store.release(self.engine.now // 1000):
                job = self.store.job(job_id)  # one call releases some of many
            if job is not None and job.pending:
                self.deliver(self.numbered_as_arrived(job))
        self.release()  # a job that was stopped, because the one before it failed, may itself be awaited

    def numbered_as_arrived(self, job: Job) -> Job:
        """Return a job numbered by arrival: the cell's numbers include residents."""
        return replace(job, order=job.order - self.residents)

    # Abandoned jobs

    def abandon(self, job_id: str, number: int, by: str) -> None:
        """Abandon a job of scheduler `number`; its running tasks end at once, unless set to continue (semantics 24)."""
        job = self.store.cell.jobs.get(job_id) if self.ends_abandoned else None
        keep = job is None or keeps_running(job)
        self.store.abandon(job_id, self.engine.now // 1000, by, keep=keep)
        if job is not None and not keep:
            self._stop(job, number)
        if self.followers:
            self.release()

    def stop_runs(self, job: Job) -> list[Run]:
        """Stop a job's runs and return them. They stay as leaving until they are acknowledged."""
        machines = sorted({machine for group in job.groups for _, machine, _ in group.runs})
        runs = [run for run in self.store.cell.machines.runs(machines) if run.job == job.id and not run.leaving]
        self.store.finish(
            [TaskEnd(run.machine, run.placement, EndKind.STOPPED) for run in runs], self.engine.now // 1000
        )
        return runs

    def _stop(self, job: Job, number: int) -> None:
        runs, now = self.stop_runs(job), self.engine.now
        if not runs:
            return
        self.store.finish([TaskEnd(run.machine, run.placement, EndKind.LEFT) for run in runs], now // 1000)
        amounts, tasks = [], 0
        for run in runs:
            need, count = job.groups[run.group].need, ranges.count(run.tasks)
            self._spans[need] = self._spans.get(need, 0) - count * (self.horizon - now)
            amounts.append(packed_need(need) * count)
            tasks += count
        self._stopped.update(run.placement for run in runs)
        if self.recorder is not None:
            self.recorder.lost(runs, EndKind.STOPPED, now)
        self.digest.ended((now, -1, job.order, tasks))
        self.engine.at(now, self._tell_freed, ([run.machine for run in runs], amounts, number))

    def _tell_freed(self, what: tuple[Sequence[int], Sequence[int], int]) -> None:
        if self.on_end is not None:
            self.on_end(*what)
        self.tell_freed(None)


def failed(placed: Placed, limit_ms: int) -> list[TaskEnd]:
    """Return the ends of tasks that their time limit ends."""
    return [end._replace(how=EndKind.FAILED, reason=over_limit(limit_ms)) for end in placed.endings()]


def spans_of(workload: Workload, seconds: Callable[[Job, int, int, int], float] | None) -> Spans | None:
    """Return how long tasks run: by `seconds`, else by the workload; None when all run as their groups say."""
    if seconds is not None:
        given = seconds

        def asked(job: Job, placed: Placed, tasks: Sequence[int]) -> Sequence[int]:
            counts = placed.counts or repeat(1)
            machines = [machine for machine, count in zip(placed.machines, counts, strict=False) for _ in range(count)]
            pairs = zip(tasks, machines, strict=True)
            return [microseconds(given(job, placed.group, task, machine)) for task, machine in pairs]

        return asked
    columns = {each.job.id: each.durations for each in (*workload.residents, *workload.arrivals) if each.durations}

    def looked_up(job: Job, placed: Placed, tasks: Sequence[int]) -> Sequence[int] | None:
        found = columns.get(job.id)
        if found is None:
            return None
        spans = found[placed.group]
        return [int(spans[tasks[0]])] if len(tasks) == 1 else spans[tasks].tolist()

    return looked_up if columns else None


def counts_of(claims: Sequence[Claim]) -> list[int] | None:
    """Return the tasks of each claim; None when all have one, or one evicts."""
    if type(claims) is ClaimColumns:
        return claims.counts
    counts = [claim.count for claim in claims]
    return counts if max(counts) > 1 and not any(claim.evict for claim in claims) else None


def apart(transaction: Transaction, counts: Sequence[int]) -> Transaction:
    """Return a transaction with a claim for each task: tasks that end one by one have placements of their own."""
    claims: Sequence[Claim] = transaction.claims
    if type(claims) is ClaimColumns:
        machines = [machine for machine, count in zip(claims.machines, counts, strict=True) for _ in range(count)]
        seen = claims.seen and [each for each, count in zip(claims.seen, counts, strict=True) for _ in range(count)]
        return transaction._replace(claims=ClaimColumns(machines, group=claims.group, seen=seen))
    singles = [claim._replace(count=1) for claim, count in zip(claims, counts, strict=True) for _ in range(count)]
    return transaction._replace(claims=singles)


def together(outcome: Outcome, counts: Sequence[int]) -> Outcome:
    """Return the outcome of the claims that `apart` divided."""
    if outcome.accepted:
        return Outcome(tuple([(count, Verdict.PLACED) for count in counts]))
    results, claims = iter(outcome.claims), list[tuple[int, Verdict]]()
    for count in counts:
        each = list(islice(results, count))
        verdict = next((verdict for _, verdict in each if verdict is not Verdict.PLACED), Verdict.PLACED)
        claims.append((sum(placed for placed, _ in each), verdict))
    return Outcome(tuple(claims))


def ends_of(placed: Placed, tasks: Sequence[int]) -> list[TaskEnd]:
    """Return the end of each of these tasks of a placement, by its index, as finished."""
    runs = zip(placed.machines, placed.placements, placed.counts or repeat(1), strict=False)
    owners = [(machine, placement) for machine, placement, count in runs for _ in range(count)]
    return [
        TaskEnd(machine, placement, EndKind.FINISHED, str(task))
        for (machine, placement), task in zip(owners, tasks, strict=True)
    ]


def _placement(run: Placed | TaskEnd) -> int:
    return run.placement if isinstance(run, TaskEnd) else run.placements[0]


def _to_nobody(job: Job) -> None:
    """No scheduler is there yet."""
