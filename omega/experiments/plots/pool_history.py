"""Pools of a simulated cell over time: usage and fair shares, satisfaction, evictions and wasted work."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from omega.experiments.plots.style import GREY, PALETTE, below, handle, save, sheet, styled, titled
from omega.simulation.pool_history import PoolHistory

MOST_POOLS = len(PALETTE)
"""Pools with a line of their own: those with the largest mean fair share."""
MOST_SATISFACTION = 2.0
"""Upper end of the axis of satisfaction."""
MINUTES_FROM = 600.0
HOURS_FROM = 4 * 3600.0


def shown_pools(history: PoolHistory) -> list[str]:
    """Return the pools that are drawn, the one with the largest share first."""
    due = {
        name: np.mean([sample.fair_share[history.dominant(name)] for sample in samples])
        for name, samples in history.samples.items()
    }
    return sorted(due, key=lambda name: (-due[name], name))[:MOST_POOLS]


def draw_history(history: PoolHistory, details: str, *paths: Path) -> None:
    """Draw the history of pools. `details`: small print below the title. Raises BadInput."""
    with styled():
        figure, grid = sheet(2, 2, width=4.4, height=2.3, sharex=True)
        names = shown_pools(history)
        colours = dict(zip(names, PALETTE, strict=False))
        end = max((sample.at for name in names for sample in history.samples[name]), default=1.0)
        unit, label = _unit(end)
        for name in names:
            _draw_pool(grid, history, name, colours[name], unit)
        _draw_losses(grid[1], history, names, colours, (end, unit))
        grid[0][0].set_ylabel("share of the cell")
        grid[0][0].set_title("usage (line) and fair share (dashes)")
        grid[0][1].set_title("satisfaction: usage ÷ fair share")
        grid[0][1].axhline(1.0, color=GREY, linestyle=":", linewidth=1.0)
        grid[0][1].set_ylim(0, MOST_SATISFACTION)
        grid[1][0].set_title("evicted tasks (cumulative)")
        grid[1][1].set_title("wasted work (cumulative)")
        grid[1][1].set_ylabel("task-hours")
        for axes in grid[1]:
            axes.set_xlabel(label)
        for axes in grid.ravel():
            axes.set_xlim(0, end / unit)
            axes.set_ylim(bottom=0)
        if not any(each.pool in names for each in history.evictions):  # no ticks at fractions of a task
            for axes in grid[1]:
                axes.set_ylim(0, 1)
                axes.set_yticks([0, 1])
        below(figure, [handle(name, colours[name]) for name in names])
        left_out = len(history.samples) - len(names)
        more = f" · {left_out} smaller pools are not drawn" if left_out else ""
        titled(figure, "Pools over time", details + more)
        save(figure, *paths)


def _unit(end: float) -> tuple[float, str]:
    if end >= HOURS_FROM:
        return 3600.0, "hours"
    return (60.0, "minutes") if end >= MINUTES_FROM else (1.0, "seconds")


def _draw_pool(grid: Sequence[Sequence[Axes]], history: PoolHistory, name: str, colour: str, unit: float) -> None:
    at, samples = history.dominant(name), history.samples[name]
    times = np.array([sample.at for sample in samples]) / unit
    usage, share = (np.array([getattr(each, field)[at] for each in samples]) for field in ("usage", "fair_share"))
    grid[0][0].plot(times, usage, color=colour, linewidth=1.3)
    grid[0][0].plot(times, share, color=colour, linestyle="--", linewidth=1.0, alpha=0.8)
    ratio = np.where(share > 0, usage / np.where(share > 0, share, 1.0), np.nan)
    grid[0][1].plot(times, np.minimum(ratio, MOST_SATISFACTION), color=colour, linewidth=1.2)


def _draw_losses(
    row: Sequence[Axes],
    history: PoolHistory,
    names: Sequence[str],
    colours: dict[str, str],
    extent: tuple[float, float],
) -> None:
    end, unit = extent
    for name in names:
        lost = [each for each in history.evictions if each.pool == name]
        times = np.array([0.0, *(each.at for each in lost), end]) / unit
        for axes, amounts in ((row[0], [each.tasks for each in lost]), (row[1], [each.wasted / 3600 for each in lost])):
            sums = np.cumsum([0.0, *amounts])
            axes.step(times, np.append(sums, sums[-1]), where="post", color=colours[name], linewidth=1.3)
