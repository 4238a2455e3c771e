"""Figures 2 to 4 of the Omega paper: the workloads themselves."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from omega.experiments.mix import shares
from omega.experiments.plots.style import GREY, LINES, below, sheet
from omega.workload.presets import Preset, preset
from omega.workload.quantiles import quantiles

Scale = Callable[[Preset], float]
COLOURS = {"batch": "#56B4E9", "service": "#D55E00"}
CELLS = {"A": "#009E73", "B": "#CC79A7", "C": "#0072B2"}
WHAT = {"jobs": "jobs", "tasks": "tasks", "cpu": "cpu × time", "memory": "memory × time"}


def workload_shares(cells: Sequence[str]) -> Figure:
    """Figure 2: shares of batch and service in jobs, tasks and held resources."""
    figure, grid = sheet(1, len(cells), sharey=True, width=3.0)
    for axes, cell in zip(grid[0], cells, strict=True):
        parts = shares(cell)
        bottom = np.zeros(len(WHAT))
        for i, kind in enumerate(COLOURS):
            values = np.array([parts[name][i] for name in WHAT])
            bars = axes.bar(list(WHAT.values()), values, bottom=bottom, color=COLOURS[kind], label=kind, width=0.7)
            texts = [_percent(value) if value >= 0.05 else "" for value in values]
            axes.bar_label(bars, texts, label_type="center", fontsize=8.5)
            bottom += values
        axes.set_title(preset(cell).label)
        axes.grid(visible=False)
        axes.tick_params(axis="x", labelrotation=25)
    grid[0][0].set_ylabel("share")
    below(figure, grid[0][0].get_legend_handles_labels()[0], columns=2)
    return figure


def _percent(share: float) -> str:
    """Return a share in per cent; only 1 is printed as 100 %."""
    return f"{share:.0%}" if share < 0.99 else f"{min(share, 0.999) if share < 1 else 1:.1%}"


def times(cells: Sequence[str]) -> Figure:
    """Figure 3: distributions of task run times and of gaps between jobs."""
    return _distributions(
        cells,
        {
            "task run time (s)": ("task_seconds", lambda each: each.duration),
            "gap between jobs (s)": ("interarrival_seconds", lambda each: 1 / each.pace),
        },
    )


def sizes(cells: Sequence[str]) -> Figure:
    """Figure 4: distribution of tasks per job; it is the same for every preset."""
    return _distributions(cells[-1:], {"tasks per job": ("tasks_per_job", lambda _: 1.0)}, "A, B and C alike")


def _distributions(cells: Sequence[str], panels: Mapping[str, tuple[str, Scale]], label: str | None = None) -> Figure:
    figure, grid = sheet(1, len(panels), width=4.2, height=3.0, sharey=True)
    for axes, (x_label, (name, scale)) in zip(grid[0], panels.items(), strict=True):
        for cell in cells:
            for kind, style in LINES.items():
                table = quantiles(f"{kind}_{name}")
                x = table.values * scale(preset(cell))
                axes.plot(x, table.probabilities, color=CELLS[cell], linestyle=style)
        axes.set_xscale("log")
        axes.set_xlabel(x_label)
        axes.set_ylim(0, 1.01)
    grid[0][0].set_ylabel("cumulative fraction")
    handles = [Line2D([], [], color=CELLS[cell], label=label or preset(cell).label) for cell in cells]
    handles += [
        Line2D([], [], color=GREY, linestyle=style, label=f"{kind} (28 jobs seen)" if kind == "service" else kind)
        for kind, style in LINES.items()
    ]
    below(figure, handles)
    return figure
