"""Amounts over time as step functions: sums of half-open intervals, their means and integrals."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from omega.workload.workload import Microseconds

Amounts = NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class Steps:
    """Vectors over time: `value[i]` from `at[i]` (µs) until the next instant, 0 before the first."""

    at: Microseconds
    value: Amounts

    def integral(self, instants: Microseconds) -> NDArray[np.float64]:
        """Return amount × microseconds from 0 to each of these instants (a row each)."""
        at = np.concatenate(([0], self.at))
        value = np.concatenate((np.zeros((1, self.value.shape[1])), self.value.astype(np.float64)))
        areas = np.concatenate((np.zeros((1, value.shape[1])), np.cumsum(value[:-1] * np.diff(at)[:, None], axis=0)))
        i = np.searchsorted(at, instants, "right") - 1
        return np.asarray(areas[i] + value[i] * (instants - at[i])[:, None], np.float64)

    def at_instants(self, instants: Microseconds) -> Amounts:
        """Return the vectors just after each of these instants."""
        i = np.searchsorted(self.at, instants, "right")
        return np.asarray(np.concatenate((np.zeros((1, self.value.shape[1]), np.int64), self.value))[i], np.int64)


def steps(at: Microseconds, change: Amounts) -> Steps:
    """Return the sum of changes at these instants, in any order.

    All changes of one instant are one step: what ends makes room for what starts then, and what starts and ends at
    the same instant is never in use.
    """
    instants, place = np.unique(at, return_inverse=True)
    sums = [
        np.bincount(place.reshape(-1), column.astype(np.float64), minlength=len(instants)) for column in change.T
    ]  # below 2^53, hence exact
    value = np.cumsum(np.rint(np.array(sums)).astype(np.int64), axis=1).T
    return Steps(instants, value.reshape(len(instants), change.shape[1]))
