"""A scheduler: the composition of its policies, its queue, and what it does with an outcome."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from random import Random

from cellstate.cell import PendingJob
from cellstate.model import MOST_CLAIMS, JobState
from cellstate.transaction import (
    CONFLICTS,
    PLACED_ONE,
    Claim,
    Detection,
    Mode,
    Outcome,
    Singles,
    Transaction,
    Verdict,
)
from cellstate.view import View
from schedulers.constraints.looking import Look
from schedulers.instruments import Instrument
from schedulers.ordering.fifo import Fifo
from schedulers.patience import Patience
from schedulers.placement.arranging import arranged
from schedulers.placement.first_fit import RandomFirstFit
from schedulers.policies import Ordering, Placement, Preemption, Sizing
from schedulers.preemption.none import NoPreemption
from schedulers.resizing import Care, Measured, spares
from schedulers.sleepers import Sleepers
from schedulers.waking import Waking
from schedulers.work import Work

RETRY_LIMIT = 1_000
"""Conflicted attempts after which a job is abandoned (Omega §4)."""

_STALE = frozenset({Verdict.UNKNOWN, Verdict.DUPLICATE, Verdict.INCOMPLETE})
"""Verdicts that say the job is not what its scheduler thinks: it is read anew."""
_PLACED = frozenset({Verdict.PLACED})


@dataclass(slots=True)
class Scheduler:
    """Policies joined into a scheduler of a kind; the same object runs live and simulated.

    `batch` is how many jobs are decided per round trip, each still its own transaction. `backoff`
    (seconds) is the first, randomised wait after a conflict; it doubles up to a second. A gang backs
    off always, others only when nothing at all was placed, so that two that need the same room do
    not meet for ever.
    """

    kind: str
    ordering: Ordering = field(default_factory=Fifo)
    placement: Placement = field(default_factory=RandomFirstFit)
    preemption: Preemption = field(default_factory=NoPreemption)
    sizing: Sizing | None = None
    """How many workers jobs get that can use any number; None: as many as they ask for."""
    mode: Mode = Mode.INCREMENTAL
    detection: Detection = Detection.FINE
    batch: int = 8
    backoff: float = 0.002
    retry_limit: int = RETRY_LIMIT
    t_job: float = 0.0
    t_task: float = 0.0
    paths: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Other (t_job, t_task) for jobs of some kinds: the fast and the slow path of a monolithic scheduler."""
    patience: Patience | None = None
    """When set, every attempt counts, and a job that fits nowhere is tried again instead of sleeping."""
    rng: Random = field(default_factory=lambda: Random(0))
    instruments: list[Instrument] = field(default_factory=list)
    waking: Waking = field(default_factory=Waking, init=False)
    working: dict[str, Work] = field(default_factory=dict, init=False)
    blocked: list[tuple[Work, Sequence[int]]] = field(default_factory=list, init=False)
    """Jobs in hand that fit nowhere, and the machines to be looked up before others are evicted for them."""
    care: Care = field(default_factory=Care, init=False)
    gone: list[str] = field(default_factory=list, init=False)
    give_up: list[str] = field(default_factory=list, init=False)

    def fresh(self, seed: str) -> "Scheduler":
        """The same composition with nothing in hand, its dice thrown from the stream `seed`."""
        own = [each.name for each in fields(self) if each.init and each.name not in ("rng", "instruments")]
        copies = {name: deepcopy(getattr(self, name)) for name in own}
        return replace(self, **copies, rng=Random(seed), instruments=list(self.instruments))

    # Taking jobs in

    def admit(self, arrivals: Iterable[PendingJob]) -> None:
        """Take up jobs that became pending, or news of jobs already in hand."""
        for _, job in arrivals:
            if job.state is not JobState.ACTIVE:
                continue
            if self.sizing is not None:
                self.care.take(job)
            if job.id in self.working:
                self.working[job.id].takes_over(job)
                continue
            work = self.waking.discard(job.id) or self.ordering.discard(job.id) or Work.of(job)
            work.takes_over(job)
            if work.remaining:
                work.not_before = 0.0
                self.ordering.add(work)

    def disown(self, keeps: Callable[[str], bool]) -> None:
        """Drop queued and sleeping jobs that now belong to another member.

        A queued job that goes may have been woken for room that now nobody else would be told of, so
        the jobs that still sleep are tried again.
        """
        self.waking.keep(keeps)
        queued = []
        while (work := self.ordering.pop(float("inf"))) is not None:
            queued.append(work)
        for job_id in [job_id for job_id in self.care.jobs if not keeps(job_id)]:
            self.care.forget(job_id)
        self.care.strangers = True
        kept = [work for work in queued if keeps(work.id)]
        if len(kept) < len(queued):
            kept += self.sleepers.clear()
            self.waking.limited.look_again()
        for work in kept:
            self.ordering.add(work)

    def next_due(self) -> float | None:
        """When there is something to do next (seconds): 0 for at once, None when nothing is in hand."""
        if self.sizing is None:
            return self.ordering.next_due()
        due = [self.ordering.next_due(), self.care.next_due()]
        return min((each for each in due if each is not None), default=None)

    def sizes_at(self, now: float) -> bool:
        """Whether the sizes of jobs are to be looked at."""
        if self.sizing is None:
            return False
        due = self.care.next_due()
        return due is not None and due <= now

    def targets(self, measured: Measured, view: View, now: float) -> dict[str, dict[int, int]]:
        """New totals of the jobs that are to have another size; those in hand wait for their outcome."""
        if self.sizing is None:
            return {}
        found = self.care.targets(self.sizing, measured, view, now)
        return {job_id: totals for job_id, totals in found.items() if job_id not in self.working}

    @property
    def sleepers(self) -> Sleepers:
        """The jobs that no machine has room for."""
        return self.waking.sleepers

    def asks(self, view: View, now: float) -> Look | None:
        """What is to be looked at for jobs that sleep; None when there is nothing."""
        return self.waking.asks(self.kind, view, now)

    def looks_within(self) -> float:
        """How soon to look after jobs that sleep although nobody tells (seconds)."""
        return self.waking.looks_within(self.preemption)

    def wake(self, view: View, now: float) -> None:
        """Queue the sleeping jobs that may be placed now."""
        for work in self.waking.wake(view, self.preemption, self.rng, now):
            work.not_before = 0.0
            self.ordering.add(work)

    def choose(self, now: float) -> list[Work]:
        """Take the next jobs out of the queue, at most `batch`."""
        chosen: list[Work] = []
        while len(chosen) < self.batch and (work := self.ordering.pop(now)) is not None:
            work.not_before = 0.0
            self.working[work.id] = work
            chosen.append(work)
        return chosen

    def think_seconds(self, works: Sequence[Work]) -> float:
        """Decision time: t_job + t_task × tasks still unplaced, per job (Omega §4)."""
        seconds = 0.0
        for work in works:
            t_job, t_task = self.paths.get(work.job.kind, (self.t_job, self.t_task))
            seconds += t_job + t_task * work.remaining
        return seconds

    # Deciding

    def decide(self, works: Sequence[Work], view: View, now: float) -> list[Transaction]:
        """Place each job on the view; one that fits nowhere is `blocked`, or sleeps, and makes no transaction."""
        transactions = []
        for work in works:
            work.attempts += 1
            mark = view.mark()
            claims = arranged(self.placement, work if work.admitted is None else _admitted(work), view, self.rng)
            if claims:
                transactions.append(self._transaction(work, claims, view, mark))
            elif self._spare(work, now):
                self.working.pop(work.id, None)
                if work.remaining:
                    self.ordering.add(work)
            elif (machines := self.preemption.suspects(work, view, self.rng)) is not None:
                self.blocked.append((work, machines))
            elif self.patience is not None:
                self.working.pop(work.id, None)
                self._persist(work, self.patience, now)
            else:
                self._sleep(work, now)
        return transactions

    def suspects(self) -> tuple[int, ...]:
        """Machines to be looked up before `preempt`."""
        return tuple(sorted({machine for _, machines in self.blocked for machine in machines}))

    def preempt(self, view: View, now: float) -> list[Transaction]:
        """Evict for blocked jobs; one that is not helped looks on while there are machines it does not know."""
        transactions = []
        blocked, self.blocked = self.blocked, []
        for work, _ in blocked:
            mark = view.mark()
            claims = self.preemption.place(work, view, self.placement, self.rng)
            if claims:
                transactions.append(self._transaction(work, claims, view, mark))
            elif self.preemption.suspects(work, view, self.rng):
                self.working.pop(work.id, None)
                work.not_before = now  # behind those that are due
                self.ordering.add(work)
            else:
                self._sleep(work, now)
        return transactions

    def _transaction(self, work: Work, claims: Sequence[Claim], view: View, mark: int) -> Transaction:
        if len(claims) > MOST_CLAIMS:
            view.undo(mark + MOST_CLAIMS)
            claims = claims[:MOST_CLAIMS]
        if not isinstance(claims, Singles):
            claims = tuple(claims)
        elif self.detection is Detection.COARSE:
            claims.seen = [int(view.number[machine]) for machine in claims.machines]
        return Transaction(work.id, claims, Mode.GANG if work.gang else self.mode, self.detection)

    def _sleep(self, work: Work, now: float) -> None:
        self.working.pop(work.id, None)
        self.sleepers.add(work)
        for instrument in self.instruments:
            instrument.slept(work, now)

    # Settling

    def settle(self, transaction: Transaction, outcome: Outcome, now: float) -> None:
        """Act on the outcome of a transaction: done, retry what is left, read anew, or give up.

        A job never goes to sleep here: the room that is free by now was perhaps freed since it was
        decided, so it is tried once more, and that attempt puts it to sleep when nothing fits.
        """
        for instrument in self.instruments:
            instrument.committed(transaction, outcome, now)
        work = self.working.pop(transaction.job, None)
        if work is None:
            return
        if work.woken is not None:
            self.sleepers.tried(work)
        verdicts = _count(work, transaction.claims, outcome)
        self._spare(work, now)
        if not work.remaining:
            for instrument in self.instruments:
                instrument.placed(work, now)
        elif verdicts & _STALE:
            self.gone.append(work.id)
        elif self.patience is not None:
            work.conflicts += not verdicts.isdisjoint(CONFLICTS)
            self._persist(work, self.patience, now)
        elif verdicts & CONFLICTS:
            self._retry(work, outcome, now)
        elif Verdict.LIMIT in verdicts:
            self.waking.limited.add(work)
            for instrument in self.instruments:
                instrument.slept(work, now)
        elif Verdict.PRECEDENCE in verdicts:
            work.fruitless += 1
            work.not_before = now + min(1.0, 0.05 * work.fruitless)
            self.ordering.add(work)
        else:
            self.ordering.add(work)

    def _spare(self, work: Work, now: float) -> bool:
        """Give up surplus workers that found no machine; whether there were any."""
        if self.sizing is None or not (found := spares(work.job, work.left)):
            return False
        for group, total in found:
            self.care.give_up(work.id, group, total, now)
            work.left[group] = 0
        return True

    def _retry(self, work: Work, outcome: Outcome, now: float) -> None:
        work.conflicts += 1
        if work.conflicts >= self.retry_limit:
            self._abandon(work, now)
            return
        if outcome.placed:
            work.fruitless = 0
        else:
            work.fruitless += 1
            longest = min(1.0, self.backoff * 2 ** min(work.fruitless, 12))
            work.not_before = now + longest * self.rng.random()
        self.ordering.add(work)

    def _persist(self, work: Work, patience: Patience, now: float) -> None:
        if patience.is_over(work):
            self._abandon(work, now)
        else:
            work.not_before = now + patience.seconds
            self.ordering.add(work)

    def _abandon(self, work: Work, now: float) -> None:
        self.give_up.append(work.id)
        for instrument in self.instruments:
            instrument.abandoned(work, now)


def _admitted(work: Work) -> Work:
    """As much of a job as limits admit, once: what is in the way of one of its groups is not in the way of all."""
    left, work.admitted = [min(pair) for pair in zip(work.left, work.admitted or work.left, strict=True)], None
    return replace(work, left=left)


def _count(work: Work, claims: Sequence[Claim], outcome: Outcome) -> AbstractSet[Verdict]:
    """Take over what stands; returns how the rest was judged, and PLACED when all stands or some does."""
    if isinstance(claims, Singles):
        placed = outcome.claims.count(PLACED_ONE)
        work.left[claims.group] -= placed
        work.placed += placed
        return _PLACED if placed == len(claims) else {verdict for _, verdict in outcome.claims}
    verdicts = set()
    for claim, (placed, verdict) in zip(claims, outcome.claims, strict=True):
        verdicts.add(verdict)
        if placed:
            work.left[claim.group] -= placed
            work.placed += placed
            work.places[claim.machine] = work.places.get(claim.machine, 0) + placed
    return verdicts


def rebase(transaction: Transaction, own: dict[int, int]) -> Transaction:
    """Raise the numbers a coarse transaction saw by one's own accepted transactions judged since.

    `own` counts, per machine, accepted transactions of the commit that was in flight when this one
    was decided. What others changed is not counted, so a foreign change still shows as a move.
    """
    if transaction.detection is Detection.FINE or not own:
        return transaction
    claims: list[Claim] = [claim._replace(seen=claim.seen + own.get(claim.machine, 0)) for claim in transaction.claims]
    return transaction._replace(claims=tuple(claims))
