"""Figures 15 and 16 of the Omega paper: how much faster MapReduce jobs are, and how use of the cell varies."""

import numpy as np
from matplotlib.figure import Figure

from omega.experiments.mapreduce import POLICIES
from omega.experiments.plots.style import PALETTE, below, handle, sheet
from omega.experiments.sizing import STEP_SECONDS, outcomes

COLOURS = dict(zip(POLICIES, ("#666666", *PALETTE), strict=False))
LARGEST = 30.0
SHOWN = ("as-asked", "max-parallelism")
"""Over time; the others lie between."""


def faster() -> Figure:
    """Figure 15: a panel for each cell, a line for each policy."""
    figure, grid = sheet(1, 3, sharey=True)
    for axes, (name, policies) in zip(grid[0], outcomes().items(), strict=True):
        for policy, outcome in policies.items():
            if policy != "as-asked":
                times = np.sort(outcome.speedups)
                shares = np.arange(1, len(times) + 1) / len(times)
                axes.plot(times, shares, color=COLOURS[policy], linestyle=dashes(policy))
        axes.set_title(f"C, {name}" if name != "as measured" else "C (measured)")
        axes.set_xscale("log")
        axes.set_xlim(0.9, LARGEST)
        axes.set_xticks([1, 2, 4, 10, 20], ["1", "2", "4", "10", "20"])
        axes.minorticks_off()
        axes.axhline(0.8, color="#666666", linestyle=":", linewidth=1.0)
        axes.set_xlabel("speed-up over requested workers")
        axes.set_ylim(0, 1.02)
    grid[0][0].set_ylabel("cumulative fraction of jobs")
    below(figure, [handle(each, COLOURS[each], linestyle=dashes(each)) for each in POLICIES if each != "as-asked"])
    return figure


def use() -> Figure:
    """Figure 16: the share of cpu and memory in use over time, as measured."""
    figure, grid = sheet(2, 2, width=4.2, height=1.9, sharex=True, sharey="row")
    for column, policy in enumerate(SHOWN):
        for dimension, resource in enumerate(("cpu", "memory")):
            axes, shares = grid[dimension][column], 100 * outcomes()["as measured"][policy].use[:, dimension]
            axes.plot(np.arange(len(shares)) * STEP_SECONDS / 3600, shares, color=COLOURS[policy], linewidth=1.4)
            axes.set_title(f"{policy}: {min(shares):.0f} to {max(shares):.0f} %")
            grid[dimension][0].set_ylabel(f"{resource} in use (%)")
        grid[-1][column].set_xlabel("hours")
    return figure


def dashes(policy: str) -> str:
    """Dashes that distinguish overlapping lines."""
    return {"relative-size": "--", "global-cap": "-."}.get(policy, "-")
