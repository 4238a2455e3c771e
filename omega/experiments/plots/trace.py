"""A trace in pictures: what its tasks request over time, and the distributions of its jobs."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator
from numpy.typing import NDArray

from omega.experiments.plots.style import GREY, PALETTE, below, handle, logarithmic, save, sheet, styled, titled
from omega.traces.summary import Summary, pieces
from omega.traces.trace import Trace

LEAST = {"tasks per job": 1.0, "task duration": 0.1, "seconds between jobs": 0.001}
"""Smallest value that is drawn: a logarithmic axis has no 0."""
POINTS, MOST_TICKS = 300, 6
CLOSE = 0.3
"""The capacity is drawn if more than this part of it is requested: it would flatten lower curves."""
UNITS = ((3 * 86_400.0, 86_400.0, "days"), (2 * 3600.0, 3600.0, "hours"), (600.0, 60.0, "minutes"))
Floats = NDArray[np.float64]


def draw_trace(trace: Trace, summary: Summary, details: str, *paths: Path) -> None:
    """Draw a trace. `details`: small print below the title. Raises BadInput when a file cannot be written."""
    with styled():
        figure, grid = sheet(2, 2, width=4.4, height=2.3)
        _requests(grid[0][0], summary)
        colours = dict(zip(summary.kinds, PALETTE, strict=False))
        values = {kind: _values(trace, kind) for kind in colours}
        panels = (
            (grid[0][1], "tasks per job", "tasks", "jobs"),
            (grid[1][0], "task duration", "seconds", "tasks"),
            (grid[1][1], "seconds between jobs", "seconds", "gaps"),
        )
        for axes, name, unit, of in panels:
            for kind, colour in colours.items():
                _cumulative(axes, *values[kind][name], least=LEAST[name], colour=colour)
            axes.set(title=name, xlabel=unit, ylabel=f"part of {of}", ylim=(0, 1))
            logarithmic(axes, "x")
            axes.xaxis.set_major_locator(LogLocator(numticks=MOST_TICKS))
        below(figure, [handle(kind, colour) for kind, colour in colours.items()])
        titled(figure, f"Trace {trace.format}", details)
        save(figure, *paths)


def _requests(axes: Axes, summary: Summary) -> None:
    _, unit, label = next((each for each in UNITS if summary.end >= each[0]), (0.0, 1.0, "seconds"))
    lines = zip(summary.requested.items(), reversed(PALETTE[:-1]), ("-", "--", ":", "-."), strict=False)
    for (name, values), colour, line in lines:
        axes.plot(summary.times / unit, values, color=colour, linestyle=line, label=name, linewidth=1.2)
    if max(values.max() for values in summary.requested.values()) > CLOSE:
        axes.axhline(1.0, color=GREY, linestyle=":", linewidth=1.0)
    axes.set(
        title="requested ÷ capacity", xlabel=label, ylabel="part of the cell", xlim=(0, max(summary.end, 1) / unit)
    )
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=9, loc="best")


def _values(trace: Trace, kind: str) -> Mapping[str, tuple[Floats, Floats]]:
    """Return the values of each panel, with their weights, of the jobs of a kind."""
    jobs = [arrival for arrival in trace.workload.arrivals if arrival.job.kind == kind]
    sizes = np.array([arrival.job.total for arrival in jobs], dtype=float)
    gaps = np.diff(np.array([arrival.at_seconds for arrival in jobs]))
    tasks = pieces(jobs, len(trace.workload.dimensions))
    return {
        "tasks per job": (sizes, np.ones(len(sizes))),
        "task duration": (tasks.seconds, tasks.count),
        "seconds between jobs": (gaps, np.ones(len(gaps))),
    }


def _cumulative(axes: Axes, values: Floats, weights: Floats, *, least: float, colour: str) -> None:
    if not len(values):
        return
    distinct, inverse = np.unique(np.maximum(values, least), return_inverse=True)
    reached = np.cumsum(np.bincount(inverse.reshape(-1), weights))
    # A line needs no more points than these, dense where there are many values and on the logarithmic axis.
    even = np.linspace(0, len(distinct) - 1, POINTS).astype(int)
    apart = np.searchsorted(distinct, np.geomspace(distinct[0], distinct[-1], POINTS)) - 1
    places = np.unique(np.concatenate((even, np.maximum(apart, 0))))
    axes.plot(
        np.concatenate((distinct[:1], distinct[places])),
        np.concatenate(([0.0], reached[places] / reached[-1])),
        color=colour,
        drawstyle="steps-post",
    )
