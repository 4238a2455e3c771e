"""Figures of a replay: a Gantt chart, and utilisation with waiting tasks over time."""

from collections import Counter
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from omega.cellstate.errors import Refused
from omega.cellstate.resources import format_amount
from omega.experiments.plots.style import GREY, PALETTE, below, handle, save, sheet, styled, titled
from omega.replay.columns import Columns
from omega.replay.cpu_units import Units, assign
from omega.replay.fairness import NO_USER
from omega.replay.grid import grid_of
from omega.replay.utilisation import Utilisation
from omega.replay.waiting import waiting

MOST_UNITS, MOST_BARS = 400, 20_000
"""A Gantt chart has a bar for each task up to so many cpu units and placements; beyond, machines are shown together."""
MOST_VECTORS = 4_000
"""Bars that an SVG has as shapes; more are one image in it."""
MOST_ROWS, SPANS = 200, 480
"""Rows and columns of the chart of a larger cell."""
MOST_COLOURS = len(PALETTE)
SECONDS, MINUTES_FROM, HOURS_FROM, DAYS_FROM = 1e6, 600e6, 4 * 3600e6, 4 * 86400e6


def _unit(horizon: float) -> tuple[float, str]:
    """Return the unit of a time axis in microseconds, and its name."""
    if horizon >= DAYS_FROM:
        return 86_400e6, "days"
    if horizon >= HOURS_FROM:
        return 3600e6, "hours"
    return (60e6, "minutes") if horizon >= MINUTES_FROM else (SECONDS, "seconds")


def draw_gantt(columns: Columns, details: str, *paths: Path) -> None:
    """Draw which cpu units each task holds over time; of a large or over-committed cell, how full machines are.

    `details`: small print below the title. Raises BadInput when a file cannot be written.
    """
    with styled():
        figure, grid = sheet(1, 1, width=8.4, height=4.2)
        axes, (unit, label) = grid[0][0], _unit(columns.horizon)
        axes.grid(visible=False)
        axes.set(xlabel=label, xlim=(0, columns.horizon / unit))
        units = _units(columns)
        note = _draw_bars(figure, axes, columns, units, unit) if units else _draw_grid(figure, axes, columns, unit)
        titled(figure, "Tasks on machines over time", f"{details} · {note}")
        save(figure, *paths)


def _units(columns: Columns) -> Units | None:
    """Return the cpu units of every task when each can have a bar."""
    if len(columns) > MOST_BARS or "cpu" not in columns.workload.dimensions.names:
        return None
    try:
        units = assign(columns)
    except Refused:
        return None
    return units if units.total <= MOST_UNITS else None


def _draw_bars(figure: Figure, axes: Axes, columns: Columns, units: Units, unit: float) -> str:
    jobs = [each.job for each in columns.records.jobs]
    users = [str(job.spec.get("user") or NO_USER) for job in jobs]
    what, groups = ("user", users) if len(set(users)) > 1 else ("kind", [job.kind for job in jobs])
    counts = Counter(groups[job] for job in columns.records.job.tolist())
    order = sorted(counts, key=lambda name: (-counts[name], name))
    colours = dict(zip(order, PALETTE[:MOST_COLOURS], strict=False))
    bars, shades = [], []
    until = columns.until
    for row, intervals in enumerate(units.of_placement):
        start, end = columns.records.started[row] / unit, until[row] / unit
        for first, last in intervals:
            bars.append([(start, first), (end, first), (end, last + 1), (start, last + 1)])
            shades.append(colours.get(groups[columns.records.job[row]], GREY))
    axes.add_collection(
        PolyCollection(
            bars, facecolors=shades, edgecolors="white", linewidths=0.3, alpha=0.85, rasterized=len(bars) > MOST_VECTORS
        )
    )
    ends = np.cumsum(columns.machines.largest[:, columns.workload.dimensions.names.index("cpu")] // units.size)
    for end in ends[:-1]:
        axes.axhline(end, color=GREY, linewidth=0.5)
    axes.set(ylim=(0, max(units.total, 1)), ylabel=f"cpu units of {format_amount('cpu', units.size)} cpu")
    named = [Patch(color=colours[name], label=name) for name in colours]
    below(figure, named + ([Patch(color=GREY, label="others")] if len(order) > len(named) else []), title=what)
    return f"a bar for each task; lines between {len(ends):,} machines"


def _draw_grid(figure: Figure, axes: Axes, columns: Columns, unit: float) -> str:
    names = columns.workload.dimensions.names
    dimension = names.index("cpu") if "cpu" in names else 0
    grid = grid_of(columns, dimension, rows=MOST_ROWS, spans=SPANS)
    mesh = axes.pcolormesh(grid.times / unit, grid.machines, grid.share, cmap="YlGnBu", vmin=0, vmax=1, rasterized=True)
    axes.set_facecolor("#DDDDDD")  # where no machine is there
    axes.set(ylabel="machines", ylim=(0, len(columns.machines.names)))
    bar = figure.colorbar(mesh, ax=axes, extend="max", pad=0.02)
    bar.set_label(f"mean share of {names[dimension]} held")
    each = int(np.diff(grid.machines).max())
    rows = "a row for each machine" if each == 1 else f"a row for up to {each:,} machines"
    return f"{rows}, {len(columns):,} placements"


def draw_utilisation(columns: Columns, utilisation: Utilisation, details: str, *paths: Path) -> None:
    """Draw the share of each resource held over time, its mean, and the number of tasks that wait.

    `details`: small print below the title. Raises BadInput when a file cannot be written.
    """
    with styled():
        figure, grid = sheet(2, 1, width=8.4, height=2.3, sharex=True)
        unit, label = _unit(columns.horizon)
        edges, held, has = utilisation.bins(SPANS)
        shares, means = np.divide(held, has, out=np.zeros_like(held), where=has > 0), utilisation.mean()
        axes, handles = grid[0][0], []
        for d, name in enumerate(utilisation.names):
            colour = PALETTE[d % len(PALETTE)]
            axes.stairs(shares[:, d], edges / unit, color=colour, linewidth=1.4, baseline=None)
            axes.axhline(means[name], color=colour, linestyle="--", linewidth=1.0, alpha=0.7)
            handles.append(handle(f"{name}, mean {means[name]:.1%}", colour))
        axes.axhline(1.0, color=GREY, linestyle=":", linewidth=1.0)
        axes.set(ylabel="share of the capacity", ylim=(0, max(1.05, 1.05 * float(shares.max(initial=0.0)))))
        axes.set_title("held by tasks (line) and mean (dashes)")
        queue = np.diff(waiting(columns).integral(edges)[:, 0]) / np.diff(edges)
        lower = grid[1][0]
        lower.stairs(queue, edges / unit, color="#000000", linewidth=1.2, baseline=None)
        lower.set(
            ylabel="tasks", xlabel=label, xlim=(0, columns.horizon / unit), ylim=(0, max(1.0, 1.05 * queue.max()))
        )
        lower.set_title("waiting for a placement (mean)")
        below(figure, handles)
        titled(figure, "Utilisation over time", details)
        save(figure, *paths)
