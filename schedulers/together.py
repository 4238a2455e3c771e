"""Jobs that are taken in and decided together, which costs a fraction of doing so one by one, with the same result."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from omega.cellstate.cell import PendingJob, jobs_of
from omega.cellstate.model import MOST_CLAIMS, JobState
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Mode, Transaction
from omega.schedulers.work import Work

if TYPE_CHECKING:
    from omega.schedulers.scheduler import Scheduler

CALL_CLAIMS = 2_000
"""Claims after which a call to the store takes no further job: about 30 ms of the server's time."""
_ACTIVE, _GANG = JobState.ACTIVE, Mode.GANG  # read once: each access is as slow as a call
_new = tuple.__new__
"""Makes the transactions: a call of the class would take a third of a microsecond longer."""


def admit_together(scheduler: "Scheduler", arrivals: Sequence[PendingJob]) -> bool:
    """Queue jobs of which none is known yet; return whether that was possible."""
    if len(arrivals) < 2 or scheduler.sizing is not None or scheduler.queue.has_blocked:
        return False
    jobs, ready = [job for job in jobs_of(arrivals) if job.state is _ACTIVE], scheduler.queue.ready
    ids = {job.id for job in jobs}
    if not (len(ids) == len(jobs) and ids.isdisjoint(scheduler.working) and ids.isdisjoint(ready.works)):
        return False
    ready.add_all([work for work in Work.of_all(jobs) if any(work.left)])
    return True


def decide_together(
    scheduler: "Scheduler", works: Sequence[Work], snapshot: Snapshot
) -> tuple[list[Transaction], int, Work | None]:
    """Place the first jobs in one call, where the placement can do that.

    Return their transactions, how many claims are left to the call, and the job that fitted nowhere, if one did.
    """
    places_all = scheduler.places_all
    if places_all is None or len(works) < 2 or scheduler.queue.blocked.groups:
        return [], CALL_CLAIMS, None
    placed, size = places_all.place_all(works, snapshot, scheduler.rng, CALL_CLAIMS)
    unfit = works[len(placed) - 1] if placed and not len(placed[-1]) else None
    mode, detection = scheduler.mode, scheduler.detection
    simple = not (detection or scheduler.counts_use or size > MOST_CLAIMS)
    transactions: list[Transaction] = []
    for work, claims in zip(works, placed, strict=False):
        if work is unfit:
            break
        work.attempts += 1
        if simple:
            job = work.job
            transactions.append(_new(Transaction, (job.id, claims, _GANG if job.gang else mode, detection, None)))
        else:
            transactions.append(scheduler.transaction(work, claims, snapshot, len(claims)))
    return transactions, CALL_CLAIMS - size, unfit
