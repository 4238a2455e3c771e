"""Instruments: listeners of the attempt loop that count events, the same in live and in simulated runs."""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from omega.cellstate.override import override
from omega.cellstate.transaction import CONFLICTS, Outcome, Transaction, machines_claimed
from omega.schedulers.work import Work

WAITS_KEPT = 100_000
MOST_REJECTING = 5
"""Maximum number of machines that are listed as rejecting claims."""


class Instrument:
    """Events of the attempt loop. Every method is optional; times are seconds of the loop's clock."""

    def began(self, work: Work, now: float, waited: float) -> None:
        """The first attempt of a job began, `waited` seconds after its submission."""

    def decided(self, seconds: float, now: float) -> None:
        """Deciding and committing took `seconds` (from sync to the start of the next attempt)."""

    def attempted(
        self, works: Sequence[Work], began: float, now: float, results: Sequence[tuple[Transaction, Outcome]]
    ) -> None:
        """An attempt at jobs that began at `began` ended; without results when nothing fitted.

        Only simulations call it, in time order of attempts, before the outcomes are processed.
        """

    def unfinished(self, works: Sequence[Work], began: float, now: float) -> None:
        """The run ended during an attempt at jobs that began at `began`. Only simulations call it."""

    def committed(self, transaction: Transaction, outcome: Outcome, now: float) -> None:
        """A transaction was validated."""

    def placed(self, work: Work, now: float) -> None:
        """Every task of a job is placed."""

    # The same for all jobs of a call

    def began_all(self, works: Sequence[Work], now: float) -> None:
        """The first attempts of some jobs began."""
        if type(self).began is not Instrument.began:
            for work in works:
                self.began(work, now, max(0.0, now - work.submitted))

    def committed_all(self, results: Sequence[tuple[Transaction, Outcome]], now: float) -> None:
        """Some transactions were validated."""
        if type(self).committed is not Instrument.committed:
            for transaction, outcome in results:
                self.committed(transaction, outcome, now)

    def placed_all(self, works: Sequence[Work], now: float) -> None:
        """Every task of some jobs is placed."""
        if type(self).placed is not Instrument.placed:
            for work in works:
                self.placed(work, now)

    def blocked(self, work: Work, now: float) -> None:
        """The unplaced tasks of a job fit nowhere; the job is blocked."""

    def abandoned(self, work: Work, now: float) -> None:
        """A job reached the limit of conflicted attempts."""

    # Only live schedulers

    def raised(self, work: Work, error: str, now: float) -> None:
        """A policy raised at a job, which is tried again later; `error` is one line (schedulers/failing.py)."""

    def received(self, seconds: float, jobs: int, now: float) -> None:
        """Receiving jobs took `seconds`, including the wait for some."""

    def synced(self, seconds: float, machines: int, now: float, *, full: bool) -> None:
        """The snapshot was synchronised: `machines` changed, or all were read (`full`)."""

    def thought(self, seconds: float, jobs: int, now: float) -> None:
        """Deciding on `jobs` took `seconds`."""

    def submitted(self, seconds: float, transactions: int, now: float) -> None:
        """The outcome of transactions arrived, `seconds` after they were sent."""

    def registered(self, incarnation: int, now: float) -> None:
        """The scheduler registered its name."""

    def deregistered(self, now: float) -> None:
        """The scheduler deregistered."""

    def fenced(self, now: float) -> None:
        """The scheduler's incarnation may no longer commit; it registers again."""

    def store_away(self, error: str, now: float) -> None:
        """The store is unavailable; the scheduler waits."""

    def store_back(self, seconds: float, now: float) -> None:
        """The store is available again, after `seconds`."""


def announce(instruments: Sequence[Instrument], works: Iterable[Work], now: float) -> None:
    """Report the first attempt of each job that has none yet."""
    first = []
    for work in works:
        if work.attempts or work.announced:
            continue
        job = work.job
        if job.begun:
            continue
        groups = job.groups
        if len(groups) == 1:
            whole = groups[0].unplaced == groups[0].total
        else:
            whole = all(group.unplaced == group.total for group in groups)
        if whole:
            work.announced = True
            first.append(work)
    if first:
        for instrument in instruments:
            instrument.began_all(first, now)


def report_blocked(instruments: Sequence[Instrument], works: Iterable[Work], now: float) -> None:
    """Report that jobs fit nowhere."""
    for work in works:
        for instrument in instruments:
            instrument.blocked(work, now)


BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of the histogram classes of durations, in seconds; the last class has no bound."""


@dataclass(slots=True)
class DurationHistogram:
    """Number of events, their total duration in seconds, and their number in each class of BOUNDS."""

    count: int = 0
    total: float = 0.0
    classes: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))

    def add(self, seconds: float) -> None:
        """Record one duration."""
        self.count += 1
        self.total += seconds
        self.classes[bisect_left(BOUNDS, seconds)] += 1

    def add_all(self, durations: Sequence[float]) -> None:
        """Record some durations."""
        least = bisect_left(BOUNDS, min(durations))
        if least == bisect_left(BOUNDS, max(durations)):
            self.count += len(durations)
            self.total = sum(durations, self.total)
            self.classes[least] += len(durations)
        else:
            for seconds in durations:
                self.add(seconds)

    def mean(self) -> float | None:
        """Mean in seconds, None when there were none."""
        return self.total / self.count if self.count else None


@dataclass(slots=True)
class Waits(DurationHistogram):
    """Waiting times in seconds, with the p90 of the last `WAITS_KEPT`."""

    last: "array[float]" = field(default_factory=lambda: array("d", bytes(8 * WAITS_KEPT)))
    """As long as it may become: growing copies, one per heartbeat, would fragment the memory of the process."""

    @override
    def add(self, seconds: float) -> None:
        self.last[self.count % WAITS_KEPT] = seconds
        DurationHistogram.add(self, seconds)

    @override
    def add_all(self, durations: Sequence[float]) -> None:
        start = self.count % WAITS_KEPT
        if start + len(durations) > WAITS_KEPT:
            for seconds in durations:
                self.add(seconds)
        else:
            self.last[start : start + len(durations)] = array("d", durations)
            DurationHistogram.add_all(self, durations)

    def p90(self) -> float:
        """The 90th percentile."""
        kept = min(self.count, WAITS_KEPT)
        return float(np.percentile(np.frombuffer(self.last, count=kept), 90)) if kept else 0.0


@dataclass(slots=True, kw_only=True)
class Figures(Instrument):
    """The figures of one scheduler as the Omega paper defines them (§4).

    `transactions` counts commits that claimed something; `conflicts` those with a claim rejected as moved
    or full, `accepted` those without; the conflict fraction is conflicts ÷ accepted. `unfair` counts those of which
    nothing was placed because of the shares of pools: they are in neither. Busy seconds are time spent deciding and
    committing.
    """

    since: float = 0.0
    jobs: int = 0
    finished_jobs: int = 0
    tasks: int = 0
    transactions: int = 0
    conflicts: int = 0
    unfair: int = 0
    times_blocked: int = 0
    abandoned_jobs: int = 0
    busy_seconds: float = 0.0
    rejections: dict[int, int] = field(default_factory=dict)
    in_a_row: dict[int, int] = field(default_factory=dict)
    """Rejections by machine since its last accepted claim: repeated ones indicate a fault, not contention."""
    last_cycle: tuple[float, float] = (0.0, 0.0)
    """When the last decision was committed, and its duration in seconds."""
    attempts: int = 0
    wait: Waits = field(default_factory=Waits)
    dequeue: DurationHistogram = field(default_factory=DurationHistogram)
    sync: DurationHistogram = field(default_factory=DurationHistogram)
    think: DurationHistogram = field(default_factory=DurationHistogram)
    submit: DurationHistogram = field(default_factory=DurationHistogram)
    resyncs: int = 0
    fencings: int = 0
    stalls: int = 0
    """Number of times the store was unavailable."""

    @override
    def began(self, work: Work, now: float, waited: float) -> None:
        self.jobs += 1
        self.wait.add(waited)

    @override
    def began_all(self, works: Sequence[Work], now: float) -> None:
        waits = [now - work.submitted for work in works]
        if min(waits) < 0:
            waits = [max(0.0, seconds) for seconds in waits]
        self.jobs += len(waits)
        self.wait.add_all(waits)

    @override
    def decided(self, seconds: float, now: float) -> None:
        self.busy_seconds += seconds
        self.last_cycle = now, seconds

    @override
    def committed(self, transaction: Transaction, outcome: Outcome, now: float) -> None:
        self.transactions += 1
        self.tasks += outcome.placed
        self.conflicts += outcome.conflicted
        if transaction.assertion is not None:
            self.unfair += outcome.unfair
        in_a_row = self.in_a_row
        if outcome.conflicted:
            self._reject(transaction, outcome)
        elif in_a_row:
            for claim, (placed, _) in zip(transaction.claims, outcome.claims, strict=True):
                if placed and claim.machine in in_a_row:
                    del in_a_row[claim.machine]

    @override
    def committed_all(self, results: Sequence[tuple[Transaction, Outcome]], now: float) -> None:
        tasks = accepted = 0
        in_a_row, apart = self.in_a_row, self.in_a_row.keys().isdisjoint
        for transaction, outcome in results:
            if not outcome.accepted or (in_a_row and not apart(machines_claimed(transaction[1]))):
                self.committed(transaction, outcome, now)
            else:
                accepted += 1
                tasks += outcome.placed
        self.transactions += accepted
        self.tasks += tasks

    def _reject(self, transaction: Transaction, outcome: Outcome) -> None:
        for claim, (placed, verdict) in zip(transaction.claims, outcome.claims, strict=True):
            if verdict in CONFLICTS:
                self.rejections[claim.machine] = self.rejections.get(claim.machine, 0) + 1
                self.in_a_row[claim.machine] = self.in_a_row.get(claim.machine, 0) + 1
            if placed:
                self.in_a_row.pop(claim.machine, None)

    @override
    def placed(self, work: Work, now: float) -> None:
        self.finished_jobs += 1

    @override
    def placed_all(self, works: Sequence[Work], now: float) -> None:
        self.finished_jobs += len(works)

    @override
    def blocked(self, work: Work, now: float) -> None:
        self.times_blocked += 1

    @override
    def abandoned(self, work: Work, now: float) -> None:
        self.abandoned_jobs += 1

    @override
    def received(self, seconds: float, jobs: int, now: float) -> None:
        self.dequeue.add(seconds)

    @override
    def synced(self, seconds: float, machines: int, now: float, *, full: bool) -> None:
        self.sync.add(seconds)
        self.resyncs += full

    @override
    def thought(self, seconds: float, jobs: int, now: float) -> None:
        self.attempts += jobs
        self.think.add(seconds)

    @override
    def submitted(self, seconds: float, transactions: int, now: float) -> None:
        self.submit.add(seconds)

    @override
    def fenced(self, now: float) -> None:
        self.fencings += 1

    @override
    def store_away(self, error: str, now: float) -> None:
        self.stalls += 1

    @property
    def accepted(self) -> int:
        """Transactions without a conflict, and not rejected because of the shares of pools."""
        return self.transactions - self.conflicts - self.unfair

    @property
    def conflict_fraction(self) -> float:
        """Conflicts ÷ accepted: 0 none, 3 means four attempts on average."""
        return self.conflicts / self.accepted if self.accepted else float(self.conflicts)

    def as_dict(self, now: float, queued: int, blocked: int) -> dict[str, Any]:
        """Return the figures that a scheduler stores with its heartbeat."""
        lasted = max(now - self.since, 1e-9)
        worst = sorted(self.rejections, key=lambda machine: (-self.in_a_row.get(machine, 0), -self.rejections[machine]))
        last, took = self.last_cycle
        return {
            "attempts": self.attempts, "jobs": self.jobs, "jobs_placed": self.finished_jobs, "tasks": self.tasks,
            "transactions": self.transactions, "accepted": self.accepted, "conflicts": self.conflicts,
            "unfair": self.unfair,
            "conflict_fraction": self.conflict_fraction, "abandoned": self.abandoned_jobs,
            "wait_mean": self.wait.mean() or 0.0, "wait_p90": self.wait.p90(),
            "busyness": min(self.busy_seconds / lasted, 1.0), "busy_seconds": self.busy_seconds,
            "seconds": lasted, "queued": queued, "blocked": blocked,
            "last_cycle": took if last else None, "last_cycle_ago": max(0.0, now - last) if last else None,
            "think_seconds": self.think.total,
            "mean_seconds": {name: getattr(self, name).mean() for name in ("dequeue", "sync", "think", "submit")},
            "rejecting_machines": [
                [machine, self.rejections[machine], self.in_a_row.get(machine, 0)] for machine in worst[:MOST_REJECTING]
            ],
        }  # fmt: skip
