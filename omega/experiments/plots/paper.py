"""Figures 5 to 9 of the Omega paper from finished simulations: lines over a parameter, a column a cell."""

from collections.abc import Callable, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from omega.experiments import arrivals, decision_time
from omega.experiments.experiment import along, at, where
from omega.experiments.metrics import KINDS, of, saturated, spread
from omega.experiments.plots.style import (
    GREY,
    LEAST_SECONDS,
    RED,
    STYLES,
    Style,
    below,
    handle,
    key,
    logarithmic,
    series,
    sheet,
    slo,
)
from omega.experiments.results import Record
from omega.workload.presets import preset

Value = Callable[[Record, str], float]
T_JOB = "t_job(service) (s)"


def cells_of(records: Sequence[Record]) -> list[str]:
    """Return the presets that were simulated, in order."""
    return sorted({at(record, "workload") for record in records})


def _wait(record: Record, kind: str) -> float:
    return max(of(record, kind, "wait"), LEAST_SECONDS)


def _busyness(record: Record, kind: str) -> float:
    return of(record, kind, "busyness")


def _lines(
    axes: Any,
    line: Sequence[Record],
    parameter: str,
    value: Value,
    style: Style,
    *,
    kinds: Sequence[str] = KINDS,
    metric: str | None = None,
    rings: bool = False,
) -> None:
    """A line for each kind of job; error bars when `metric` has daily values."""
    for kind in kinds:
        shown = _until_saturated(line, kind) if value is _wait else line
        series(
            axes,
            [at(record, parameter) for record in shown],
            [value(record, kind) for record in shown],
            style=style,
            kind=kind,
            full=[saturated(record, kind) for record in shown],
            spread=[spread(record, kind, metric) for record in shown] if metric else None,
            rings=rings,
        )


def _until_saturated(line: Sequence[Record], kind: str) -> Sequence[Record]:
    """Return the points up to the first saturated one: beyond it, a mean wait reflects the length of the run."""
    full = next((i for i, record in enumerate(line) if saturated(record, kind)), len(line))
    return line[: full + 1]


def _served_by(architecture: str) -> Sequence[str]:
    """Return the kinds that have a scheduler of their own: one that serves both is drawn once."""
    return ("batch",) if architecture.startswith("monolithic") else KINDS


def _columns(grid: Any, cells: Sequence[str], x_label: str, y_labels: Sequence[str]) -> None:
    for axes, cell in zip(grid[0], cells, strict=True):
        axes.set_title(preset(cell).label)
    for axes in grid[-1]:
        axes.set_xlabel(x_label)
    for row, label in zip(grid, y_labels, strict=True):
        row[0].set_ylabel(label)


def decision_times(records: Sequence[Record], *, busyness: bool) -> Figure:
    """Figures 5 (wait) and 6 (busyness) over the service scheduler's decision time."""
    cells = cells_of(records)
    figure, grid = sheet(1, len(cells), sharey=True)
    for axes, cell in zip(grid[0], cells, strict=True):
        for architecture in decision_time.ARCHITECTURES:
            line = along(where(records, workload=cell, architecture=architecture), "t_job_service")
            style = STYLES[architecture]
            if busyness:
                kinds = _served_by(architecture)
                _lines(axes, line, "t_job_service", _busyness, style, metric="busyness", kinds=kinds)
            else:
                _lines(axes, line, "t_job_service", _wait, style)
        logarithmic(axes, "x" if busyness else "xy")
        if busyness:
            axes.set_ylim(0, 1.05)
        else:
            slo(axes)
    _columns(grid, cells, T_JOB, ["busyness (median of days)" if busyness else "mean job wait (s)"])
    key(figure, decision_time.ARCHITECTURES, crosses=True)
    return figure


def offers(records: Sequence[Record]) -> Figure:
    """Figure 7: waits, busyness and abandoned jobs of a two-level cell, beside shared state in open markers."""
    cells, shown = cells_of(records), ("shared-state", "two-level")
    rows: list[tuple[str, Value, str, str | None]] = [
        ("wait of batch\njobs, mean (s)", _wait, "batch", None),
        ("wait of service\njobs, mean (s)", _wait, "service", None),
        ("busyness of batch\nscheduler", _busyness, "batch", "busyness"),
        ("batch jobs\nabandoned", _abandoned, "batch", None),
    ]
    figure, grid = sheet(len(rows), len(cells), width=4.0, height=1.55, sharex=True, sharey="row")
    for column, cell in enumerate(cells):
        for row, (_, value, kind, metric) in zip(grid, rows, strict=True):
            for name in shown:
                line = along(where(records, workload=cell, architecture=name), "t_job_service")
                more: Any = {"kinds": (kind,), "metric": metric, "rings": name == "shared-state"}
                _lines(row[column], line, "t_job_service", value, STYLES[name], **more)
            logarithmic(row[column], "xy" if value is _wait else "x")
            if value is _wait:
                slo(row[column])
        grid[2][column].set_ylim(0, 1.05)
        grid[3][column].set_ylim(-0.1, max(1.2, 1.2 * grid[3][column].get_ylim()[1]))
        grid[3][column].yaxis.set_major_locator(MaxNLocator(4, integer=True))
    _columns(grid, cells, T_JOB, [label for label, *_ in rows])
    key(figure, shown, kinds=False, crosses=True, rings=True)
    return figure


def _abandoned(record: Record, kind: str) -> float:
    return of(record, kind, "abandoned")


def more_jobs(records: Sequence[Record]) -> Figure:
    """Figure 8: wait and busyness of batch jobs over their arrivals; where this and the paper's cell saturate."""
    cells = cells_of(records)
    figure, grid = sheet(2, len(cells), height=2.1, sharex="col", sharey="row")
    style = STYLES["shared-state"]
    for column, cell in enumerate(cells):
        line = along(where(records, workload=cell), "rate")
        _lines(grid[0][column], line, "rate", _wait, style, kinds=("batch",))
        _lines(grid[1][column], line, "rate", _busyness, style, kinds=("batch",), metric="busyness")
        low, high = arrivals.saturation(line)
        for row in grid:
            row[column].axvline(arrivals.PAPER[cell], **_PAPER)
            if high < float("inf"):
                row[column].axvspan(low, high, **_HERE)
        rates = [at(record, "rate") for record in line]
        grid[1][column].set_xticks(rates, [f"{rate:g}" for rate in rates])
        logarithmic(grid[0][column], "y")
        slo(grid[0][column])
        grid[1][column].set_ylim(0, 1.05)
    labels = ["wait of batch\njobs, mean (s)", "busyness of batch\nscheduler"]
    _columns(grid, cells, "batch jobs, times the cell's own", labels)
    entries: list[Any] = [handle("batch jobs, shared state", style.colour, style.marker)]
    entries.append(handle("saturated", RED, "x", linestyle=""))
    entries += [Patch(label="saturates here", **_HERE), Line2D([], [], label="saturates in the paper", **_PAPER)]
    below(figure, entries)
    return figure


_PAPER: Any = {"color": GREY, "linestyle": "--", "linewidth": 1.4, "zorder": 1}
_HERE: Any = {"color": RED, "alpha": 0.12, "linewidth": 0, "zorder": 0}


def more_schedulers(records: Sequence[Record]) -> Figure:
    """Figure 9: conflict fraction, busyness of each and wait over arrivals, a line for each number of schedulers."""
    numbers = sorted({at(record, "batch") for record in records})
    figure, grid = sheet(1, 3)
    shades = ("#9ECAE1", "#56B4E9", "#0072B2", "#E69F00", "#D55E00", "#000000")
    styles = [
        Style(f"{number} scheduler{'s' if number > 1 else ''}", shades[i % len(shades)], "osD^vP"[i % 6])
        for i, number in enumerate(numbers)
    ]
    panels: list[tuple[str, Value, str | None]] = [
        ("conflict fraction\nof batch jobs", lambda r, kind: of(r, kind, "conflict_fraction"), "conflict_fraction"),
        ("busyness of each\nbatch scheduler", _busyness, "busyness"),
        ("wait of batch\njobs, mean (s)", _wait, None),
    ]
    for axes, (label, value, metric) in zip(grid[0], panels, strict=True):
        for number, style in zip(numbers, styles, strict=True):
            line = along(where(records, batch=number), "rate")
            _lines(axes, line, "rate", value, style, kinds=("batch",), metric=metric)
        axes.set_xlabel("batch jobs, times the cell's own")
        axes.set_ylabel(label)
    grid[0][0].set_ylim(bottom=0)
    grid[0][1].set_ylim(0, 1.05)
    logarithmic(grid[0][2], "y")
    slo(grid[0][2])
    grid[0][0].set_title(preset(cells_of(records)[0]).label)
    below(figure, [style.handle for style in styles], columns=6)
    return figure
