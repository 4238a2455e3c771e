"""Figures 15 and 16 of the Omega paper from a trace: speed-up of MapReduce jobs, and use of the cell over time."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from omega.experiments.mapreduce import POLICIES
from omega.experiments.plots.sizing import COLOURS, LARGEST, SHOWN, dashes
from omega.experiments.plots.style import GREY, below, handle, save, sheet, styled, titled
from omega.experiments.trace_mapreduce import STAND_INS, MapReduceOutcome

TITLES = {15: "Speed-up of MapReduce jobs", 16: "MapReduce jobs: utilisation of the cell"}


def draw_sizing(number: int, outcome: MapReduceOutcome, *paths: Path) -> None:
    """Draw figure 15 or 16 with its parameters above it. Raises BadInput."""
    form = outcome.form
    jobs = f"MapReduce jobs of {Path(form.swim).name}" if form.swim else "a fifth of the batch jobs are MapReduce jobs"
    workers = "workers asked for: 5, 11, 200 or 1,000, evenly" if form.swim else "maps per worker fitted to figure 15"
    details = [f"after figure {number} of the Omega paper", f"{form.hours:g} hours, seed {form.run.seed}"]
    details += [f"other jobs: {outcome.source}", jobs, workers, "stand-ins are calibrated; machines are not simulated"]
    details += ["brackets: 95 % bootstrap intervals over hours"] if number == 16 else []
    with styled():
        figure = _faster(outcome) if number == 15 else _use(outcome)
        titled(figure, TITLES[number], " · ".join(details))
        save(figure, *paths)


def _faster(outcome: MapReduceOutcome) -> Figure:
    """Figure 15: a panel for each cell, a line for each policy; bars: intervals of the 80th percentile."""
    figure, grid = sheet(1, len(STAND_INS), sharey=True)
    for axes, cell in zip(grid[0], STAND_INS, strict=True):
        for place, policy in enumerate(each for each in POLICIES if each != "as-asked"):
            times = np.sort(outcome.results[cell.name][policy].speedups)
            shares = np.arange(1, len(times) + 1) / max(1, len(times))
            axes.plot(times, shares, color=COLOURS[policy], linestyle=dashes(policy))
            p80 = outcome.speedup(cell.name, policy)
            axes.plot(
                [p80.low, p80.high], [0.8 + 0.012 * (place - 1)] * 2, color=COLOURS[policy], linewidth=4, alpha=0.5
            )
        axes.set_title(f"{cell.name} ({cell.about})", fontsize=10.5)
        axes.set_xscale("log")
        axes.set_xlim(0.9, LARGEST)
        axes.set_xticks([1, 2, 4, 10, 20], ["1", "2", "4", "10", "20"])
        axes.minorticks_off()
        axes.axhline(0.8, color=GREY, linestyle=":", linewidth=1.0)
        axes.set_xlabel("speed-up over requested workers")
        axes.set_ylim(0, 1.02)
    grid[0][0].set_ylabel("cumulative fraction of jobs")
    entries = [handle(each, COLOURS[each], linestyle=dashes(each)) for each in POLICIES if each != "as-asked"]
    below(figure, [*entries, handle("80th percentile, 95 % interval", GREY)], columns=4)
    return figure


def _use(outcome: MapReduceOutcome) -> Figure:
    """Figure 16: cpu and memory of cell C in use over time; above: the standard deviation with its interval."""
    figure, grid = sheet(2, 2, width=4.2, height=1.9, sharex=True, sharey="row")
    for column, policy in enumerate(SHOWN):
        result = outcome.results["C"][policy]
        for dimension, resource in enumerate(("cpu", "memory")):
            axes, shares = grid[dimension][column], 100 * result.use[:, dimension]
            hours = np.arange(len(shares)) * outcome.form.step / 3600
            axes.plot(hours, shares, color=COLOURS[policy], linewidth=1.2)
            grid[dimension][0].set_ylabel(f"{resource} in use (%)")
        grid[0][column].set_title(f"{policy}: deviation {outcome.variation('C', policy).text('.1f')}", fontsize=10.5)
        grid[-1][column].set_xlabel("hours")
    return figure
