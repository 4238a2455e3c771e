"""When a job with unplaced tasks is tried again after its transaction, and when it is given up."""

from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from omega.cellstate.transaction import CONFLICTS, Outcome, Verdict
from omega.schedulers.retry_policy import RetryPolicy
from omega.schedulers.work import Work

if TYPE_CHECKING:
    from omega.schedulers.scheduler import Scheduler

_STALE = frozenset({Verdict.UNKNOWN, Verdict.DUPLICATE, Verdict.INCOMPLETE})
"""Verdicts of a job that changed in the store: it is read again."""


def resume(scheduler: "Scheduler", work: Work, verdicts: AbstractSet[Verdict], outcome: Outcome, now: float) -> None:
    """Decide what happens next with a job that has unplaced tasks, by the verdicts of its claims."""
    if verdicts & _STALE:
        scheduler.outbox.gone.append(work.id)
    elif scheduler.retry_policy is not None:
        work.conflicts += not verdicts.isdisjoint(CONFLICTS)
        persist(scheduler, work, scheduler.retry_policy, now)
    elif verdicts & CONFLICTS:
        _retry(scheduler, work, outcome, now)
    elif Verdict.LIMIT in verdicts:
        scheduler.queue.limit(work)
        for instrument in scheduler.instruments:
            instrument.blocked(work, now)
    elif Verdict.PRECEDENCE in verdicts or Verdict.SHARE in verdicts:
        work.fruitless += 1
        work.not_before = now + min(1.0, 0.05 * work.fruitless)
        scheduler.queue.ready.add(work)
    elif Verdict.DOWN in verdicts and not outcome.placed:
        # The next sync shows that the machine is down: other machines are tried at once, the same one later.
        work.not_before = now + min(1.0, 0.05 * work.fruitless)
        work.fruitless += 1
        scheduler.queue.ready.add(work)
    else:
        scheduler.queue.ready.add(work)


def _retry(scheduler: "Scheduler", work: Work, outcome: Outcome, now: float) -> None:
    work.conflicts += 1
    if work.conflicts >= scheduler.retry_limit:
        _abandon(scheduler, work, now)
        return
    if outcome.placed:
        work.fruitless = 0
    else:
        work.fruitless += 1
        longest = min(1.0, scheduler.backoff * 2 ** min(work.fruitless, 12))
        work.not_before = now + longest * scheduler.rng.random()
    scheduler.queue.ready.add(work)


def persist(scheduler: "Scheduler", work: Work, retry_policy: RetryPolicy, now: float) -> None:
    """Retry a job after a fixed time, or abandon it, by a retry policy."""
    if retry_policy.is_over(work):
        _abandon(scheduler, work, now)
    else:
        work.not_before = now + retry_policy.seconds
        scheduler.queue.ready.add(work)


def _abandon(scheduler: "Scheduler", work: Work, now: float) -> None:
    scheduler.outbox.given_up.append(work.id)
    for instrument in scheduler.instruments:
        instrument.abandoned(work, now)
