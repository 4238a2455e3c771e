"""Numbers of cpu units for tasks: exclusive at each instant, machine after machine."""

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from math import gcd
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.errors import Refused
from omega.cellstate.resources import format_amount
from omega.replay.columns import Columns
from omega.replay.machines import SECOND
from omega.replay.utilisation import OverCommitted, over_commit

CORE = 1_000
"""Millicores of the largest unit."""
Interval = tuple[int, int]
"""First and last number."""


class Units(NamedTuple):
    """Cpu units of each placement. A unit is `size` millicores; `total` is their number in the cell."""

    size: int
    total: int
    of_placement: list[list[Interval]]
    """Intervals of numbers, ascending; none for a placement that requests no cpu."""
    rounded: int
    """Placements whose request is no whole number of units, and was rounded up."""


class _Free:
    """The free units of one machine, as intervals: the lowest numbers are taken first."""

    def __init__(self, units: int) -> None:
        self._intervals = [(0, units - 1)] if units else []
        heapify(self._intervals)

    def take(self, count: int) -> list[Interval] | None:
        """Return intervals of `count` units in all; None when there are not enough."""
        taken = list[Interval]()
        while count and self._intervals:
            first, last = heappop(self._intervals)
            if last - first >= count:
                heappush(self._intervals, (first + count, last))
                last = first + count - 1
            count -= last - first + 1
            taken.append((first, last))
        if count:
            self.give(taken)
            return None
        return _joined(taken)

    def give(self, intervals: Sequence[Interval]) -> None:
        """Return intervals that were taken."""
        for each in intervals:
            heappush(self._intervals, each)


def _joined(intervals: list[Interval]) -> list[Interval]:
    """Return ascending intervals in which no two touch."""
    joined = intervals[:1]
    for first, last in intervals[1:]:
        if joined[-1][1] + 1 == first:
            joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    return joined


def exact_unit(columns: Columns, cpu: int) -> int:
    """Return the largest unit, at most a core, of which every request is a whole number (millicores)."""
    return gcd(CORE, *(int(each) for each in np.unique(columns.need[:, cpu])))


def assign(columns: Columns, size: int | None = None) -> Units:
    """Assign cpu units of `size` millicores to all placements, each unit to one task at a time.

    Intervals of time are half open: the units of a task that ends are free for one that starts at that instant. A task
    without duration takes its units before the others that start at its instant, and gives them back at once.
    Requests are rounded up to whole units, machines down; without a size it is the largest one that leaves requests
    exact. Refused when a machine holds more cpu than it has, when it has too few units for the rounded requests, or
    when the cell has no cpu.
    """
    names = columns.workload.dimensions.names
    if "cpu" not in names:
        raise Refused(f"export: the cell has no cpu to number; it has {', '.join(names)}")
    cpu = names.index("cpu")
    over = over_commit(columns)["cpu"]
    if over.machines:
        raise Refused(_over_committed(columns, over))
    size = exact_unit(columns, cpu) if size is None else size
    need, until = columns.need[:, cpu], columns.until
    counts = -(-need // size)
    units = columns.machines.largest[:, cpu] // size
    first_of = np.concatenate(([0], np.cumsum(units)))
    free = dict[int, _Free]()
    held = list[list[Interval]]([[] for _ in range(len(counts))])
    machine, started = columns.records.machine.tolist(), columns.records.started
    for row, begins in _events(started, until, counts):
        place = machine[row]
        there = free.get(place)
        if there is None:
            there = free[place] = _Free(int(units[place]))
        if not begins:
            there.give(held[row])
            continue
        taken = there.take(int(counts[row]))
        if taken is None:
            raise Refused(_no_room(columns, row, size))
        held[row] = taken
        if until[row] == started[row]:
            there.give(taken)
    placed = [
        [(first + start, last + start) for first, last in intervals]
        for intervals, start in zip(held, first_of[columns.records.machine].tolist(), strict=True)
    ]
    return Units(size, int(first_of[-1]), placed, int((need % size > 0).sum()))


def _events(
    started: NDArray[np.int64], until: NDArray[np.int64], counts: NDArray[np.int64]
) -> Iterator[tuple[int, bool]]:
    """Yield (row, whether it begins) in order: at one instant ends, then tasks without duration, then other starts."""
    rows = np.flatnonzero(counts)
    brief = until[rows] == started[rows]
    ends = rows[~brief]
    row = np.concatenate((ends, rows))
    at = np.concatenate((until[ends], started[rows]))
    rank = np.concatenate((np.zeros(len(ends), np.int64), np.where(brief, 1, 2)))
    order = np.lexsort((row, rank, at))
    for which, what in zip(row[order].tolist(), rank[order].tolist(), strict=True):
        yield which, what > 0


def _over_committed(columns: Columns, over: OverCommitted) -> str:
    machines = f"{over.machines:,} of {len(columns.machines.names):,} machines hold more cpu than they have"
    return (
        f"export: {machines}, {columns.machines.names[over.first]} at {over.at / SECOND:g} s first, so that their units"
        " cannot be given to one task each; replay with machines that hold their tasks (--factor, --residents scale)"
    )


def _no_room(columns: Columns, row: int, size: int) -> str:
    machine = columns.machines.names[int(columns.records.machine[row])]
    where = f"machine {machine} at {columns.records.started[row] / SECOND:g} s"
    unit = format_amount("cpu", size)
    return f"export: {where} has too few units of {unit} cpu for requests rounded up; choose a smaller unit"
