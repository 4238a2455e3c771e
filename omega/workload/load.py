"""How much a workload asks of its cell: offered load over time, and the peak if all were placed at once."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
