"""What groups of machines hold over time, as a grid: rows of neighbouring machines, columns of equal spans of time."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from omega.replay.columns import Columns


@dataclass(frozen=True, eq=False, slots=True)
class Grid:
    """Mean shares held (rows × columns; not a number where no machine is there), and the edges of rows and columns."""

    share: NDArray[np.float64]
    machines: NDArray[np.int64]
    """Edges of the rows, as places of machines."""
    times: NDArray[np.float64]
    """Edges of the columns (µs)."""


def grid_of(columns: Columns, dimension: int, *, rows: int, spans: int) -> Grid:
    """Return the mean share of a dimension held, for at most `rows` groups of machines and `spans` of time."""
    machines = columns.machines
    number = len(machines.names)
    edges = np.unique(np.linspace(0, number, min(rows, number) + 1).round().astype(np.int64))
    row_of = np.searchsorted(edges, np.arange(number), "right") - 1
    times = np.linspace(0, columns.horizon, spans + 1)
    form, held = (len(edges) - 1, times), np.zeros((len(edges) - 1, spans))
    for block in columns.blocks():
        row, need = row_of[block.machine], block.need[:, dimension]
        held += _means(
            np.concatenate((block.started, block.until)), np.concatenate((row, row)), np.concatenate((need, -need)),
            form,
        )  # fmt: skip
    has = _means(machines.at, row_of[machines.place], machines.changes()[:, dimension], form)
    share = np.divide(held, has, out=np.full(held.shape, np.nan), where=has > 0)
    return Grid(share, edges, times)


def _means(
    at: NDArray[np.int64], row: NDArray[np.int64], change: NDArray[np.int64], form: tuple[int, NDArray[np.float64]]
) -> NDArray[np.float64]:
    """Return the means over spans of time of sums of changes, by row."""
    rows, times = form
    spans, width = len(times) - 1, times[1] - times[0]
    inside = at < times[-1]
    at, row, change = at[inside], row[inside], change[inside]
    span = np.minimum(np.searchsorted(times, at, "right") - 1, spans - 1)
    place, size = row * spans + span, rows * spans
    first = np.bincount(place, change * (times[span + 1] - at), minlength=size).reshape(rows, spans) / width
    later = np.cumsum(np.bincount(place, change, minlength=size).reshape(rows, spans), axis=1)
    first[:, 1:] += later[:, :-1]
    return np.asarray(first, np.float64)
