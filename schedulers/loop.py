"""The attempt loop of a scheduler, as a generator of effects.

Receive jobs → sync → (resize jobs, fetch data for their demands) → think → commit → settle. The loop has no clock, no
store and no simulator: it yields effects, and its driver answers them. The live process answers from the store and the
wall clock, the simulator from its event queue, so the paper's retry rules exist once.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

from omega.cellstate.errors import Refused
from omega.cellstate.replies import PendingJob, jobs_of
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Outcome, Transaction
from omega.schedulers.constraints.fetching import Fetch
from omega.schedulers.gates import Hold, next_due, sift
from omega.schedulers.instruments import announce
from omega.schedulers.outbox import Outbox
from omega.schedulers.resizing import Measure, Measurements, Resize, Resized, TotalsOf
from omega.schedulers.scheduler import Scheduler
from omega.schedulers.sharing import Ownership
from omega.schedulers.work import Work


class Receive(NamedTuple):
    """Receive jobs that became pending. The answer may wait until `until` for some.

    `until` is seconds on the loop's clock: 0 when there is work at once, the end of the next job's back-off, or None
    when nothing is queued.
    """

    until: float | None


@dataclass(slots=True)
class Arrived:
    """The answer to Receive: jobs, the time (seconds), and changes of the scheduler's buckets.

    The loop reads an answer at once: a driver may use the same object for its next one.
    """

    now: float
    jobs: Sequence[PendingJob] = ()
    owned: Ownership | None = None
    """The jobs that are the scheduler's own from now on, when that changed."""
    renewed: bool = False
    """A new incarnation: jobs held and in flight are void, every pending job arrives again."""
    works: Sequence[Work] = ()
    """New jobs, already converted."""
    snapshot: Snapshot | None = None
    """The snapshot, synchronised at `now`, from a driver that has it at hand: the loop then omits Sync."""


class Sync(NamedTuple):
    """Synchronise the snapshot; the answer is the Snapshot, or Synced when that took time."""


class Synced(NamedTuple):
    """The snapshot, and the time (seconds) at which the attempt begins."""

    snapshot: Snapshot
    now: float


@dataclass(slots=True)
class Think:
    """Decide for `seconds` (t_job + t_task × tasks); the answer is the time afterwards.

    The loop yields the same object for each attempt: it is valid until it is answered.
    """

    works: Sequence[Work] = ()
    seconds: float = 0.0


@dataclass(slots=True)
class Commit:
    """Commit transactions; the answer is Committed, possibly of earlier ones (one call in flight).

    One object for all attempts, as Think.
    """

    transactions: Sequence[Transaction] = ()


@dataclass(slots=True)
class Committed:
    """The answer to Commit: transactions with their outcomes, and whether another call is in flight."""

    now: float
    results: Sequence[tuple[Transaction, Outcome]]
    in_flight: bool = False


class Reread(NamedTuple):
    """Jobs that changed in the store, and jobs given up; the former arrive again if still pending."""

    jobs: tuple[str, ...]
    abandon: tuple[str, ...]


class Note(NamedTuple):
    """Jobs of which nothing was placed at their first attempt or soon after; the store notes that they began."""

    jobs: tuple[str, ...]


Effect = Receive | Hold | Sync | Fetch | Measure | Resize | Think | Commit | Reread | Note
Answer = Arrived | Snapshot | Synced | Measurements | Resized | Committed | float | None
Attempts = Generator[Effect, Answer, None]


_SYNC, _WAIT, _GO_ON = Sync(), Receive(None), Receive(0.0)


def attempts(scheduler: Scheduler) -> Attempts:
    """Run `scheduler` without end; the module's docstring has the order of effects."""
    in_flight, outbox, think, commit = False, scheduler.outbox, Think(), Commit()
    known = cast("Snapshot", _SYNC)  # none yet
    while True:
        until = 0.0 if in_flight else scheduler.next_due() if scheduler.gate is None else _next_due(scheduler)
        arrived = yield _WAIT if until is None else Receive(until) if until else _GO_ON
        if type(arrived) is not Arrived:
            raise TypeError(arrived)
        began, snapshot = arrived.now, arrived.snapshot
        if arrived.jobs or arrived.renewed or arrived.owned is not None:
            _take_in(scheduler, arrived)
            in_flight = in_flight and not arrived.renewed
        scheduler.take(arrived.works)
        if snapshot is None:
            synced = yield _SYNC
            if synced is not known:  # in most rounds it is the same object
                known, began = _synced(synced, began)
            snapshot = known
        if (asked := scheduler.asks(snapshot, began)) is not None:
            yield asked
        scheduler.requeue(snapshot, began)
        if scheduler.sizing is not None and scheduler.elastic.is_due(began):
            yield from _resize(scheduler, snapshot, began)
        chosen = scheduler.choose(began) if scheduler.gate is None else (yield from _through_gate(scheduler, began))
        if not chosen and not in_flight:
            yield from _follow_up(scheduler, outbox, began)
            continue
        if (asked := scheduler.wanted(chosen, snapshot)) is not None:
            yield asked
        announce(scheduler.instruments, chosen, began)
        think.works, think.seconds = chosen, think_seconds(scheduler, chosen)
        thought = yield think
        now = thought if type(thought) is float else began
        transactions = scheduler.decide(chosen, snapshot, now)
        if (machines := scheduler.suspects()) is not None:
            transactions += yield from _preempt(scheduler, machines, snapshot, now)
        if transactions or in_flight:
            commit.transactions = transactions
            committed = yield commit
            if type(committed) is not Committed:
                raise TypeError(committed)
            in_flight = committed.in_flight
            if committed.results:
                scheduler.settle(committed.results, committed.now)
        if outbox:
            yield from _follow_up(scheduler, outbox, now)


def _through_gate(scheduler: Scheduler, now: float) -> Generator[Effect, Answer, list[Work]]:
    """Take the next jobs out of the queue that the gate does not hold."""
    chosen, hold = sift(scheduler, scheduler.choose(now), now)
    if hold is not None:
        yield hold
    return chosen


def _next_due(scheduler: Scheduler) -> float | None:
    """As `next_due` of a scheduler, for one with a gate."""
    due, again = scheduler.next_due(), next_due(scheduler)
    return due if again is None else again if due is None else min(due, again)


def think_seconds(scheduler: Scheduler, works: Sequence[Work]) -> float:
    """Return the decision time in seconds: t_job + t_task × tasks still unplaced, per job (Omega §4)."""
    if scheduler.t_jobs:
        return sum(scheduler.rng.choice(scheduler.t_jobs) + scheduler.t_task * sum(work.left) for work in works)
    seconds, paths, other = 0.0, scheduler.paths, (scheduler.t_job, scheduler.t_task)
    if paths or any(other):
        for work in works:
            t_job, t_task = paths.get(work.job.kind, other)
            seconds += t_job + t_task * sum(work.left)
    return seconds


def _synced(answer: Answer, began: float) -> tuple[Snapshot, float]:
    """Return the snapshot of an answer to Sync, and when the attempt begins."""
    if isinstance(answer, Synced):
        answer, began = answer
    if not isinstance(answer, Snapshot):
        raise TypeError(answer)
    return answer, began


def _resize(scheduler: Scheduler, snapshot: Snapshot, now: float) -> Attempts:
    measured = yield scheduler.elastic.ask(now)
    if not isinstance(measured, Measurements):
        raise TypeError(measured)
    if moved := scheduler.elastic.moved(measured, scheduler.working):
        scheduler.admit(moved)
    if totals := scheduler.elastic.targets(measured, snapshot, now, scheduler.working):
        resized = yield from _resized(scheduler, totals, now)
        scheduler.admit(scheduler.elastic.with_specs(resized.jobs))


def _resized(scheduler: Scheduler, totals: TotalsOf, now: float) -> Generator[Effect, Answer, Resized]:
    """Change totals. What the store refuses ends simulations; a live scheduler shows it and goes on."""
    resized = yield Resize(totals)
    if not isinstance(resized, Resized):
        raise TypeError(resized)
    if resized.refused and scheduler.failing is None:
        raise Refused(next(iter(resized.refused.values())))
    scheduler.elastic.answered(resized, now)
    return resized


def _preempt(
    scheduler: Scheduler, machines: tuple[int, ...], snapshot: Snapshot, now: float
) -> Generator[Effect, Answer, list[Transaction]]:
    """Decide on evictions, once the running tasks of these machines are known."""
    if machines:
        yield Fetch(residents=machines)
    return scheduler.preempt(snapshot, now)


def _follow_up(scheduler: Scheduler, outbox: Outbox, now: float) -> Attempts:
    """Send the requests to the store that follow from outcomes; notes only when they are due."""
    if outbox.urgent:
        gone, given_up, totals = outbox.take()
        if totals:
            yield from _resized(scheduler, totals, now)
        if gone or given_up:
            yield Reread(gone, given_up)
    if outbox.tried and now >= outbox.note_at and (tried := outbox.take_tried()):
        yield Note(tried)


def _take_in(scheduler: Scheduler, arrived: Arrived) -> None:
    if arrived.renewed:
        scheduler.renew()
    if arrived.owned is not None:
        scheduler.disown(arrived.owned.owns)
        scheduler.held.keep(arrived.owned.owns)
    if arrived.jobs:
        if scheduler.gate is not None:
            scheduler.held.learn(jobs_of(arrived.jobs))
        scheduler.admit(arrived.jobs)
