"""When a job with unplaced tasks is tried again after its transaction, and when it is given up."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Protocol

from omega.cellstate.transaction import CONFLICTS, Outcome, Verdict
from omega.schedulers.work import Work

_STALE = frozenset({Verdict.UNKNOWN, Verdict.DUPLICATE, Verdict.INCOMPLETE})
"""Verdicts of a job that changed in the store: it is read again."""

RETRY_LIMIT = 1_000
"""Conflicted attempts after which a job is abandoned (Omega §4)."""


LONGEST_BACKOFF, LONGEST_OF_SHARES = 1.0, 0.01
"""Longest back-off in seconds after a conflict: in general, and where room is due to jobs by their shares.

There a job that backs off loses its room to siblings above their shares, after 50 ms. A retry that finds none blocks
the job, so it does not collide again.
"""
_LATER = frozenset({Verdict.PRECEDENCE, Verdict.SHARE, Verdict.TREE})
"""Verdicts about something that the scheduler reads from time to time: residents, shares, pools."""


class Step(Enum):
    """The next step of a job with unplaced tasks."""

    RETRY = "retry"
    """It is queued; `not_before` is set."""
    REREAD = "reread"
    LIMIT = "limit"
    """It is blocked by a limit."""
    ABANDON = "abandon"


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Retry a job that is not completely placed `seconds` after its attempt, for any reason.

    For jobs that are never blocked: the rule of systems that do not requeue on freed room. A job is abandoned after
    `attempts` attempts, or after `fruitless` ones (None: no such limit) when none of its tasks was ever placed.
    """

    seconds: float = 0.0
    attempts: int = 1_000
    fruitless: int | None = None

    def next_step(self, work: Work, now: float) -> Step:
        """Return whether a job is retried, after a fixed time, or abandoned."""
        fruitless = self.fruitless is not None and not work.placed and work.attempts >= self.fruitless
        if fruitless or work.attempts >= self.attempts:
            return Step.ABANDON
        work.not_before = now + self.seconds
        return Step.RETRY


class _Ranks(Protocol):
    bounds: bool
    """Whether room is due to jobs by their shares."""


class _Queue(Protocol):
    @property
    def ranks(self) -> _Ranks: ...


class RetryRules(Protocol):
    """The settings of a scheduler that decide on retries."""

    retry_policy: RetryPolicy | None
    retry_limit: int
    backoff: float
    rng: Random

    @property
    def queue(self) -> _Queue:
        """The queue of its jobs."""


def next_step(rules: RetryRules, work: Work, verdicts: AbstractSet[Verdict], outcome: Outcome, now: float) -> Step:
    """Return the next step of a job with unplaced tasks, by the verdicts of its claims; count its conflicts."""
    if outcome.placed:
        work.fruitless = 0
    if verdicts & _STALE:
        return Step.REREAD
    if rules.retry_policy is not None:
        work.conflicts += not verdicts.isdisjoint(CONFLICTS)
        return rules.retry_policy.next_step(work, now)
    if verdicts & CONFLICTS:
        return _after_a_conflict(rules, work, outcome, now)
    if Verdict.LIMIT in verdicts:
        return Step.LIMIT
    if not verdicts.isdisjoint(_LATER):
        work.fruitless += 1
        work.not_before = now + min(1.0, 0.05 * work.fruitless)
    elif Verdict.DOWN in verdicts and not outcome.placed:
        # The next sync shows that the machine is down: other machines are tried at once, the same one later.
        work.not_before = now + min(1.0, 0.05 * work.fruitless)
        work.fruitless += 1
    return Step.RETRY


def _after_a_conflict(rules: RetryRules, work: Work, outcome: Outcome, now: float) -> Step:
    work.conflicts += 1
    if work.conflicts >= rules.retry_limit:
        return Step.ABANDON
    if not outcome.placed:
        work.fruitless += 1
        most = LONGEST_OF_SHARES if rules.queue.ranks.bounds else LONGEST_BACKOFF
        longest = min(most, rules.backoff * 2 ** min(work.fruitless, 12))
        work.not_before = now + longest * rules.rng.random()
    return Step.RETRY
