"""Amounts over time as step functions: sums of half-open intervals, their means and integrals."""

from collections.abc import Iterable, Sequence
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


def steps(changes: Iterable[tuple[Microseconds, Amounts]], dimensions: int) -> Steps:
    """Return the sum of changes at instants, in any order and in any number of parts.

    All changes of one instant are one step: what ends makes room for what starts then, and what starts and ends at
    the same instant is never in use.
    """
    at, sums = np.zeros(0, np.int64), np.zeros((0, dimensions), np.int64)
    parts, rows = [(at, sums)], 0
    for part in changes:
        parts.append(_summed([part]))
        rows += len(parts[-1][0])
        if rows > len(parts[0][0]) + MERGED:  # the work of merging stays in proportion to the parts
            parts, rows = [_summed(parts)], 0
    at, sums = _summed(parts)
    del parts
    return Steps(at, np.cumsum(sums, axis=0, out=sums))


MERGED = 1 << 17
"""Changes that are kept apart at least, before they are merged with those before."""


def _summed(parts: Sequence[tuple[Microseconds, Amounts]]) -> tuple[Microseconds, Amounts]:
    """Return the instants of changes in order, once each, and the sum at each one."""
    at = np.concatenate([at for at, _ in parts])
    order = np.argsort(at, kind="stable")
    at = at[order]
    change = np.concatenate([change for _, change in parts])[order]
    first = np.flatnonzero(np.diff(at, prepend=-1))
    return at[first], np.add.reduceat(change, first, axis=0) if len(first) else change
