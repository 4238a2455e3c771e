"""Figure 10 of the Omega paper: busyness of the service scheduler over its two decision times, as maps."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from omega.experiments.experiment import at, where
from omega.experiments.metrics import of, unscheduled
from omega.experiments.plots.paper import cells_of
from omega.experiments.plots.style import RED, STYLES, below, sheet
from omega.experiments.results import Record
from omega.experiments.surface import ARCHITECTURES, LOST
from omega.workload.presets import preset

FRAME: Any = {
    "marker": "s", "markerfacecolor": "none", "markeredgecolor": RED, "markeredgewidth": 2, "linestyle": ""
}  # a table # fmt: skip
SHADES = ListedColormap([(1 - 0.85 * i / 255, 1 - 0.55 * i / 255, 1 - 0.30 * i / 255) for i in range(256)])


def maps(records: Sequence[Record]) -> Figure:
    """Return one map per architecture; red frames where a part of the workload is left unscheduled."""
    figure, grid = sheet(2, 2, width=3.6, height=2.7, sharex=True, sharey=True)
    x = sorted({at(record, "t_job_service") for record in records})
    y = sorted({at(record, "t_task_service") for record in records})
    image: Any = None
    for axes, architecture in zip(grid.flat, ARCHITECTURES, strict=True):
        values = np.full((len(y), len(x)), np.nan)
        for record in where(records, architecture=architecture):
            column, row = x.index(at(record, "t_job_service")), y.index(at(record, "t_task_service"))
            busy = of(record, "service", "busyness")
            values[row, column] = busy
            colour = "white" if busy > 0.75 else "#222222"
            axes.text(column, row, f"{busy:.2f}", ha="center", va="center", fontsize=8.5, color=colour)
            if unscheduled(record) > LOST:
                axes.plot(column, row, markersize=25, **FRAME)
        image = axes.imshow(values, origin="lower", aspect="auto", cmap=SHADES, vmin=0, vmax=1)
        axes.grid(visible=False)
        axes.set_title(STYLES[architecture].label)
        axes.set_xticks(range(len(x)), [f"{value:.3g}" for value in x])
        axes.set_yticks(range(len(y)), [f"{value:.3g}" for value in y])
    for axes in grid[-1]:
        axes.set_xlabel("t_job(service) (s)")
    for row in grid:
        row[0].set_ylabel("t_task(service) (s)")
    label = f"busyness of the scheduler of service jobs, {preset(cells_of(records)[0]).label}"
    figure.colorbar(image, ax=grid, label=label)
    below(figure, [Line2D([], [], markersize=11, label=f"more than {LOST:.0%} of the jobs not scheduled", **FRAME)])
    return figure
