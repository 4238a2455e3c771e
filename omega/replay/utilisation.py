"""Utilisation: what tasks hold of the machines' capacity, over time and as a mean, and machines that hold too much."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from omega.replay.columns import Columns
from omega.replay.steps import Steps, steps
from omega.workload.workload import Microseconds

MOST_BINS = 1_440
"""Rows of a table over time: a day in minutes."""


@dataclass(frozen=True, eq=False, slots=True)
class Utilisation:
    """What tasks hold, and what the machines have, over a run of `horizon` microseconds."""

    names: Sequence[str]
    """Dimensions."""
    held: Steps
    capacity: Steps
    horizon: int

    def mean(self) -> dict[str, float]:
        """Return amount × time held ÷ amount × time there, by dimension; 0 where there is nothing."""
        end = np.array([self.horizon])
        held, has = self.held.integral(end)[0], self.capacity.integral(end)[0]
        return {name: float(h / c) if c else 0.0 for name, h, c in zip(self.names, held, has, strict=True)}

    def largest(self) -> dict[str, float]:
        """Return the largest share of the capacity held at any instant, by dimension."""
        instants = np.unique(np.concatenate(([0], self.held.at, self.capacity.at)))
        instants = instants[instants < self.horizon]
        held, has = self.held.at_instants(instants), self.capacity.at_instants(instants)
        shares = np.divide(held, has, out=np.zeros(held.shape), where=has > 0)
        return {name: float(share) for name, share in zip(self.names, shares.max(axis=0), strict=True)}

    def bins(self, most: int = MOST_BINS) -> tuple[Microseconds, NDArray[np.float64], NDArray[np.float64]]:
        """Return the edges of equal spans of time (µs), and the mean amounts held and there in each span."""
        edges = np.unique(np.linspace(0, self.horizon, most + 1).round().astype(np.int64))
        spans = np.diff(edges)[:, None]
        return (
            edges,
            np.diff(self.held.integral(edges), axis=0) / spans,
            np.diff(self.capacity.integral(edges), axis=0) / spans,
        )


def utilisation_of(columns: Columns) -> Utilisation:
    """Return the utilisation of a run, residents included."""
    started = columns.records.started
    held = steps(np.concatenate((started, columns.until)), np.concatenate((columns.need, -columns.need)))
    capacity = steps(columns.machines.at, columns.machines.changes())
    return Utilisation(columns.workload.dimensions.names, held, capacity, columns.horizon)


class OverCommitted(NamedTuple):
    """Machines that hold more than they have at some instant."""

    machines: int
    """How many."""
    first: int
    """Place of the machine that is first; -1 for none."""
    at: int
    """When that was (µs)."""
    largest: float
    """Largest amount held ÷ capacity on any machine; infinite on one that has nothing."""


@dataclass(frozen=True, eq=False, slots=True)
class OverCommit:
    """What every machine holds and has at each instant of a change, of a run."""

    names: Sequence[str]
    place: NDArray[np.int64]
    at: Microseconds
    held: NDArray[np.int64]
    capacity: NDArray[np.int64]

    def of(self, name: str | None = None) -> OverCommitted:
        """Return the machines over-committed in a dimension; None: in any."""
        d = slice(None) if name is None else slice(self.names.index(name), self.names.index(name) + 1)
        held, has = self.held[:, d], self.capacity[:, d]
        shares = np.divide(held, has, out=np.where(held > 0, np.inf, 0.0), where=has > 0)
        rows = np.flatnonzero((held > has).any(axis=1))
        largest = float(shares.max(initial=0.0))
        if not len(rows):
            return OverCommitted(0, -1, 0, largest)
        first = rows[np.lexsort((self.place[rows], self.at[rows]))[0]]
        return OverCommitted(len(np.unique(self.place[rows])), int(self.place[first]), int(self.at[first]), largest)


def over_commit(columns: Columns) -> OverCommit:
    """Return what machines hold and have, from the placements alone. All changes of one instant are one step."""
    machines, records = columns.machines, columns.records
    place = np.concatenate((machines.place, records.machine, records.machine))
    at = np.concatenate((machines.at, records.started, columns.until))
    nothing, away = np.zeros_like(machines.capacity), np.zeros_like(columns.need)
    held = np.concatenate((nothing, columns.need, -columns.need))
    has = np.concatenate((machines.changes(), away, away))
    order = np.lexsort((at, place))
    place, at = place[order], at[order]
    held, has = np.cumsum(held[order], axis=0), np.cumsum(has[order], axis=0)
    # The sums go on over machines: those before a machine's first row are taken off.
    begins = np.flatnonzero(np.concatenate(([True], place[1:] != place[:-1])))
    before = np.repeat(begins - 1, np.diff(np.append(begins, len(place))))[:, None]
    held = held - np.where(before >= 0, held[before[:, 0]], 0)
    has = has - np.where(before >= 0, has[before[:, 0]], 0)
    settled = np.concatenate(((np.diff(place) != 0) | (np.diff(at) != 0), [True]))
    names = columns.workload.dimensions.names
    return OverCommit(names, place[settled].astype(np.int64), at[settled], held[settled], has[settled])
