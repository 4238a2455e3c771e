"""Policies that raise: the error in one line with its place, and the jobs that are tried again later because of it.

An error while a live scheduler places one job delays that job alone, longer after each error. Any other error ends the
scheduler. Simulations and dry runs end at the first error.

A policy that does not return for a job cannot be ended from within: another process kills this one and starts it again
with the job's id (omega/live/processes/watch.py), and the job is set aside.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from traceback import walk_tb
from typing import NamedTuple, Protocol

from omega.cellstate.errors import OmegaError
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Claim
from omega.schedulers.foreign_errors import RAISED, said
from omega.schedulers.instruments import Instrument
from omega.schedulers.placement.arranging import chooses_machines
from omega.schedulers.policies import Ordering, Placement, PlacesAll, Preemption, Sizing, with_wrapped
from omega.schedulers.process.beat import JOB, NONE, TOGETHER, Beat
from omega.schedulers.queue.queue import Queue
from omega.schedulers.work import Work

FIRST_DELAY, LONGEST_DELAY = 1.0, 60.0
"""Seconds after which a job is tried again: after the first error, and at most. Each further error doubles them."""
MOST_JOBS = 256
"""Maximum number of jobs that are reported, those with the latest errors."""


class HasPolicies(Protocol):
    """A scheduler with its policies."""

    @property
    def policies(self) -> tuple[Ordering, Placement, Preemption, Sizing | None]:
        """Its policies, one of each axis."""


class Fallible(HasPolicies, Protocol):
    """A scheduler, as far as errors of its policies concern it."""

    rng: Random
    queue: Queue
    working: dict[str, Work]
    instruments: list[Instrument]
    places_all: PlacesAll | None
    failing: "FailingJobs | None"


class PolicyError(OmegaError):
    """A policy raised. The text has the policy, its file and line, and the error."""


def policy_error(error: BaseException, *policies: object) -> OmegaError:
    """Return the error of one of these policies in one line: ``policy Last (/home/ada/mine.py:14): KeyError: 'gpu'``.

    The policy is the innermost one that was called, the line the innermost one in a file of the policies. An error
    outside of them has the file and line that raised it. An error of Omega is returned as it is.
    """
    if isinstance(error, OmegaError):
        return error
    kinds = {
        type(policy) for policy in with_wrapped(*policies)
    }  # a scheduler in use is a copy of the one that was given
    files = {getattr(sys.modules.get(kind.__module__), "__file__", None) for kind in kinds}
    name, place, last = "", "", ""
    for frame, line in walk_tb(error.__traceback__):
        file = frame.f_code.co_filename
        called = frame.f_locals.get("self")
        if type(called) in kinds:
            name = type(called).__name__
        last = f"{file}:{line}"
        if name and file in files:
            place = last
    where = f"policy {name} ({place or last})" if name else f"scheduler ({last})"
    return PolicyError(f"{where}: {said(error)}")


@contextmanager
def as_one_line(*schedulers: HasPolicies, errors: tuple[type[BaseException], ...] = (BaseException,)) -> Iterator[None]:
    """Raise `errors` of the block as errors of Omega in one line, with the policy of the schedulers that raised."""
    try:
        yield
    except errors as error:
        known = policy_error(error, *(policy for scheduler in schedulers for policy in scheduler.policies))
        if known is error:
            raise
        raise known from error


class _Failure(NamedTuple):
    work: Work
    attempts: int
    text: str
    until: float


class Hung(NamedTuple):
    """A job at which a policy did not return, and for how many seconds it is set aside."""

    text: str
    seconds: float


class FailingJobs:
    """Jobs of a live scheduler at which a policy raised or did not return.

    The loop writes them, the heartbeat reads them. `beat` is the memory of a process that is watched.
    """

    def __init__(self, beat: Beat | None = None) -> None:
        """Begin without any."""
        self._failures: dict[str, _Failure] = {}
        self.beat = beat
        self.hung: dict[str, tuple[str, float]] = {}
        """Jobs at which a policy did not return: text, and the time (seconds) until which each is set aside."""
        self.alone_until = 0.0
        """Time (seconds) until which jobs are placed one after another."""

    def begun(self, works: Sequence[Work]) -> Beat | None:
        """State the jobs that are decided next; return where the place of the present one is written."""
        if self.beat is not None:
            self.beat.round([work.job.id for work in works])
        return self.beat

    def learn(self, hung: Mapping[str, Hung], now: float) -> None:
        """Take over jobs at which a policy did not return, in the process before this or in another of the kind."""
        for job_id, (text, seconds) in hung.items():
            if now + seconds > self.hung.get(job_id, ("", 0.0))[1]:
                self.hung[job_id] = text, now + seconds

    def set_aside_until(self, now: float) -> dict[str, tuple[str, int]]:
        """Return the jobs that are set aside because a policy did not return: text, and for how long (ms)."""
        return {job: (text, int(1000 * (until - now))) for job, (text, until) in list(self.hung.items()) if until > now}

    def delay(self, work: Work, text: str, now: float) -> float:
        """Record an error of a job's present attempt; return the time (seconds) of the next attempt."""
        count, attempts = work.notes.get("raised", (0, 0))
        count = count + 1 if work.attempts == attempts + 1 else 1
        work.notes["raised"] = count, work.attempts
        until: float = now + min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** min(count - 1, 16))
        self.show(work, text, until)
        return until

    def show(self, work: Work, text: str, until: float) -> None:
        """Report a job's error until its next attempt."""
        self._failures.pop(work.id, None)
        self._failures[work.id] = _Failure(work, work.attempts, text, until)
        if len(self._failures) > MOST_JOBS:
            del self._failures[next(iter(self._failures))]

    def by_text(self, scheduler: Fallible) -> dict[str, dict[str, int]]:
        """Return the jobs whose last attempt raised, by error, with the time of the next attempt (ms since 1970)."""
        found: dict[str, dict[str, int]] = {}
        ready, working = scheduler.queue.ready.works, scheduler.working
        for job_id, (work, attempts, text, until) in list(self._failures.items()):
            if work.attempts == attempts and (ready.get(job_id) is work or job_id in working):
                found.setdefault(text, {})[job_id] = int(until * 1000)
        return found


def set_aside(scheduler: Fallible, work: Work, error: BaseException, now: float) -> None:
    """Delay a job at which a policy raised; raise the error in simulations and dry runs."""
    if scheduler.failing is None:
        raise error
    text = str(policy_error(error, *scheduler.policies))
    scheduler.working.pop(work.id, None)
    scheduler.queue.tried(work)
    work.not_before = scheduler.failing.delay(work, text, now)
    scheduler.queue.ready.add(work)
    for instrument in scheduler.instruments:
        instrument.raised(work, text, now)


def without_hung(scheduler: Fallible, failing: FailingJobs, works: Sequence[Work], now: float) -> list[Work]:
    """Return the jobs without those that are set aside because a policy did not return for them; these wait."""
    chosen = list[Work]()
    for work in works:
        text, until = failing.hung.get(work.id, ("", 0.0))
        if until <= now:
            chosen.append(work)
            continue
        scheduler.working.pop(work.id, None)
        scheduler.queue.tried(work)
        work.not_before = until
        failing.show(work, text, until)
        scheduler.queue.ready.add(work)
        for instrument in scheduler.instruments:
            instrument.raised(work, text, now)
    return chosen


def place_together(
    scheduler: Fallible, works: Sequence[Work], snapshot: Snapshot, most: int
) -> Sequence[Sequence[Claim]]:
    """Return the claims of the first jobs, placed in one call where the placement can do that; about `most` claims.

    A job whose tasks may not go to every machine, after failures or as copies, ends the call.
    None after an error of a live scheduler's policy: one after another, only the job that it raises at is delayed.
    """
    if scheduler.places_all is None or len(works) < 2 or scheduler.queue.blocked.groups:
        return ()
    first, failing = 0, scheduler.failing
    hung = () if failing is None else failing.hung
    if failing is not None and snapshot.now < failing.alone_until:
        return ()
    for work in works:
        groups = work.job.groups
        if work.id in hung:
            break
        if (len(groups) > 1 or groups[0].losses) and chooses_machines(work, snapshot.size):
            break
        first += 1
    if not first:
        return ()
    mark, beat = snapshot.mark(), None if failing is None else failing.beat
    if beat is not None:
        beat.words[JOB] = TOGETHER
    try:
        return scheduler.places_all.place_all(works[:first], snapshot, scheduler.rng, most)[0]
    except RAISED:
        if failing is None:
            raise
        snapshot.undo(mark)
        return ()
    finally:
        if beat is not None:
            beat.words[JOB] = NONE
