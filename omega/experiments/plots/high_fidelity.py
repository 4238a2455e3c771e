"""Figures 11 to 14 of the Omega paper from simulations of a trace, with 95 % bootstrap intervals."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from omega.experiments.bootstrap import Interval, interval
from omega.experiments.experiment import at, where
from omega.experiments.plots.style import (
    GREY,
    LEAST_SECONDS,
    LINES,
    PALETTE,
    RED,
    below,
    handle,
    logarithmic,
    sheet,
    slo,
)
from omega.experiments.plots.surface import SHADES
from omega.experiments.results import Record
from omega.experiments.trace_claims import points
from omega.experiments.trace_figures import MODES, Saturation, overloaded

LABELS = {
    "wait": "mean job wait (s)",
    "conflict_fraction": "conflict fraction",
    "busyness": "busyness",
    "no_conflict": "busyness",
}
MARKS = "osD^"
NO_CONFLICT: Any = {"linestyle": ":", "marker": ""}


def surface(records: Sequence[Record]) -> Figure:
    """Figure 11: a map of service busyness over both decision times, each value with its interval."""
    figure, ((axes,),) = sheet(1, 1, width=6.4, height=3.6)
    x = sorted({at(record, "t_job_service") for record in records})
    y = sorted({at(record, "t_task_service") for record in records})
    values = np.full((len(y), len(x)), np.nan)
    for each in points(records, "t_job_service", "t_task_service"):
        column, row = x.index(at(each[0], "t_job_service")), y.index(at(each[0], "t_task_service"))
        busy = interval("busyness", each, "service")
        values[row, column] = busy.value
        colour = "white" if busy.value > 0.7 else "#222222"
        axes.text(column, row + 0.12, f"{busy.value:.2f}", ha="center", va="center", color=colour)
        text = f"[{busy.low:.2f}–{busy.high:.2f}]"
        axes.text(column, row - 0.2, text, ha="center", va="center", fontsize=8, color=colour)
    image = axes.imshow(values, origin="lower", aspect="auto", cmap=SHADES, vmin=0, vmax=1)
    axes.grid(visible=False)
    axes.set_xticks(range(len(x)), [f"{value:.3g}" for value in x])
    axes.set_yticks(range(len(y)), [f"{value:.3g}" for value in y])
    axes.set_xlabel("t_job(service) (s)")
    axes.set_ylabel("t_task(service) (s)")
    figure.colorbar(image, ax=axes, label="busyness of the service scheduler")
    return figure


def decision_times(records: Sequence[Record]) -> Figure:
    """Figure 12: wait, conflict fraction and busyness over t_job(service), beside the no-conflict approximation."""
    figure, grid = sheet(1, 3, width=3.1, height=2.9)
    for axes, metric in zip(grid[0], ("wait", "conflict_fraction", "busyness"), strict=True):
        for kind, colour in zip(LINES, PALETTE, strict=False):
            _line(axes, records, "t_job_service", metric, kind, colour=colour)
            if metric == "busyness":
                _line(axes, records, "t_job_service", "no_conflict", kind, colour=colour, look=NO_CONFLICT)
        _finish(axes, "t_job(service) (s)", metric)
    handles = [handle(kind, colour, MARKS[i]) for i, (kind, colour) in enumerate(zip(LINES, PALETTE, strict=False))]
    handles.append(handle("busyness without conflicts", GREY, linestyle=":"))
    below(figure, [*handles, _crosses()], columns=4)
    return figure


def batch_schedulers(records: Sequence[Record], found: Sequence[Saturation]) -> Figure:
    """Figure 13: wait, conflict fraction and busyness over t_job(batch), and where the batch schedulers saturate."""
    figure, grid = sheet(1, 3, width=3.1, height=2.9)
    everything = [*records, *(record for each in found for record in each.records)]
    numbers = sorted({at(record, "batch") for record in everything})
    for axes, metric in zip(grid[0], ("wait", "conflict_fraction", "busyness"), strict=True):
        for place, number in enumerate(numbers):
            _line(
                axes,
                where(everything, batch=number),
                "t_job_batch",
                metric,
                "batch",
                colour=PALETTE[place],
                place=place,
            )
        for place, each in enumerate(found):
            if each.high < float("inf"):
                axes.axvspan(each.low, each.high, color=PALETTE[place], alpha=0.25, linewidth=0, zorder=0)
        _finish(axes, "t_job(batch) (s)", metric, evenly=True)
    names = [f"{number} batch scheduler{'s' if number > 1 else ''}" for number in numbers]
    handles: list[Any] = [handle(name, PALETTE[i], MARKS[i]) for i, name in enumerate(names)]
    handles.append(Patch(label="saturates", color=GREY, alpha=0.25, linewidth=0))
    below(figure, [*handles, _crosses()], columns=4)
    return figure


def modes(records: Sequence[Record]) -> Figure:
    """Figure 14: conflict fraction and busyness of service jobs over t_job(service), by detection and commit."""
    figure, grid = sheet(1, 2, width=4.2, height=2.9)
    looks: list[Any] = [{"markersize": 10, "markerfacecolor": "none"}, {"linestyle": "--"}] * 2
    for axes, metric in zip(grid[0], ("conflict_fraction", "busyness"), strict=True):
        for place, (detection, commit) in enumerate(MODES):
            line = where(records, detection=detection, commit=commit)
            look = {"marker": MARKS[place], **looks[place]}
            _line(axes, line, "t_job_service", metric, "service", colour=PALETTE[place], look=look)
        _finish(axes, "t_job(service) (s)", metric)
    names = [f"{detection}, {'all or nothing' if commit == 'gang' else commit}" for detection, commit in MODES]
    handles = [handle(name, PALETTE[i], MARKS[i], looks[i].get("linestyle", "-")) for i, name in enumerate(names)]
    for entry in handles[::2]:
        entry.set(markersize=10, markerfacecolor="none")
    below(figure, [*handles, _crosses()], columns=3)
    return figure


def _line(
    axes: Any, records: Sequence[Record], parameter: str, metric: str, kind: str, *,
    colour: str, place: int | None = None, look: Any = None,
) -> None:  # fmt: skip
    """Draw a metric of a kind over a parameter with its intervals; crosses where schedulers are overloaded."""
    line = sorted(points(records, parameter), key=lambda each: float(at(each[0], parameter)))
    values = [(at(each[0], parameter), interval(metric, each, kind), overloaded(each[0], kind)) for each in line]
    shown = [(x, _floored(value) if metric == "wait" else value, full) for x, value, full in values]
    shown = [each for each in shown if np.isfinite(each[1].value)]
    if not shown:
        return
    x, found, full = zip(*shown, strict=True)
    y = [each.value for each in found]
    bare = look is NO_CONFLICT
    errors = None if bare else [[max(0.0, v.value - v.low) for v in found], [max(0.0, v.high - v.value) for v in found]]
    marker = MARKS[list(LINES).index(kind) if place is None else place]
    axes.errorbar(x, y, yerr=errors, color=colour, elinewidth=1.0, capsize=2, **(look or {"marker": marker}))
    if not bare:
        lost = [(a, b) for a, b, is_full in zip(x, y, full, strict=True) if is_full]
        if lost:
            axes.plot(*zip(*lost, strict=True), linestyle="", marker="x", color=RED, markersize=8, zorder=5)


def _floored(value: Interval) -> Interval:
    return Interval(*(max(each, LEAST_SECONDS) for each in (value.value, value.low, value.high)))


def _finish(axes: Any, label: str, metric: str, *, evenly: bool = False) -> None:
    logarithmic(axes, ("" if evenly else "x") + ("y" if metric == "wait" else ""))
    if evenly:
        axes.set_xlim(left=0)
    axes.set_xlabel(label)
    axes.set_ylabel(LABELS[metric])
    if metric == "wait":
        slo(axes)
    elif metric == "busyness":
        axes.set_ylim(0, 1.05)
    else:
        axes.set_ylim(bottom=0)


def _crosses() -> Any:
    return handle("saturated", RED, "x", linestyle="")
