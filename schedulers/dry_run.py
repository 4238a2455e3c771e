"""A dry run: the attempt loop on a working copy, as if the store accepted all that limits admit; nothing is committed.

Room, precedence and shares were decided on the copy. Limits are not a scheduler's to decide: it claims what has room,
and the store refuses what is above them, so the dry run does too.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from omega.cellstate.model import Job
from omega.cellstate.snapshot import Resident, Snapshot
from omega.cellstate.transaction import Claim, Mode, Outcome, Transaction, Verdict
from omega.cellstate.usage import times
from omega.schedulers.constraints.fetching import Fetch, fetch
from omega.schedulers.failing import as_one_line
from omega.schedulers.foreign_errors import RAISED
from omega.schedulers.gates import Hold
from omega.schedulers.limits import LimitedUse
from omega.schedulers.loop import Arrived, Commit, Committed, Effect, Receive, Sync, Think, attempts
from omega.schedulers.preemption.victims import Victim
from omega.schedulers.resizing import Measure, Measurements, Resize, Resized
from omega.schedulers.scheduler import Scheduler
from omega.schedulers.work import Work

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell

MOST_TRIES = 8
"""Maximum number of consecutive waits for a time named by a policy without a placement; the rest is then pending."""


@dataclass(slots=True)
class Planned:
    """The plan of a job: its claims and the victims they need, or why the scheduler's gate would hold it."""

    held: str = ""

    claims: list[Claim] = field(default_factory=list)
    victims: list[Victim] = field(default_factory=list)
    after: float = 0.0
    """Seconds from the beginning to the last claim: the time that policies wait, such as for a starving pool."""


@dataclass(slots=True)
class DryRun:
    """Plans jobs one after the other on `snapshot`; each takes from the room that the previous ones left.

    `cell` is only read, for attributes, other jobs and running tasks. `limits` have the use that earlier plans added.
    """

    scheduler: Scheduler
    snapshot: Snapshot
    cell: "Cell"
    now: float = 0.0
    """The time at which the job arrives (seconds); that of the cell, where the ages of tasks matter."""

    limits: LimitedUse | None = None
    """The limits of the cell and their use; None: read from it."""
    _owners: dict[str, Job] = field(default_factory=dict, init=False)
    """Jobs of which tasks would be evicted."""

    def plan(self, work: Work) -> Planned:
        """Attempt a job until it is placed or nothing more fits; its claims stay in the snapshot."""
        with as_one_line(self.scheduler, errors=RAISED):
            return self._plan(work)

    def _plan(self, work: Work) -> Planned:
        limits = self.limits = LimitedUse.of(self.cell) if self.limits is None else self.limits
        planned, arriving, now, tries = Planned(), [work], self.now, 0
        self.snapshot.placed = {work.id: Counter(work.places)}
        self.scheduler.alone = True
        loop = attempts(self.scheduler)
        effect: Effect = next(loop)
        while True:
            match effect:
                case Receive(until):
                    tries = tries + 1 if until else 0
                    if (until is None and not arriving) or tries > MOST_TRIES:
                        loop.close()
                        self.scheduler.queue.limited.discard(work.id)  # a later plan is not to place the rest
                        return planned
                    now = max(now, until or 0.0)
                    effect = loop.send(Arrived(now, works=arriving))
                    arriving = []
                case Sync():
                    effect = loop.send(self.snapshot)
                case Fetch():
                    # Only the snapshot has the job's own tasks, and only the dry run the use below limits.
                    fetch(replace(effect, placed=(), use=""), self.cell, self.snapshot)
                    if effect.use:
                        self.snapshot.use, self.snapshot.pool_use = limits.of_kind(effect.use), dict(limits.pool_use)
                    effect = loop.send(None)
                case Think():
                    effect = loop.send(now)
                case Commit():
                    outcomes = [self._commit(each, planned, limits) for each in effect.transactions]
                    if any(outcome.placed for outcome in outcomes):
                        planned.after, tries = now - self.now, 0
                    results = list(zip(effect.transactions, outcomes, strict=True))
                    effect = loop.send(Committed(now, results, False))
                case Hold(reasons) if work.id in reasons:
                    loop.close()
                    self.scheduler.held.works.clear()
                    planned.held = reasons[work.id]
                    return planned
                case Measure():  # an unsubmitted job has no progress; its requested size is planned
                    effect = loop.send(Measurements([], []))
                case Resize():
                    effect = loop.send(Resized([]))
                case _:
                    effect = loop.send(None)

    def _commit(self, transaction: Transaction, planned: Planned, limits: LimitedUse) -> Outcome:
        """Return what the store would answer, and keep what it would accept in the snapshot and below the limits."""
        work, claims = self.scheduler.working[transaction.job], list(transaction.claims)
        if limits and limits.bind(work.job):
            claims, answers, victims = self._judge(work, claims, limits, together=transaction.mode is Mode.GANG)
        else:
            answers = [(claim.count, Verdict.PLACED) for claim in claims]
            victims = [victim for claim in claims for victim in self._evict(claim, limits)]
        if work.id in self.snapshot.placed:
            here = Counter(self.snapshot.placed[work.id])
            for claim in claims:
                here[claim.machine] += claim.count
            self.snapshot.placed = {work.id: here}
        planned.claims += claims
        planned.victims += victims
        return Outcome(tuple(answers))

    def _judge(
        self, work: Work, claims: Sequence[Claim], limits: LimitedUse, *, together: bool
    ) -> tuple[list[Claim], list[tuple[int, Verdict]], list[Victim]]:
        """Return the parts of claims that the limits admit, the answers to all, and the victims of the parts."""
        snapshot, residents, fresh = (
            self.snapshot,
            self.snapshot.residents,
            not any(map(work.holds, range(len(work.left)))),
        )
        for claim in claims:
            snapshot.take(claim.machine, work.need(claim.group), -claim.count)
        before, mark, known = (
            limits.copy(),
            snapshot.mark(),
            {each.machine: residents.on(each.machine) for each in claims},
        )
        parts, answers, victims = list[Claim](), list[tuple[int, Verdict]](), list[Victim]()
        for claim in claims:
            part, verdict = self._fit(work, claim, limits, fresh=fresh)
            answers.append((part.count, verdict))
            if part.count:
                victims += self._evict(part, limits)
                snapshot.take(part.machine, work.need(part.group), part.count)
                limits.place(work.job, work.need(part.group), part.count, fresh=fresh)
                parts.append(part)
                fresh = False
        if together and any(verdict is not Verdict.PLACED for _, verdict in answers):
            limits.restore(before)
            snapshot.undo(mark)
            for victim in victims:
                residents.learn([victim.resident.machine], snapshot.number, known[victim.resident.machine])
            parts, victims = [], []
            answers = [(0, Verdict.ABORTED if verdict is Verdict.PLACED else verdict) for _, verdict in answers]
        self._forget(work, [(claim, claim.count - placed) for claim, (placed, _) in zip(claims, answers, strict=True)])
        return parts, answers, victims

    def _fit(self, work: Work, claim: Claim, limits: LimitedUse, *, fresh: bool) -> tuple[Claim, Verdict]:
        """Return the part of a claim that is accepted, with the victims that it needs, and the verdict of the others.

        As `fit` of commit.lua: victims are evicted one after the other, and only while that helps.
        """
        snapshot, machine, need, count = self.snapshot, claim.machine, work.need(claim.group), claim.count
        there = {each.placement: each for each in snapshot.residents.on(machine)}
        units = [there[at] for at, tasks in claim.evict if at in there for _ in range(min(tasks, there[at].tasks))]
        before, mark = limits.copy(), snapshot.mark()
        n = taken = tried = 0
        while True:
            room = [int(free[machine]) // amount for free, amount in zip(snapshot.room, need, strict=True) if amount]
            fits, limit = min([count, *room]), limits.admits(work.job, need, count, fresh=fresh)
            if min(fits, limit) > n:
                n, taken = min(fits, limit), tried
            if n == count or tried == len(units) or limit <= n < fits:
                break
            self._give_up(units[tried], 1, limits)
            tried += 1
        limits.restore(before)
        snapshot.undo(mark)
        victims = Counter(each.placement for each in units[:taken])
        verdict = Verdict.PLACED if n == count else Verdict.LIMIT if limit <= n else Verdict.FULL
        return claim._replace(count=n, evict=tuple(victims.items())), verdict

    def _forget(self, work: Work, refused: Sequence[tuple[Claim, int]]) -> None:
        """Do not count refused tasks as use of their user and pool, and as tasks of a job that others relate to."""
        snapshot, others = self.snapshot, self.snapshot.others
        for claim, count in refused:
            if count and self.scheduler.counts_use:
                snapshot.usage.take(work.user, work.pool, times(work.need(claim.group), -count))
            if count and work.job.name in others:
                others = {**others, work.job.name: Counter(others[work.job.name]) - Counter({claim.machine: count})}
        snapshot.others = others

    def _evict(self, claim: Claim, limits: LimitedUse) -> list[Victim]:
        residents = {each.placement: each for each in self.snapshot.residents.on(claim.machine)}
        victims = []
        for placement, count in claim.evict:
            resident = residents[placement]
            victims.append(Victim(resident, count))
            self._give_up(resident, count, limits)
            residents[placement] = replace(resident, tasks=resident.tasks - count)
        if victims:
            stay = [each for each in residents.values() if each.tasks]
            self.snapshot.residents.learn([claim.machine], self.snapshot.number, stay)
        return victims

    def _give_up(self, resident: Resident, tasks: int, limits: LimitedUse) -> None:
        """Free the room of running tasks, on their machine and below limits."""
        self.snapshot.take(resident.machine, resident.need, -tasks)
        if not limits:
            return
        if resident.job not in self._owners:
            self._owners |= self.cell.jobs.by_id([resident.job])
        if (job := self._owners.get(resident.job)) is not None:  # else it ended since its tasks were read
            limits.evict(job, resident.need, tasks)
