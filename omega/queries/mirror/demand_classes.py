"""What live jobs hold and want, one demand for all jobs that are equal: the input of the shares of pools."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from omega.cellstate.job_demands import JobDemand
from omega.cellstate.lanes import lane_of
from omega.cellstate.model import Job, JobState
from omega.queries.mirror.codes import ABSENT
from omega.queries.mirror.counted import Counted

if TYPE_CHECKING:
    from omega.cellstate.pools import Pools
    from omega.queries.mirror.job_table import JobTable


class DemandClasses:
    """The demands of the jobs of a table; its column ``demand`` has their numbers."""

    def __init__(self, table: "JobTable") -> None:
        self._table = table
        self._counted = Counted[JobDemand]()

    def __len__(self) -> int:
        return len(self._counted)

    def enter(self, job: Job) -> int:
        """Count a job; return the number of its class, `ABSENT` for one that neither holds nor wants anything."""
        demand = demand_of(job)
        if demand is None:
            return ABSENT
        alone = demand.gang or demand.least or len(demand.groups) > 1
        said = repr((job.spec.get("weight"), job.spec.get("groups"))) if job.spec else ""
        key = job.id if alone else "", demand.lane, demand.gang, demand.waits, demand.groups, demand.commands
        return self._counted.enter((*key, demand.optional, demand.least, said), lambda: demand)

    def leave(self, number: int) -> None:
        """Count a job of a class no more."""
        if number != ABSENT:
            self._counted.leave(number)

    def all(self, pools: "Pools") -> list[JobDemand]:
        """Return the demands in order of submission; each stands for `count` jobs, the oldest of which it names."""
        classes, orders = self._table.column("demand"), self._table.column("order")
        rows = np.flatnonzero(classes != ABSENT)
        rows = rows[np.argsort(orders[rows], kind="stable")]
        numbers, first, counts = np.unique(classes[rows], return_index=True, return_counts=True)
        found = list[JobDemand]()
        for number, at, count in zip(numbers.tolist(), first.tolist(), counts.tolist(), strict=True):
            demand = self._counted.value(number)
            if count > 1 and _fifo(pools, demand):
                found += self._each(demand, rows[classes[rows] == number].tolist())
            else:
                found += self._each(demand, [int(rows[at])], count)
        return sorted(found, key=lambda each: each.order)

    def _each(self, demand: JobDemand, rows: list[int], count: int = 1) -> Iterator[JobDemand]:
        table = self._table
        return (demand._replace(id=table.row_ids[row], order=table.value("order", row), alike=count) for row in rows)


def _fifo(pools: "Pools", demand: JobDemand) -> bool:
    """Return whether the jobs of a pool are served in their order, so that equal ones have different shares."""
    pool = pools.by_name.get(pools.pool_of(demand.lane.pool, demand.lane.user))
    return pool is not None and pool.fifo


def demand_of(job: Job) -> JobDemand | None:
    """Return the use and demand of a live job, as the store reads it of a record (cellstate/redis/pools.py)."""
    waits = job.state is not JobState.ACTIVE
    groups = tuple((group.need, 0 if group.copies else group.unplaced, group.placed) for group in job.groups)
    if not any(placed or (unplaced and not waits) for _, unplaced, placed in groups):
        return None
    optional = tuple(at for at, group in enumerate(job.groups) if group.optional)
    return JobDemand(
        job.id, lane_of(job.kind, job.precedence, job.spec), job.order, job.gang > 0 and not job.gang_min,
        waits, groups, job.commands, job.spec, optional,
        least=job.gang_min,
    )  # fmt: skip
