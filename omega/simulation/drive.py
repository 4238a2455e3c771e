"""The simulator's answers to the attempt loop: one scheduler in virtual time.

The loop is the live one. The architecture defines Sync and Commit; the event queue defines when they are
answered and how long a decision takes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from omega.cellstate.fairness import leaf_of
from omega.cellstate.model import GroupStatus, Job, JobSpec
from omega.cellstate.replies import PendingJob
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Outcome, Transaction
from omega.schedulers.constraints.fetching import Fetch, fetch
from omega.schedulers.gates import Hold
from omega.schedulers.loop import Arrived, Commit, Committed, Note, Receive, Reread, Sync, Synced, Think, attempts
from omega.schedulers.queue.looks import Watch, looks_at, rest
from omega.schedulers.scheduler import Scheduler
from omega.schedulers.sharing import Ownership
from omega.schedulers.work import Work
from omega.simulation.engine import SECOND
from omega.simulation.packed_snapshot import PackedSnapshot
from omega.simulation.world import Answers, World

MOST_KNOWN = 100
_WAITING = [f"0-{count - 1}" for count in range(MOST_KNOWN)]
"""The waiting tasks of a new group, as ranges, by how many they are."""

Results = Sequence[tuple[Transaction, Outcome]]


class Architecture:
    """Defines Sync and Commit, and receives the other events of schedulers."""

    overlapping = False
    """Whether decisions are immediate and schedulers are free during decision time, as in the authors' simulator."""
    decides_late = False
    """Whether the copy is updated at the end of the decision time."""
    grants = False
    """Whether a scheduler may have to wait for its copy of the cell."""

    def copy(self, simulated: "SimulatedScheduler") -> PackedSnapshot:
        """Return an empty working copy for the scheduler."""
        return simulated.world.copy()

    def sync(self, simulated: "SimulatedScheduler") -> Snapshot | None:
        """Return the copy of the cell for the decision; None when the scheduler must wait for a grant."""
        return simulated.copy

    def ready(self, simulated: "SimulatedScheduler") -> None:
        """Update the copy at the end of the decision time, in an architecture that decides late."""

    def commit(self, simulated: "SimulatedScheduler", transactions: Sequence[Transaction]) -> Results:
        """Commit the decided transactions."""
        return simulated.carry_out(transactions, simulated.copy)

    def over(self, simulated: "SimulatedScheduler") -> None:
        """Called at the end of an attempt, after its results were applied, where `grants`."""

    def gave_up(self, simulated: "SimulatedScheduler", job_id: str) -> None:
        """Called when the scheduler abandons a job."""

    def ended(self, machines: Sequence[int], amounts: Sequence[int], owner: int) -> None:
        """Called when tasks of scheduler `owner` end together: their machines, and what each one freed (packed)."""


class SimulatedScheduler:
    """A scheduler, its working copy of the cell, and the jobs sent to it. `number` identifies the scheduler."""

    def __init__(self, number: int, name: str, scheduler: Scheduler, world: World, architecture: Architecture) -> None:
        """Create the scheduler; `start` runs it."""
        self.number, self.name, self.scheduler, self.world = number, name, scheduler, world
        self.architecture = architecture
        self.engine = world.engine
        self.meter = world.meter()
        scheduler.instruments.append(self.meter)
        self.copy = architecture.copy(self)
        self._granted: Snapshot = self.copy
        self.copy.wants_use = scheduler.counts_use or (scheduler.follows_pools and world.pools.configured)
        self.until = 0
        """End of the current decision time (microseconds)."""
        self.idle = False
        self.alarm = self._looks_at = -1
        self.busy = 0.0
        """Seconds of decision time, altogether."""
        self._inbox: list[Work] = []
        self._again: list[PendingJob] = []
        """Jobs read again, as they arrive again live."""
        self._frees = 0
        self._watch, self._notified = Watch(scheduler.queue), False
        """Of what the world tells it, and whether a placement that it waits for was made since the last look."""
        self._loop = attempts(scheduler)
        own: Answers = {Fetch: self._fetch, Reread: self._reread, Hold: self._hold, Note: _noted}
        self._answers: Answers = {**own, **world.answers(scheduler.kind, name)}
        self.began = 0.0
        """When the last attempt began (seconds)."""
        # The answers of each attempt.
        self._arrival, self._committed = Arrived(0.0), Committed(0.0, ())
        # The jobs of the attempt at hand.
        self._deciding: Sequence[Work] = ()

    def start(self) -> None:
        """Run until the scheduler waits for jobs."""
        self._answer(next(self._loop), last=False)

    # Events that resume it

    def deliver(self, work: Work) -> None:
        """Deliver an arriving job."""
        self._inbox.append(work)
        self._look(last=True)

    def tell(self, job: Job) -> None:
        """Deliver a changed job that is pending, possibly again. Not during another scheduler's turn."""
        self.scheduler.admit([PendingJob(0, job)])
        self._watch.told()
        self._look(last=False)

    def own(self, ownership: Ownership) -> list[str]:
        """Decide the jobs of an ownership from now on; return the ids of queued jobs that are others' then."""
        queue = self.scheduler.queue
        works = [*queue.ready.works.values(), *queue.blocked.works(), *queue.limited.works(), *self._inbox]
        self.scheduler.ownership, keeps = ownership, ownership.owns
        gone = [work.id for work in works if not keeps(work.id, leaf_of(*work.whose))]
        if gone:
            self.scheduler.disown(keeps)
            self._inbox = [work for work in self._inbox if keeps(work.id, leaf_of(*work.whose))]
        return gone

    def nudge(self) -> None:
        """Resources were freed: retry blocked jobs."""
        self._watch.told()
        self._look(last=False)

    def _look(self, *, last: bool) -> None:
        """Look once everything of this instant has happened, if the scheduler is idle then."""
        if not self.idle:
            return
        engine = self.engine
        if not engine.more_now:
            works, self._inbox = self._inbox, []
            self._receive(engine.seconds, works, last=last)
        elif self._looks_at != engine.now:
            self._looks_at = engine.now
            engine.after(engine.now, self._look_now)

    def _look_now(self, _: Any) -> None:
        self._looks_at = -1
        if self.idle:
            works, self._inbox = self._inbox, []
            self._receive(self.engine.seconds, works, last=True)

    def grant(self, snapshot: Snapshot) -> None:
        """Grant the copy for which the scheduler waits at Sync, together with jobs that arrived since."""
        works, self._inbox, self._granted = self._inbox, [], snapshot
        self.scheduler.take(works)
        if self._again:
            jobs, self._again = self._again, []
            self.scheduler.admit(jobs)
        self._answer(self._loop.send(Synced(snapshot, self.engine.seconds)), last=False)

    def _due(self, until: float) -> None:
        if self.idle and self.alarm == round(until * SECOND):
            works, self._inbox = self._inbox, []
            self._receive(max(until, self.engine.seconds), works, last=True)

    def _receive(self, now: float, works: Sequence[Work], *, last: bool) -> None:
        self.idle = False
        if self.world.watching:
            self.world.watching.pop(self.number, None)
        self._answer(self._loop.send(self._arrived(now, works)), last=last)

    def _arrived(self, now: float, works: Sequence[Work]) -> Arrived:
        """Return the answer to Receive, with the copy of the cell where that does not take time."""
        arrival, world = self._arrival, self.world
        arrival.now, arrival.works = now, works
        arrival.jobs, self._again = self._again, []
        if not self.architecture.grants:
            self._frees = world.frees
            arrival.snapshot = self.architecture.sync(self)
        return arrival

    def _thought(self, _: Any) -> None:
        if self.architecture.decides_late:
            self.architecture.ready(self)
        self._answer(self._loop.send(self.engine.seconds), last=True)

    # The loop

    def _answer(self, effect: Any, *, last: bool) -> None:
        """Answer effects until one takes time.

        `last`: the caller has nothing more to do at this instant, so time may pass here if no other event is due.
        """
        send, engine, architecture = self._loop.send, self.engine, self.architecture
        while True:
            kind = type(effect)
            if kind is Commit:
                committed = self._committed
                committed.now, committed.results = engine.seconds, architecture.commit(self, effect.transactions)
                self._over(committed.results)
                effect = send(committed)
                continue
            if self._deciding and kind is not Fetch:
                self._over([])
            if kind is Think:
                self._deciding, self.began = effect.works, engine.seconds
                self.busy += effect.seconds
                self.until = until = engine.now + round(effect.seconds * SECOND)
                if not architecture.overlapping:
                    if not (last and engine.pass_to(until)):
                        engine.after(until, self._thought)
                        return
                    if architecture.decides_late:
                        architecture.ready(self)
                effect = send(engine.seconds)
            elif kind is Receive:
                if architecture.grants:
                    architecture.over(self)
                arrival = self._next(effect.until)
                if arrival is None:
                    return
                effect = send(arrival)
            elif kind is Sync:
                self._frees = self.world.frees
                snapshot = self.architecture.sync(self)
                if snapshot is None:
                    return
                effect = send(snapshot)
            else:
                effect = send(self._answers[kind](effect))

    def _next(self, until: float | None) -> Arrived | None:
        """Return the answer to Receive; None, and the scheduler is idle, when there is nothing to do now."""
        engine = self.engine
        missed = self._missed()
        if rest(until, engine.seconds, news=missed or bool(self._inbox or self._again)) != 0:
            self.idle, self.alarm = True, -1
            if until is not None:
                self.alarm = round(until * SECOND)
                engine.after(self.alarm, self._due, until)
            if self._watch.asked is not None:
                self.world.watching[self.number] = self.nudge
            return None
        if engine.more_now:
            self.idle, self.alarm = True, -1
            self._look(last=False)
            return None
        works, self._inbox = self._inbox, []
        return self._arrived(looks_at(until, engine.seconds), works)

    def _missed(self) -> bool:
        """Ask the world for what blocked jobs wait for; return whether to look at once.

        It is when some of it happened since the last sync. What it did not ask for then it looks up once, as live.
        """
        queue, watch, world = self.scheduler.queue, self._watch, self.world
        if watch.asked is None and not queue.has_blocked:
            return False
        new, told = watch.changes(), self._notified
        asked = watch.ask() if new else watch.asked
        self._notified = False
        if asked is not None and asked.awaited:
            world.awaiting[self.number] = asked.awaited, self._placed
        else:
            world.awaiting.pop(self.number, None)
        if asked is None:
            return False
        if told := told or world.frees != self._frees:
            watch.told()
        return told or new

    def _placed(self) -> None:
        """Tasks were placed that blocked jobs wait for: check them, unless this happens anyway."""
        if not self._notified:
            self._notified = True
            if self.idle:
                self.engine.after(self.engine.now, self._check)

    def _check(self, _: Any) -> None:
        if self.idle and self._notified:
            self._notified = False
            self.nudge()

    def _fetch(self, effect: Fetch) -> None:
        fetch(effect, self.world.store.cell, self._granted)

    def _reread(self, effect: Reread) -> None:
        for job_id in effect.abandon:
            self.architecture.gave_up(self, job_id)
            self.world.abandon(job_id, self.number, self.name)
        for job_id in effect.jobs:
            job = self.world.store.cell.jobs.get(job_id)
            if job is not None and job.pending:
                self._again.append(PendingJob(0, job))

    def _hold(self, effect: Hold) -> None:
        """Take up released jobs again; held ones are pending in the simulated store."""
        self.scheduler.take(effect.released)

    def _over(self, results: Results) -> None:
        """Announce the end of an attempt."""
        works, self._deciding = self._deciding, ()
        if works:
            for instrument in self.scheduler.instruments:
                instrument.attempted(works, self.began, self.until / SECOND, results)

    def close(self) -> None:
        """End the run, possibly during an attempt."""
        if self._deciding:
            for instrument in self.scheduler.instruments:
                instrument.unfinished(self._deciding, self.began, self.engine.seconds)
        self._loop.close()

    # Shared by architectures

    def refresh(self, copy: PackedSnapshot) -> PackedSnapshot:
        """Bring a copy up to date; while jobs are blocked, record the changes."""
        world = self.world
        copy.watching = bool(self.scheduler.queue.blocked.groups)
        if world.epoch is not None:
            copy.pools, copy.epoch, copy.resources = world.pools, world.epoch, world.resources
        world.store.refresh(copy)
        return copy

    def carry_out(self, transactions: Sequence[Transaction], copy: PackedSnapshot) -> Results:
        """Commit transactions decided on a copy to the simulated store."""
        scheduler, commit, stands = self.scheduler, self.world.commit, True
        copy.watching = bool(scheduler.queue.blocked.groups)
        copy.began = self.began
        results: list[tuple[Transaction, Outcome]] = []
        for transaction in transactions:
            job = scheduler.working[transaction[0]].job
            outcome = commit(self.number, self.name, job, transaction, copy)
            results.append((transaction, outcome))
            stands = stands and outcome.accepted
        copy.settle(stands=stands)
        return results


def _noted(effect: Note) -> None:
    """No scheduler starts again in a simulation, so that no wait could be counted twice."""


def work_of(spec: JobSpec, order: int, at: int) -> Work:
    """Return a new job submitted at a time in microseconds; `order` counts submissions."""
    groups: list[GroupStatus] = []
    left: list[int] = []
    more: Mapping[str, Any] = spec.spec
    for group in spec.groups:
        count = group.count
        waiting = _WAITING[count] if count < MOST_KNOWN else f"0-{count - 1}"
        groups.append(
            GroupStatus(need=group.need, duration_ms=group.duration_ms, total=count, unplaced=count, waiting=waiting)
        )
        left.append(count)
        if group.spec and "groups" not in more:
            more = {**more, "groups": [dict(each.spec) for each in spec.groups]}
    job = Job(
        id=spec.id, name=spec.name, kind=spec.kind, precedence=spec.precedence, order=order, gang=spec.gang,
        gang_min=spec.gang_min,
        submitted_ms=at // 1000, groups=groups, spec=more,
    )  # fmt: skip
    return Work.waiting(job, left, at / SECOND)
