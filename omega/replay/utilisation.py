"""Utilisation: what tasks hold of the machines' capacity, over time and as a mean, and machines that hold too much."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from omega.replay.columns import BLOCK, Columns
from omega.replay.steps import Steps, steps
from omega.workload.workload import Microseconds

PART = 1 << 17
"""Placements of the machines that are checked together for over-commitment."""
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
    dimensions = len(columns.workload.dimensions)
    held = steps(
        (
            (np.concatenate((block.started, block.until)), np.concatenate((block.need, -block.need)))
            for block in columns.blocks()
        ),
        dimensions,
    )
    capacity = steps([(columns.machines.at, columns.machines.changes())], dimensions)
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


NONE = OverCommitted(0, -1, 0, 0.0)


def over_commit(columns: Columns) -> dict[str | None, OverCommitted]:
    """Return the machines that hold more than they have, by dimension and (None) in any, from the placements alone.

    All changes of one instant are one step.
    """
    names = columns.workload.dimensions.names
    found: dict[str | None, OverCommitted] = dict.fromkeys([None, *names], NONE)
    for part in _machines_in_parts(columns):
        for name, more in part.items():
            found[name] = _both(found[name], more)
    return found


def _both(a: OverCommitted, b: OverCommitted) -> OverCommitted:
    """Return the sum for two sets of machines; at the same instant the machine with the lower place is first."""
    first = min((each for each in (a, b) if each.machines), key=lambda each: (each.at, each.first), default=a)
    return OverCommitted(a.machines + b.machines, first.first, first.at, max(a.largest, b.largest))


def _machines_in_parts(columns: Columns) -> Iterator[dict[str | None, OverCommitted]]:
    """Yield what is over-committed in each of many sets of neighbouring machines.

    The placements of a set are a few blocks, if no machine has more of them.
    """
    machine, number = columns.records.machine, len(columns.machines.names)
    of_machine = np.zeros(number, np.int64)
    for begin in range(0, len(machine), BLOCK):
        of_machine += np.bincount(machine[begin : begin + BLOCK], minlength=number)
    before, changes = np.concatenate(([0], np.cumsum(of_machine))), columns.machines.changes()
    begin = 0
    while begin < number:
        end = max(begin + 1, int(np.searchsorted(before, before[begin] + PART, "right")) - 1)
        rows = np.empty(before[end] - before[begin], np.int64)
        done = 0
        for start in range(0, len(machine), BLOCK):
            part = machine[start : start + BLOCK]
            inside = np.flatnonzero((part >= begin) & (part < end)) + start
            rows[done : done + len(inside)] = inside
            done += len(inside)
        yield _over_committed(columns, changes, begin, end, rows)
        begin = end


def _over_committed(
    columns: Columns, changes: NDArray[np.int64], begin: int, end: int, rows: NDArray[np.int64]
) -> dict[str | None, OverCommitted]:
    """Return the over-commitment of the machines from `begin` to `end`, which have these placements.

    `changes` are those of the capacities of all machines.
    """
    machines, records = columns.machines, columns.records
    those = np.flatnonzero((machines.place >= begin) & (machines.place < end))
    started, ended = records.started[rows], records.ended[rows]
    until = np.where(ended < 0, columns.horizon, ended)
    need = columns.needs[columns.first[records.job[rows]] + records.group[rows]]
    place = np.concatenate((machines.place[those], records.machine[rows], records.machine[rows]))
    at = np.concatenate((machines.at[those], started, until))
    order = np.lexsort((at, place))
    place, at = place[order], at[order]
    settled = np.concatenate(((np.diff(place) != 0) | (np.diff(at) != 0), [True]))
    # The sums go on over machines: those before a machine's first row are taken off.
    begins = np.flatnonzero(np.concatenate(([True], place[1:] != place[:-1])))
    sizes = np.diff(np.append(begins, len(place)))
    most, any_over = 0.0, np.zeros(int(settled.sum()), np.bool_)
    found: dict[str | None, OverCommitted] = {}
    changes = changes[those]

    def sums(values: NDArray[np.int64]) -> NDArray[np.int64]:
        total = np.cumsum(values[order])
        earlier = np.where(begins > 0, total[begins - 1], 0)
        return np.compress(settled, total - np.repeat(earlier, sizes))

    def of(over: NDArray[np.bool_], largest: float) -> OverCommitted:
        where = np.flatnonzero(over)
        if not len(where):
            return OverCommitted(0, -1, 0, largest)
        first = where[np.lexsort((place[where], at[where]))[0]]
        return OverCommitted(len(np.unique(place[where])), int(place[first]), int(at[first]), largest)

    place, at = place[settled], at[settled]
    for d, name in enumerate(columns.workload.dimensions.names):
        nothing, away = np.zeros(len(those), np.int64), np.zeros(2 * len(rows), np.int64)
        held = sums(np.concatenate((nothing, need[:, d], -need[:, d])))
        has = sums(np.concatenate((changes[:, d], away)))
        shares = np.divide(held, has, out=np.where(held > 0, np.inf, 0.0), where=has > 0)
        largest = float(shares.max(initial=0.0))
        most, any_over = max(most, largest), any_over | (held > has)
        found[name] = of(held > has, largest)
    return {None: of(any_over, most), **found}
