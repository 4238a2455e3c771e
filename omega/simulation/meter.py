"""Daily figures of one scheduler (Omega §4) before they are summarized."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from omega.cellstate.override import override
from omega.cellstate.transaction import Outcome, Transaction
from omega.schedulers.instruments import Instrument
from omega.schedulers.work import Work

DAY = 86_400.0


@dataclass(slots=True, kw_only=True)
class Day:
    """Seconds of decision time that led to a transaction without a conflict (`useful`), to one with a conflict
    (`wasted`) and to none (`fruitless`); of all these, those of first attempts (`first`); and
    transactions without and with a conflict.
    """

    useful: float = 0.0
    wasted: float = 0.0
    fruitless: float = 0.0
    first: float = 0.0
    accepted: int = 0
    conflicts: int = 0

    def book(self, seconds: float, first: float, wasted: float | None) -> None:
        """Add decision time; `first` and `wasted` are shares of it, None when it was fruitless."""
        self.first += seconds * first
        if wasted is None:
            self.fruitless += seconds
        elif wasted:
            self.wasted += seconds * wasted
            self.useful += seconds * (1.0 - wasted)
        else:
            self.useful += seconds


@dataclass(slots=True)
class Meter(Instrument):
    """Counts for one scheduler; times are seconds.

    With `completed` only attempts that ended within the run count, whole, on the day they ended,
    a job's wait counts once its first attempt is over, and fruitless time is not attributed: as in the authors'
    simulator. Without it time is split at midnight and a wait counts from the attempt's beginning.
    """

    completed: bool = False
    days: dict[int, Day] = field(default_factory=lambda: defaultdict(Day))
    waits: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    scheduled: Counter[str] = field(default_factory=Counter)
    given_up: Counter[str] = field(default_factory=Counter)
    tasks: Counter[str] = field(default_factory=Counter)
    attempts: int = 0
    no_fits: int = 0
    _day: Day = field(default_factory=Day)
    _begins: float = 0.0
    _ends: float = 0.0

    @override
    def began_all(self, works: Sequence[Work], now: float) -> None:
        if not self.completed:
            Instrument.began_all(self, works, now)

    @override
    def began(self, work: Work, now: float, waited: float) -> None:
        if not self.completed:
            self.waits[work.job.kind].append(waited)

    @override
    def attempted(
        self, works: Sequence[Work], began: float, now: float, results: Sequence[tuple[Transaction, Outcome]]
    ) -> None:
        self.attempts += 1
        if now >= self._ends:
            self._turn(now)
        if len(results) == 1 == len(works) and (self.completed or began >= self._begins):
            outcome = results[0][1]
            if outcome.accepted:  # most attempts
                work, day, seconds = works[0], self._day, now - began
                kind = work.job.kind
                self.tasks[kind] += outcome.placed
                day.accepted += 1
                day.useful += seconds
                if work.attempts == 1:
                    day.first += seconds
                    if self.completed:
                        self.waits[kind].append(began - work.submitted)
                return
        first, day = 0, self._day
        for work in works:
            if work.attempts == 1:
                first += 1
                if self.completed:
                    self.waits[work.job.kind].append(began - work.submitted)
        if not results:
            self.no_fits += 1
            self._spend(began, now, first=first / len(works), wasted=None)
            return
        conflicts = unfair = 0
        for transaction, outcome in results:
            if not outcome.accepted:
                conflicts += outcome.conflicted
                unfair += outcome.unfair
            kind = works[0].job.kind if len(works) == 1 else _kind(works, transaction.job)
            self.tasks[kind] += outcome.placed
        day.accepted += len(results) - conflicts - unfair
        day.conflicts += conflicts
        self._spend(began, now, first=first / len(works), wasted=conflicts / len(results))

    @override
    def unfinished(self, works: Sequence[Work], began: float, now: float) -> None:
        if not self.completed:
            if now >= self._ends:
                self._turn(now)
            first = sum(not work.attempts for work in works) / len(works)
            self._spend(began, now, first=first, wasted=0.0)

    def _turn(self, now: float) -> None:
        """Start a new day."""
        number = int(now / DAY)
        self._day, self._begins, self._ends = self.days[number], number * DAY, (number + 1) * DAY

    def _spend(self, began: float, now: float, *, first: float, wasted: float | None) -> None:
        """Add decision time that ended today; `first` and `wasted` are shares of it, None when fruitless."""
        if self.completed:
            if wasted is None:
                return
        elif began < self._begins:
            day = int(began / DAY)
            while day * DAY < self._begins:
                until = (day + 1) * DAY
                self.days[day].book(until - began, first, wasted)
                began, day = until, day + 1
        self._day.book(now - began, first, wasted)

    def committed_all(self, results: Sequence[tuple[Transaction, Outcome]], now: float) -> None:
        """Do nothing: `attempted` counts them."""

    @override
    def placed(self, work: Work, now: float) -> None:
        self.scheduled[work.job.kind] += 1

    @override
    def placed_all(self, works: Sequence[Work], now: float) -> None:
        for work in works:
            self.scheduled[work.job.kind] += 1

    @override
    def abandoned(self, work: Work, now: float) -> None:
        self.given_up[work.job.kind] += 1


def _kind(works: Sequence[Work], job_id: str) -> str:
    return next(work.job.kind for work in works if work.id == job_id)
