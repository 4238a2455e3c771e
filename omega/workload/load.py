"""How much a workload asks of its cell: offered load over time, and the peak if all were placed at once."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from omega.workload.workload import Arrival, Workload

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Demand:
    """Task groups as arrays: when they arrive, how long their tasks run (seconds), what all tasks want together."""

    at: Floats
    seconds: Floats
    amounts: Floats
    """A row a group, a column a dimension."""

    def offered(self, capacity: Floats) -> Floats:
        """Mean resource-seconds asked for per second of arrivals (at least 1 s), as shares of `capacity`."""
        if not len(self.at):
            return np.zeros(len(capacity))
        asked: Floats = self.seconds @ self.amounts
        return asked / max(float(self.at.max()), 1.0) / capacity

    def peak(self, capacity: Floats) -> Floats:
        """Return the most in use at one time, as shares of `capacity`, if every task started when it arrives."""
        if not len(self.at):
            return np.zeros(len(capacity))
        times = np.concatenate((self.at + self.seconds, self.at))
        # Stable, and ends stand before beginnings: what ends at an instant is free for what begins then.
        order = np.argsort(times, kind="stable")
        used = np.cumsum(np.concatenate((-self.amounts, self.amounts))[order], axis=0)
        return np.asarray(used.max(axis=0) / capacity)


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
