"""The attempt loop: what a scheduler does, as a generator of effects.

Receive jobs → sync → think → commit → settle. It knows no clock, no store and no simulator: it yields
effects, and whoever drives it answers. The live process answers from the store and the wall clock,
a simulator from its event queue; so the paper's retry rules exist once.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass

from cellstate.cell import PendingJob
from cellstate.model import bucket_of
from cellstate.transaction import Outcome, Transaction
from cellstate.view import View
from schedulers.scheduler import Scheduler
from schedulers.work import Work


@dataclass(frozen=True, slots=True)
class Receive:
    """Jobs that became pending since the last time. The answer may wait for some until `until`.

    `until` is seconds on the answerer's clock: 0 when there is work to do at once, the time the next
    job's back-off ends, or None when nothing is queued.
    """

    until: float | None


@dataclass(frozen=True, slots=True)
class Arrived:
    """The answer to Receive: jobs, the time (seconds), and whether some jobs now belong to others."""

    now: float
    jobs: Sequence[PendingJob] = ()
    owned: str | None = None
    """The buckets that are this scheduler's from now on, when that changed (`sharing.owned`)."""
    renewed: bool = False
    """A new incarnation: nothing held or in flight counts any more, every pending job arrives again."""


@dataclass(frozen=True, slots=True)
class Sync:
    """Bring the private copy up to date; the answer is the View."""


@dataclass(frozen=True, slots=True)
class Think:
    """Decide for so many seconds (t_job + t_task × tasks); the answer is the time afterwards."""

    works: tuple[Work, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class Commit:
    """Commit transactions; the answer is Committed, perhaps of earlier ones (one in flight)."""

    transactions: tuple[Transaction, ...]


@dataclass(frozen=True, slots=True)
class Committed:
    """Transactions whose outcome became known, and whether any is still in flight."""

    now: float
    results: Sequence[tuple[Transaction, Outcome]]
    in_flight: bool


@dataclass(frozen=True, slots=True)
class Reread:
    """Jobs that are not what was thought, and jobs given up; the former arrive again if still pending."""

    jobs: tuple[str, ...]
    abandon: tuple[str, ...]


Effect = Receive | Sync | Think | Commit | Reread
Answer = Arrived | View | Committed | float | None
Attempts = Generator[Effect, Answer, None]


def attempts(scheduler: Scheduler) -> Attempts:
    """Run `scheduler` for ever; see the module's first lines for the order of effects."""
    in_flight = False
    while True:
        arrived = yield Receive(0.0 if in_flight else scheduler.ordering.next_due())
        if not isinstance(arrived, Arrived):
            raise TypeError(arrived)
        in_flight = in_flight and not arrived.renewed
        _take_in(scheduler, arrived)
        view = yield Sync()
        if not isinstance(view, View):
            raise TypeError(view)
        scheduler.wake(view)
        works = scheduler.choose(arrived.now)
        if not works and not in_flight:
            continue
        _announce_first(scheduler, works, arrived.now)
        thought = yield Think(tuple(works), scheduler.think_seconds(works))
        now = thought if isinstance(thought, float) else arrived.now
        transactions = scheduler.decide(works, view, now)
        if transactions or in_flight:
            committed = yield Commit(tuple(transactions))
            if not isinstance(committed, Committed):
                raise TypeError(committed)
            for transaction, outcome in committed.results:
                scheduler.settle(transaction, outcome, committed.now)
            in_flight = committed.in_flight
        if scheduler.gone or scheduler.give_up:
            gone, given_up = tuple(scheduler.gone), tuple(scheduler.give_up)
            scheduler.gone, scheduler.give_up = [], []
            yield Reread(gone, given_up)


def _take_in(scheduler: Scheduler, arrived: Arrived) -> None:
    if arrived.renewed:
        # What was in flight is tried again with its counts; a job that is placed after all is read anew then.
        for work in scheduler.working.values():
            scheduler.ordering.add(work)
        scheduler.working.clear()
    if arrived.owned is not None:
        buckets = arrived.owned
        scheduler.disown(lambda job_id: buckets[bucket_of(job_id)] == "1")
    scheduler.admit(arrived.jobs)


def _announce_first(scheduler: Scheduler, works: Sequence[Work], now: float) -> None:
    for work in works:
        fresh = all(group.unplaced == group.total for group in work.job.groups)
        if work.attempts == 0 and fresh:
            waited = max(0.0, now - work.job.submitted_ms / 1000)
            for instrument in scheduler.instruments:
                instrument.began(work, now, waited)
