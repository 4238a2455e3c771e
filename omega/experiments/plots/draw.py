"""A figure of the paper by its number, drawn and written."""

from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from omega.experiments.catalogue import PaperFigure
from omega.experiments.experiment import Extent
from omega.experiments.metrics import of
from omega.experiments.plots import paper, sizing, surface, workloads
from omega.experiments.plots.style import save, styled, titled
from omega.experiments.results import Record
from omega.experiments.sizing import CELL, DAYS

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
    15: lambda *_: sizing.faster(),
    16: lambda *_: sizing.use(),
}

LEAST_DAYS = 2
DAILY = (6, 7, 8, 9)
"""Figures that show medians of daily values."""
WAITS = (5, 7, 8, 9)
"""Figures that show waits, on an axis of logarithms."""

_SIZED = f"{DAYS:g} days of {CELL}, seed 0, sums of the cell; the resources that jobs could use are fitted to figure 15"
WITHOUT = {15: f"{_SIZED}; little used and full: other jobs take 0.5 and 1.25 times as much", 16: _SIZED}
"""What figures show for which nothing is simulated, where it is not the workloads themselves."""


def draw(what: PaperFigure, records: Sequence[Record], form: Extent, *paths: Path) -> None:
    """Draw a figure of the paper from its simulations, with their parameters above it. Raises BadInput."""
    details = [f"after figure {what.number} of the Omega paper"]
    if not records:
        details.append(WITHOUT.get(what.number, "the workloads as they are drawn, seven hours of the trace measured"))
    else:
        details.append("simulated days: " + ", ".join(f"{days:g} of {cell}" for cell, days in form.lengths.items()))
        details += [f"cells of {form.machines:,} machines"] if form.machines else []
        details.append(f"seed {form.seed}")
        details += ["waits below 1 ms are drawn at 1 ms"] if what.number in WAITS else []
        if what.number == 8:
            most = max(of(record, "service", "busyness") for record in records)
            details.append(f"service jobs are not drawn: busyness at most {most:.3f}")
        if what.number in DAILY:
            long = [cell for cell, days in form.lengths.items() if days >= LEAST_DAYS]
            bars = f"error bars ({', '.join(long)}): median absolute deviation of daily values"
            details.append(bars if long else "too short for error bars")
    with styled():
        figure = DRAWN[what.number](records, form.cells)
        titled(figure, what.title, " · ".join(details))
        save(figure, *paths)
