"""The simulated answerer of the attempt loop: one scheduler at work in virtual time.

The loop is the one that runs live. What Sync and Commit mean is up to the architecture; when they are
answered, and how long thinking takes, is up to the event queue.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from cellstate.cell import PendingJob
from cellstate.model import Job
from cellstate.replica import Replica
from cellstate.transaction import Outcome, Transaction
from cellstate.view import View
from omega.simulation.engine import SECOND
from omega.simulation.world import Answers, World
from schedulers.constraints.looking import Look, look
from schedulers.loop import Arrived, Commit, Committed, Receive, Reread, Sync, Synced, Think, attempts
from schedulers.scheduler import Scheduler
from schedulers.work import Work

Results = list[tuple[Transaction, Outcome]]


class Architecture:
    """How Sync and Commit are answered, and what else an architecture is told."""

    overlapping = False
    """Whether decisions are made at once and the desk is free while it thinks; only authors of simulators can."""

    def copy(self, desk: "Desk") -> Replica:
        """The desk's private copy, empty."""
        return desk.world.copy()

    def sync(self, desk: "Desk") -> View | None:
        """The copy of the cell to decide on; None when the desk has to wait until it is granted one."""
        return desk.copy

    def ready(self, desk: "Desk") -> None:
        """The thinking is over: the last word on the copy before the decision."""

    def commit(self, desk: "Desk", transactions: Sequence[Transaction]) -> Results:
        """Commit what was decided."""
        return desk.carry_out(transactions, desk.copy)

    def over(self, desk: "Desk") -> None:
        """The desk's attempt is over, and what came of it is acted on."""

    def gave_up(self, desk: "Desk", job_id: str) -> None:
        """The desk abandons a job."""

    def ended(self, freed: Mapping[int, int], owner: int) -> None:
        """Tasks of the desk `owner` ended together: so much room (packed) on these machines."""


class Desk:
    """A scheduler, its private copy of the cell and the jobs on their way to it. `number` is the desk's own."""

    def __init__(self, number: int, name: str, scheduler: Scheduler, world: World, architecture: Architecture) -> None:
        """Nothing runs before `start`."""
        self.number, self.name, self.scheduler, self.world = number, name, scheduler, world
        self.architecture = architecture
        self.engine = world.engine
        self.meter = world.meter()
        scheduler.instruments.append(self.meter)
        self.copy = architecture.copy(self)
        self.copy.wants_use = scheduler.counts_use
        self.until = 0
        """When the thinking in hand ends (microseconds)."""
        self.idle = False
        self.alarm = -1
        self._inbox: list[Work] = []
        self._frees = 0
        self._loop = attempts(scheduler)
        self._answers: Answers = {Look: self._look, Reread: self._reread, **world.answers(scheduler.kind, name)}
        self._attempt: tuple[Sequence[Work], float] | None = None

    def start(self) -> None:
        """Run up to where the scheduler waits for jobs."""
        self._answer(next(self._loop), last=False)

    # What wakes it

    def deliver(self, work: Work) -> None:
        """A job arrives."""
        if self.idle:
            self._receive(self.engine.seconds, [work], last=True)
        else:
            self._inbox.append(work)

    def tell(self, job: Job) -> None:
        """News of a job as the cell has it: it is pending, perhaps again. Not while another desk is in its turn."""
        self.scheduler.admit([PendingJob(0, job)])
        if self.idle:
            self.nudge()

    def nudge(self) -> None:
        """Room was freed: jobs that sleep may fit."""
        self._receive(self.engine.seconds, [], last=False)

    def grant(self, view: View) -> None:
        """The copy for which it waits at Sync; jobs that came meanwhile are at hand as well."""
        works, self._inbox = self._inbox, []
        self.scheduler.take(works)
        self._answer(self._loop.send(Synced(view, self.engine.seconds)), last=False)

    def _due(self, until: float) -> None:
        if self.idle and self.alarm == round(until * SECOND):
            self._receive(max(until, self.engine.seconds), [], last=True)

    def _receive(self, now: float, works: Sequence[Work], *, last: bool) -> None:
        self.idle = False
        self.world.watching.pop(self.number, None)
        self._answer(self._loop.send(Arrived(now, (), None, False, works)), last=last)

    def _thought(self, _: Any) -> None:
        self.architecture.ready(self)
        self._answer(self._loop.send(self.engine.seconds), last=True)

    # The loop

    def _answer(self, effect: Any, *, last: bool) -> None:
        """Answer one effect after the other up to one whose answer takes time.

        `last`: whoever calls has nothing more to do at this instant, so time may pass here when nothing else happens.
        """
        send, engine = self._loop.send, self.engine
        while True:
            kind = type(effect)
            if kind is Commit:
                results = self.architecture.commit(self, effect.transactions)
                self._over(results)
                effect = send(Committed(engine.seconds, results, False))
                continue
            if self._attempt is not None and kind is not Look:
                self._over([])
            if kind is Sync:
                self._frees = self.world.frees
                view = self.architecture.sync(self)
                if view is None:
                    return
                effect = send(view)
            elif kind is Think:
                self._attempt = effect.works, engine.seconds
                self.until = engine.now + round(effect.seconds * SECOND)
                if not self.architecture.overlapping:
                    if not (last and engine.pass_to(self.until)):
                        engine.at(self.until, self._thought)
                        return
                    self.architecture.ready(self)
                effect = send(engine.seconds)
            elif kind is Receive:
                self.architecture.over(self)
                now = engine.seconds
                until = effect.until
                # A job that was blocked on an old copy may fit by now: look again, as live (semantics 19).
                missed = self.world.frees != self._frees and len(self.scheduler.queue.blocked) > 0
                if not (self._inbox or missed) and (until is None or round(until * SECOND) > engine.now):
                    self.idle, self.alarm = True, -1
                    if until is not None:
                        self.alarm = round(until * SECOND)
                        engine.at(self.alarm, self._due, until)
                    if len(self.scheduler.queue.blocked):
                        self.world.watching[self.number] = self.nudge
                    return
                works, self._inbox = self._inbox, []
                effect = send(Arrived(now if until is None else max(now, until), (), None, False, works))
            else:
                effect = send(self._answers[kind](effect))

    def _look(self, effect: Look) -> None:
        look(effect, self.world.master.cell, self.copy)

    def _reread(self, effect: Reread) -> None:
        for job_id in effect.abandon:
            self.architecture.gave_up(self, job_id)
            self.world.abandon(job_id, self.number, self.name)
        for job_id in effect.jobs:
            job = self.world.master.cell.job(job_id)
            if job is not None and job.pending:
                self._inbox.append(Work.of(job))

    def _over(self, results: Results) -> None:
        """Announce the end of an attempt."""
        if self._attempt is not None:
            works, began = self._attempt
            self._attempt = None
            for instrument in self.scheduler.instruments:
                instrument.attempted(works, began, self.until / SECOND, results)

    def close(self) -> None:
        """The run is over, perhaps in the middle of an attempt."""
        if self._attempt is not None:
            self.meter.unfinished(*self._attempt, self.engine.seconds)
        self._loop.close()

    # What architectures have in common

    def refresh(self, copy: Replica) -> Replica:
        """Bring a copy up to date; when jobs sleep, it remembers what changed."""
        copy.watching = bool(len(self.scheduler.queue.blocked))
        self.world.master.refresh(copy)
        copy.changes += 1
        return copy

    def carry_out(self, transactions: Sequence[Transaction], copy: Replica) -> Results:
        """Commit to the master what was decided on a copy."""
        world, working = self.world, self.scheduler.working
        results, stands = [], True
        for transaction in transactions:
            outcome, whole = world.commit(self.number, self.name, working[transaction.job].job, transaction, copy)
            results.append((transaction, outcome))
            stands = stands and whole
        copy.watching = bool(len(self.scheduler.queue.blocked))
        copy.settle(stands=stands)
        return results
