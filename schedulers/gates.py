"""The gate of a scheduler: a callable that holds jobs, each for a reason, until it answers otherwise.

The gate is asked before each attempt of a job, and for held jobs again every `AGAIN_SECONDS`. The store holds the job
with the reason (``lua/hold.lua``), so that it stays held when the scheduler ends: the schedulers of the kind that take
over ask their gate. A job that a person released is not asked about again.
"""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple, Protocol

from omega.cellstate.cell import Cell
from omega.cellstate.errors import BadInput, Refused
from omega.cellstate.fairness import leaf_of
from omega.cellstate.model import Job, JobState
from omega.cellstate.plain_text import plain_reason
from omega.schedulers.failing import FailingJobs, policy_error
from omega.schedulers.foreign_errors import RAISED
from omega.schedulers.instruments import Instrument
from omega.schedulers.process.beat import JOB, NONE
from omega.schedulers.queue.queue import Queue
from omega.schedulers.sharing import Keeps
from omega.schedulers.work import Work

AGAIN_SECONDS = 1.0
"""Time after which the gate is asked again about a held job."""
MOST_ASKED = 1_000
"""Maximum number of held jobs that the gate is asked about at a time; the others follow the next time."""


class Gate(Protocol):
    """Holds jobs that are not to be placed yet, for example while a budget is used up."""

    @abstractmethod
    def hold(self, work: Work, now: float) -> str | None:
        """Return why a job is not to be placed at a time (seconds), in one line; None or "" when it may be placed."""


class Hold(NamedTuple):
    """Jobs to be held with these reasons, and jobs to be released, which then arrive again."""

    reasons: dict[str, str]
    released: list[Work]


class Gated(Protocol):
    """A scheduler, as far as its gate concerns it."""

    gate: Gate | None
    held: "HeldJobs"
    working: dict[str, Work]
    queue: Queue
    instruments: list[Instrument]
    failing: FailingJobs | None


@dataclass(slots=True)
class HeldJobs:
    """The jobs that a scheduler's gate holds."""

    works: dict[str, tuple[Work, str]] = field(default_factory=dict)
    """Works and reasons by job, the longest not asked about first."""
    due: float = 0.0
    """When the gate is asked again (seconds)."""

    def learn(self, jobs: Iterable[Job]) -> None:
        """Take over jobs that the gate of another scheduler of the kind, or of an earlier life, holds."""
        for job in jobs:
            if job.gate and job.state is JobState.HELD:
                self.works[job.id] = Work.of(job), job.gate
            else:
                self.works.pop(job.id, None)

    def keep(self, keeps: Keeps) -> None:
        """Forget jobs that now belong to another scheduler."""
        self.works = {job_id: held for job_id, held in self.works.items() if keeps(job_id, leaf_of(*held[0].whose))}


def next_due(scheduler: Gated) -> float | None:
    """Return when the gate is asked again (seconds); None when it holds no job."""
    return scheduler.held.due if scheduler.held.works else None


def sift(scheduler: Gated, chosen: Sequence[Work], now: float) -> tuple[list[Work], Hold | None]:
    """Ask the gate about chosen jobs, and about held ones if that is due.

    Return those that may be attempted, and the changes of what is held.
    """
    hold, passed = _ask_again(scheduler, now), list[Work]()
    for work in chosen:
        scheduler.held.works.pop(work.id, None)
        reason = "" if work.job.released else _ask(scheduler, work, now, "")
        if not reason:
            passed.append(work)
            continue
        scheduler.working.pop(work.id, None)
        if work.requeued_by is not None:
            scheduler.queue.tried(work)
        if not scheduler.held.works:
            scheduler.held.due = now + AGAIN_SECONDS
        scheduler.held.works[work.id] = work, reason
        hold.reasons[work.id] = reason
    return passed, hold if hold.reasons or hold.released else None


def _ask_again(scheduler: Gated, now: float) -> Hold:
    hold, held = Hold({}, []), scheduler.held
    if held.works and now >= held.due:
        held.due = now + AGAIN_SECONDS
        for job_id, (work, before) in list(islice(held.works.items(), MOST_ASKED)):
            del held.works[job_id]
            if reason := _ask(scheduler, work, now, before):
                held.works[job_id] = work, reason  # behind the others
                hold.reasons.update({job_id: reason} if reason != before else {})
            else:
                hold.released.append(work)
    return hold


def _ask(scheduler: Gated, work: Work, now: float, before: str) -> str:
    """Return the gate's reason; that of a gate which raises is its error, live, where each new one is logged."""
    gate, beat = scheduler.gate, None if scheduler.failing is None else scheduler.failing.beat
    text, until = ("", 0.0) if scheduler.failing is None else scheduler.failing.hung.get(work.id, ("", 0.0))
    if now < until:
        return plain_reason(f"its gate fails: {text}")
    if beat is not None:
        beat.single(work.id)
    try:
        answer: object = None if gate is None else gate.hold(work, now)
        if answer is not None and not isinstance(answer, str):
            name, got = type(gate).__name__, type(answer).__name__
            raise BadInput(f"gate {name}: hold returned a {got}; return the reason as text, None to let the job pass")
    except RAISED as error:
        if scheduler.failing is None:
            raise
        text = str(policy_error(error, gate))
        reason = plain_reason(f"its gate fails: {text}")
        if reason != before:
            for instrument in scheduler.instruments:
                instrument.raised(work, text, now)
        return reason
    finally:
        if beat is not None:
            beat.words[JOB] = NONE
    return plain_reason(answer or "")


def hold(effect: Hold, cell: Cell, held: HeldJobs, at_ms: int, by: str) -> None:
    """Hold and release jobs in the store; forget those that ended, or that a person released."""
    for job_id, reason in [*effect.reasons.items(), *((work.id, "") for work in effect.released)]:
        try:
            stands = cell.jobs.gate(job_id, reason, at_ms, by).gate == reason
        except Refused:
            stands = False
        if not stands:
            held.works.pop(job_id, None)
