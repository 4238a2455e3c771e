"""A simulated cell with evictions and with jobs of changing sizes.

For schedulers that evict or resize. The simulated machines acknowledge evictions at once; the
schedulers of the affected jobs are notified at the same instant, as by the store.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from omega.cellstate import ranges
from omega.cellstate.lanes import lane_of
from omega.cellstate.model import Job, Run
from omega.cellstate.override import override
from omega.cellstate.resources import Resources
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import ClaimColumns, Outcome, Placed, Transaction
from omega.schedulers.resizing import Measure, Measurements, Resize, Resized, measure, resize
from omega.schedulers.sharing import alone
from omega.schedulers.sizing import PLAN
from omega.schedulers.work import Work
from omega.simulation.drive import SimulatedScheduler
from omega.simulation.engine import SECOND
from omega.simulation.meter import Meter
from omega.simulation.packed_snapshot import PackedSnapshot
from omega.simulation.simulated_store import SimulatedStore
from omega.simulation.worker_pools import WorkerPools
from omega.simulation.world import Answers, Eviction, World, failed

MINUTE = 60 * SECOND

"""A scheduler that sizes jobs is the only one of its kind."""


@dataclass(slots=True)
class OnceMeter(Meter):
    """Counts each arrival once, even if the job is requeued; ignores residents, except those that `waited`."""

    waited: frozenset[str] = frozenset()
    _begun: set[str] = field(default_factory=set)
    _whole: set[str] = field(default_factory=set)

    def counts(self, job: Job) -> bool:
        """Return whether a job counts: it arrived, or some of its tasks waited at the beginning."""
        return job.order > 0 or job.id in self.waited

    @override
    def began(self, work: Work, now: float, waited: float) -> None:
        if self.counts(work.job) and work.id not in self._begun:
            self._begun.add(work.id)
            Meter.began(self, work, now, waited)

    @override
    def attempted(
        self, works: Sequence[Work], began: float, now: float, results: Sequence[tuple[Transaction, Outcome]]
    ) -> None:
        Meter.attempted(self, works, began, now, results)
        jobs = {work.id: work.job for work in works}
        for transaction, outcome in results:
            if not self.counts(jobs[transaction.job]):
                self.tasks[works[0].job.kind] -= outcome.placed

    @override
    def placed_all(self, works: Sequence[Work], now: float) -> None:
        for work in works:
            self.placed(work, now)

    @override
    def placed(self, work: Work, now: float) -> None:
        if self.counts(work.job) and work.id not in self._whole:
            self._whole.add(work.id)
            Meter.placed(self, work, now)

    def lost(self, job: Job, tasks: int) -> None:
        """Count tasks of an arrived job that are requeued or abandoned."""
        self.tasks[job.kind] -= tasks
        if job.unplaced and job.id in self._whole:
            self._whole.discard(job.id)
            self.scheduled[job.kind] -= 1


class ChangingWorld(World):
    """A world whose tasks are also evicted, resized and stopped."""

    def __init__(self, store: SimulatedStore, horizon: int, *, completed: bool, numbered: bool) -> None:
        """Create a world without events."""
        super().__init__(store, horizon, completed=completed, numbered=numbered)
        self.scheduler_of: Callable[[Job], SimulatedScheduler | None] = lambda _: None
        self.waiting_residents: frozenset[str] = frozenset()
        """Residents some tasks of which wait at the beginning."""
        self.worker_pools = WorkerPools(self.engine, store.cell, self.ended)
        self._started: dict[int, tuple[int, str]] = {}
        # In a cell with pools: when the tasks of each placement started, and their pool.
        self._held = [0] * self.dimensions
        self._spent = [0] * self.dimensions
        self._since = 0
        self.engine.at(MINUTE, self._tick)

    def _tick(self, _: Any) -> None:
        """Policies that evict read since when tasks run."""
        self.store.tick(self.engine.now // 1000)
        self.engine.at(self.engine.now + MINUTE, self._tick)

    @override
    def meter(self) -> Meter:
        return OnceMeter(completed=self.completed, waited=self.waiting_residents)

    # Resources in use, over time

    def hold(self, need: Resources, tasks: int) -> None:
        """Record the start of tasks, or the end for a negative number."""
        span, self._since = self.engine.now - self._since, self.engine.now
        for d, amount in enumerate(need):
            self._spent[d] += self._held[d] * span
            self._held[d] += amount * tasks

    @property
    @override
    def used(self) -> list[int]:
        self.hold((0,) * self.dimensions, 0)
        return list(self._spent)

    def _start(self, number: int, job: Job, placed: Placed) -> None:
        group = job.groups[placed.group]
        self.hold(group.need, placed.tasks)
        if self.pools.configured:
            lane = lane_of(job.kind, job.precedence, job.spec)
            pool = self.pools.pool_of(lane.pool, lane.user)
            self._started |= dict.fromkeys(placed.placements, (self.engine.now, pool))
        if PLAN in job.spec:
            self.worker_pools.start(job.id, placed)
            return
        if self.spans is not None or self.recorder is not None:
            tasks = self.tasks_of(job, placed)
            if self.recorder is not None:
                self.recorder.started(job, placed, tasks, self.engine.now)
            if self.spans is not None and (each := self.spans(job, placed, tasks)) is not None:
                self._start_each(number, job, placed, tasks, each)
                return
        span, limit = self.time_of(job, placed.group)
        until = self.engine.now + span
        if until <= self.horizon:
            self.engine.at(until, self._end, (number, job.order, group.need, placed, limit))

    @override
    def held(self, need: Resources, span: int) -> None:
        """Do nothing: `hold` counts when tasks start and end."""

    def _end_some(self, what: tuple[int, int, Resources, list[Any]]) -> None:
        _, order, need, runs = what
        self._over(runs, self.end(runs), order, need)

    def _end(self, what: tuple[int, int, Resources, Placed, int]) -> None:
        _, order, need, placed, limit = what
        if limit:
            self.ended(failed(placed, limit), order, need)
        else:
            self._over([placed], self.store.end(placed, self.engine.now), order, need)

    def ended(self, endings: Sequence[TaskEnd], order: int, need: Resources) -> None:
        """End tasks, except those evicted before."""
        self._over(endings, self.store.finish(endings, self.engine.now // 1000), order, need)

    def _over(self, runs: Sequence[Any], tasks: int, order: int, need: Resources) -> None:
        if self.recorder is not None:
            self.recorder.ended(runs, self.engine.now)
        if tasks:
            self.hold(need, -tasks)
            self.digest.ended([self.engine.now, -1, order, tasks])
            if self.followers:
                self.release(order)
            self.tell_freed(None)

    # Evictions

    @override
    def commit(self, number: int, member: str, job: Job, transaction: Transaction, copy: PackedSnapshot) -> Outcome:
        runs = self._victims(transaction)
        before = self.store.cell.jobs.running(sorted({run.job for run in runs})) if runs else {}
        outcome = super().commit(number, member, job, transaction, copy)
        if runs and self.pools.configured:
            self._record_evictions(runs)
        for each in self.store.cell.jobs.by_id(sorted(before)).values() if before else ():
            self.evicted[each.kind] += self.took(before[each.id], each)
        return outcome

    def _victims(self, transaction: Transaction) -> list[Run]:
        """Return the runs that may lose tasks, before the commit."""
        if isinstance(transaction.claims, ClaimColumns):
            return []
        named = {placement for claim in transaction.claims for placement, _ in claim.evict}
        if not named:
            return []
        runs = self.store.cell.machines.runs(sorted({claim.machine for claim in transaction.claims if claim.evict}))
        return [run for run in runs if run.placement in named and not run.leaving]

    def _record_evictions(self, runs: Sequence[Run]) -> None:
        """Record which tasks of runs were evicted, and how long they had run."""
        after = self.store.cell.machines.runs(sorted({run.machine for run in runs}))
        stay = {run.placement: ranges.count(run.tasks) for run in after if not run.leaving}
        for run in runs:
            lost = ranges.count(run.tasks) - stay.get(run.placement, 0)
            if lost:
                began, pool = self._started[run.placement]
                wasted = lost * (self.engine.now - began) / SECOND
                self.pool_evictions.append(Eviction(self.engine.seconds, pool, lost, wasted))

    def took(self, before: Sequence[int], after: Job, how: EndKind = EndKind.EVICTED) -> int:
        """Remove tasks that were taken from a job and notify its scheduler of the rest. Returns their number."""
        lost = [had - has.placed for had, has in zip(before, after.groups, strict=True)]
        if not any(lost):
            return 0
        leaving = [
            TaskEnd(machine, placement, EndKind.LEFT)
            for group in after.groups
            for placement, machine, leaves in group.runs
            if leaves
        ]
        if self.recorder is not None:
            self.recorder.lost(self._leaving(after, leaving), how, self.engine.now)
        self.store.finish(leaving, self.engine.now // 1000)
        self.unplace(after)
        for group, tasks in zip(after.groups, lost, strict=True):
            self.hold(group.need, -tasks)
        self.worker_pools.lost(after)
        simulated = self.scheduler_of(after)
        counted = after.order > self.residents or after.id in self.waiting_residents
        if simulated is not None and counted and isinstance(simulated.meter, OnceMeter):
            simulated.meter.lost(after, sum(lost))
        self.engine.at(self.engine.now, self._tell, after.id)
        return sum(lost)

    def _leaving(self, job: Job, leaving: Sequence[TaskEnd]) -> list[Run]:
        runs = self.store.cell.machines.runs(sorted({end.machine for end in leaving}))
        return [run for run in runs if run.leaving and run.job == job.id]

    def _tell(self, job_id: str) -> None:
        job = self.store.cell.jobs.get(job_id)
        if job is not None and job.pending:
            self.deliver(self.numbered_as_arrived(job))
        self.tell_freed(None)
        if self.followers:
            self.release()

    @override
    def _stop(self, job: Job, number: int) -> None:
        self.stop_runs(job)
        after = self.store.cell.jobs.get(job.id)
        if after is not None:
            self.took([group.placed for group in job.groups], after, EndKind.STOPPED)

    # Sizes

    def arrived(self, job_id: str) -> None:
        """Deliver an elastic job to its scheduler, as stored in the cell."""
        job = self.store.cell.jobs.get(job_id)
        if job is not None and self.scheduler_of(job) is not None:
            self.worker_pools.expect(job)
            self.deliver(self.numbered_as_arrived(job))

    @override
    def answers(self, kind: str, by: str) -> Answers:
        return {Measure: lambda asked: self.measured(asked, kind), Resize: lambda asked: self.resized(asked, by)}

    def measured(self, asked: Measure, kind: str) -> Measurements:
        """Answer Measure; shard durations are known from the start, as from earlier runs."""
        measurements = measure(asked, self.store.cell, kind, alone("").owns)
        jobs = [each._replace(durations=self.worker_pools.durations(each.job.id)) for each in measurements.jobs]
        return measurements._replace(jobs=jobs)

    def resized(self, asked: Resize, by: str) -> Resized:
        """Answer Resize; removed workers end at once."""
        cell = self.store.cell
        before = cell.jobs.running(sorted(asked.totals))
        sizes = resize(asked, cell, self.engine.now // 1000, by)
        for job in sizes.jobs:
            self.took(before[job.id], job, EndKind.STOPPED)
        return sizes
