"""The load of a whole workload."""

from collections.abc import Iterable

import numpy as np

from omega.workload import Arrival, Workload
from omega.workload.synthetic import Demand


def demand(arrivals: Iterable[Arrival], dimensions: int = 2) -> Demand:
    """Return the demand of these jobs."""
    rows = [
        (arrival.at_seconds, group.duration_ms / 1000, [need * group.count for need in group.need])
        for arrival in arrivals
        for group in arrival.job.groups
    ]
    return Demand(
        np.array([row[0] for row in rows], dtype=float),
        np.array([row[1] for row in rows], dtype=float),
        np.array([row[2] for row in rows], dtype=float).reshape(len(rows), dimensions),
    )


def offered_load(workload: Workload) -> tuple[float, ...]:
    """Mean resource-seconds that arrivals ask for per second, as a share of the cell, by dimension.

    Above 1 the cell cannot keep up. Residents are not counted.
    """
    capacity = np.array(workload.capacity, dtype=float)
    return tuple(demand(workload.arrivals, len(capacity)).offered(capacity).tolist())


def peak_load(workload: Workload) -> tuple[float, ...]:
    """Return the most residents and arrivals would use at one time if placed as they come, by dimension."""
    capacity = np.array(workload.capacity, dtype=float)
    return tuple(demand((*workload.residents, *workload.arrivals), len(capacity)).peak(capacity).tolist())
