"""The time between warning (SIGTERM) and end of a task that is evicted while its job continues.

A pool may state it (`allocation_timeout`, docs/pool-rules.md); otherwise, and for tasks of stopped jobs, it is the
`grace` of the job. The evicting task holds the room already, and starts when the store has the end of the evicted one.
"""

from collections.abc import Iterable

from omega.cellstate.lanes import lane_of
from omega.cellstate.model import JobState
from omega.cellstate.ports import Queries
from omega.live.agent.kept import Kept


def give_notice(cell: Queries, leaving: Iterable[Kept]) -> None:
    """Write the time of tasks that are about to be warned, once for each task."""
    new = [kept for kept in leaving if not kept.warned]
    if not new:
        return
    pools = cell.pools()
    jobs = cell.jobs_by_id(sorted({kept.key.job for kept in new})) if pools.configured else {}
    for kept in new:
        job = jobs.get(kept.key.job)
        if job is not None and job.state in (JobState.ACTIVE, JobState.HELD):
            lane = lane_of(job.kind, job.precedence, job.spec)
            seconds = pools.preemption(pools.pool_of(lane.pool, lane.user)).allocation_timeout
            if seconds is not None:
                kept.allow(seconds)
        kept.warned = True
