"""Jobs, private copies and outcomes in a line each, and a few lines that answer the attempt loop from scripts."""

from collections.abc import Callable, Sequence
from copy import copy as copied
from typing import Any

import numpy as np

from omega.cellstate.array_snapshot import ArraySnapshot
from omega.cellstate.model import Gang, GroupStatus, Job, JobState, MachineState
from omega.cellstate.replies import PendingJob, Reply
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Outcome, Position, Transaction, Verdict
from omega.schedulers.constraints.fetching import Fetch
from omega.schedulers.gates import Hold
from omega.schedulers.instruments import Instrument
from omega.schedulers.loop import (
    Answer,
    Arrived,
    Commit,
    Committed,
    Effect,
    Note,
    Receive,
    Reread,
    Sync,
    Think,
    attempts,
)
from omega.schedulers.resizing import Measure, Measurements, Resize, Resized
from omega.schedulers.scheduler import Scheduler
from omega.schedulers.work import Work

Group = tuple[tuple[int, ...], int]
"""(amounts per task, tasks)"""


def group(need: tuple[int, ...], total: int, unplaced: int | None = None) -> GroupStatus:
    left = total if unplaced is None else unplaced
    waiting = f"0-{left - 1}" if left else "-"
    return GroupStatus(need=need, total=total, unplaced=left, placed=total - left, waiting=waiting)


def job(
    job_id: str, *groups: GroupStatus, order: int = 0, gang: Gang = Gang.NO, submitted_ms: int = 0,
    state: JobState = JobState.ACTIVE, spec: dict[str, Any] | None = None, precedence: int = 0,
) -> Job:  # fmt: skip
    """A job as the store has it; one task of (1, 1) when no groups are given."""
    found = list(groups) or [group((1, 1), 1)]
    return Job(
        id=job_id,
        name=job_id,
        kind="batch",
        precedence=precedence,
        order=order,
        state=state,
        gang=gang,
        submitted_ms=submitted_ms,
        groups=found,
        spec=spec or {},
    )


def work(job_id: str, *groups: GroupStatus, **more: Any) -> Work:
    return Work.of(job(job_id, *groups, **more))


def pending(*jobs: Job) -> list[PendingJob]:
    return [PendingJob(arrival, job) for arrival, job in enumerate(jobs, 1)]


def rows(free: Sequence[tuple[int, ...]], start: int = 0, state: int = MachineState.UP) -> np.ndarray[Any, Any]:
    """Records of machines with so much free and nothing used."""
    records = [(start + i, 1, state, 0, *amounts, *(0 for _ in amounts)) for i, amounts in enumerate(free)]
    return np.array(records, dtype=np.int64)


def copy(*free: tuple[int, ...]) -> ArraySnapshot:
    """A working copy of so many machines, with nothing freed since."""
    snapshot = ArraySnapshot(len(free[0]))
    snapshot.apply(Reply(Position(1, "t"), full=True, rows=rows(free)))
    snapshot.freed()
    return snapshot


def room(snapshot: Snapshot) -> list[tuple[int, ...]]:
    """The working amounts, machine by machine."""
    return [tuple(int(amounts[machine]) for amounts in snapshot.room) for machine in range(snapshot.size)]


def say(snapshot: Snapshot, machine: int, *free: int) -> None:
    """Set the free amounts of a machine, as by a reply of the store."""
    snapshot.apply(Reply(Position(snapshot.position.version + 1, "t"), full=False, rows=rows([free], machine)))


def outcome(*claims: tuple[int, Verdict]) -> Outcome:
    return Outcome(claims)


def validated(transaction: Transaction, verdict: Verdict = Verdict.PLACED) -> Outcome:
    """Every claim of a transaction validated alike: all of it placed, or nothing."""
    placed = verdict is Verdict.PLACED
    return Outcome(tuple((claim.count if placed else 0, verdict) for claim in transaction.claims))


class Heard(Instrument):
    """Records the announcements of the loop."""

    def __init__(self) -> None:
        self.said: list[tuple[Any, ...]] = []

    def began(self, work: Work, now: float, waited: float) -> None:
        self.said.append(("began", work.id, now, waited))

    def committed(self, transaction: Transaction, outcome: Outcome, now: float) -> None:
        self.said.append(("committed", transaction.job, outcome.placed, now))

    def placed(self, work: Work, now: float) -> None:
        self.said.append(("placed", work.id, now))

    def raised(self, work: Work, error: str, now: float) -> None:
        self.said.append(("raised", work.id, error, now))

    def blocked(self, work: Work, now: float) -> None:
        self.said.append(("blocked", work.id, now))

    def abandoned(self, work: Work, now: float) -> None:
        self.said.append(("abandoned", work.id, now))

    def of(self, word: str) -> list[tuple[Any, ...]]:
        return [said[1:] for said in self.said if said[0] == word]


class Driver:
    """Answers effects: time goes on to a back-off's end, claims are validated by `validate` and land at once.

    With `in_flight` a commit lands only with the next one, as in the live process.
    """

    def __init__(
        self, scheduler: Scheduler, snapshot: ArraySnapshot, *, validate: Callable[[Transaction], Outcome] = validated,
        in_flight: bool = False,
    ) -> None:  # fmt: skip
        self.scheduler, self.snapshot, self.validate, self.in_flight = scheduler, snapshot, validate, in_flight
        self.now = 100.0
        self.measured = Measurements((), ())
        self.arrivals: list[Arrived] = []
        self.effects: list[Effect] = []
        self.flight: tuple[Transaction, ...] = ()
        self.loop = attempts(scheduler)
        self.effect: Effect = next(self.loop)

    def arrive(self, *jobs: Job, **more: Any) -> "Driver":
        """Set the answer to the next Receive."""
        self.arrivals.append(Arrived(self.now, pending(*jobs), **more))
        return self

    def step(self) -> Effect:
        """Answer one effect; returns it."""
        effect = copied(self.effect)  # the loop uses it again
        self.effects.append(effect)
        self.effect = self.loop.send(self.answer(effect))
        return effect

    def answer(self, effect: Effect) -> Answer:
        match effect:
            case Hold():
                return None
            case Receive():
                if self.arrivals:
                    return self.arrivals.pop(0)
                self.now = max(self.now, effect.until or 0.0)
                return Arrived(self.now)
            case Sync():
                return self.snapshot
            case Think():
                self.now += effect.seconds
                return self.now
            case Commit():
                return self.commit(effect)
            case Fetch() | Reread() | Note():
                return None
            case Measure():
                return self.measured
            case Resize():
                return Resized(())

    def commit(self, effect: Commit) -> Committed:
        if effect.transactions:
            self.snapshot.launch()
        lands = self.flight if self.in_flight else tuple(effect.transactions)
        results = [(transaction, self.validate(transaction)) for transaction in lands]
        if lands:
            self.snapshot.land(Reply(self.snapshot.position, full=False, rows=rows([])))
        self.flight = tuple(effect.transactions) if self.in_flight else ()
        return Committed(self.now, results, bool(self.flight))

    def until(self, *kinds: type, most: int = 10_000) -> Effect:
        """Answer effects until one of these kinds is asked for; returns it, not answered yet."""
        for _ in range(most):
            if isinstance(self.effect, kinds):
                return self.effect
            self.step()
        raise AssertionError(f"none of {kinds} among {most} effects")

    def idle(self, most: int = 10_000) -> "Driver":
        """Answer until the loop waits with nothing queued."""
        for _ in range(most):
            if self.effect == Receive(None) and not self.arrivals:
                return self
            self.step()
        raise AssertionError(f"still busy after {most} effects")

    def kinds(self) -> list[str]:
        return [type(effect).__name__ for effect in self.effects]
