"""A figure of the paper by its number, drawn and written."""

from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from omega.experiments.experiment import Form
from omega.experiments.figures import PaperFigure
from omega.experiments.plots import paper, surface, workloads
from omega.experiments.plots.look import GREY, save, styled
from omega.experiments.results import Record

DRAWN: dict[int, Callable[[Sequence[Record], Sequence[str]], Figure]] = {
    2: lambda _, cells: workloads.workload_shares(cells),
    3: lambda _, cells: workloads.times(cells),
    4: lambda _, cells: workloads.sizes(cells),
    5: lambda records, _: paper.decision_times(records, busyness=False),
    6: lambda records, _: paper.decision_times(records, busyness=True),
    7: lambda records, _: paper.offers(records),
    8: lambda records, _: paper.more_jobs(records),
    9: lambda records, _: paper.more_schedulers(records),
    10: lambda records, _: surface.maps(records),
}

DAILY = (6, 7, 8, 9)
"""Figures that show medians of daily values."""


def draw(what: PaperFigure, records: Sequence[Record], form: Form, *paths: Path) -> None:
    """Draw a figure of the paper from its simulations, and say above it what was simulated. Raises BadInput."""
    said = [f"after Fig. {what.number} of the Omega paper"]
    if records:
        said.append("simulated days: " + ", ".join(f"{days:g} of {cell}" for cell, days in form.lengths.items()))
        said += [f"cells of {form.machines:,} machines"] if form.machines else []
        said.append(f"seed {form.seed}")
        if what.number in DAILY:
            bars = "error bars: median absolute deviation of daily values"
            said.append(bars if form.days >= 2 else "too short for error bars")
    with styled():
        figure = DRAWN[what.number](records, form.cells)
        figure.suptitle(" · ".join(said), fontsize=7.5, fontweight="normal", color=GREY, x=0.01, ha="left")
        save(figure, *paths)
