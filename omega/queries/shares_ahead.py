"""Fair shares as the next epoch would have them if jobs were submitted: for dry runs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omega.cellstate.pools import Epoch, Pools
    from omega.cellstate.ports import Queries
    from omega.cellstate.snapshot import Snapshot
    from omega.schedulers.work import Work

LAST = 1 << 40
"""The submission number of a job that is not submitted: behind all others of a FIFO pool."""


def shares_with(cell: "Queries", pools: "Pools", snapshot: "Snapshot", works: "Sequence[Work]") -> "Epoch":
    """Compute the epoch that would follow the last one if these jobs were submitted at its time."""
    from omega.cellstate.demands import JobDemand
    from omega.schedulers.epochs import epoch_of
    from omega.schedulers.pool_machines import fetch_attributes, totals_of

    previous, (_, jobs) = cell.epoch(), cell.demands(snapshot.position)
    fetch_attributes(pools, snapshot, cell)
    if unknown := snapshot.lanes.unknown():
        snapshot.lanes.learn(cell.lanes(unknown))
    for number, work in enumerate(works):
        groups = tuple((work.need(group), status.total, 0) for group, status in enumerate(work.job.groups))
        jobs.append(
            JobDemand(
                work.id,
                work.pool,
                work.user,
                work.job.precedence,
                LAST + number,
                gang=bool(work.gang),
                waits=False,
                groups=groups,
            )
        )
    return epoch_of(
        pools,
        jobs,
        totals_of(pools, snapshot, cell.dimensions.names),
        cell.dimensions.names,
        previous,
        at_ms=0 if previous is None else previous.at_ms,
    )
