"""Figures 5 to 9 of the Omega paper from finished simulations: lines over a parameter, a column a cell."""

from collections.abc import Callable, Sequence
from typing import Any

from matplotlib.figure import Figure

from omega.experiments import arrivals, decision_time
from omega.experiments.experiment import along, at, where
from omega.experiments.metrics import KINDS, of, saturated, spread
from omega.experiments.plots.style import (
    GREY,
    LEAST_SECONDS,
    STYLES,
    Style,
    below,
    handle,
    key,
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
            if busyness:
                _lines(
                    axes,
                    line,
                    "t_job_service",
                    _busyness,
                    STYLES[architecture],
                    metric="busyness",
                    kinds=_served_by(architecture),
                )
            else:
                _lines(axes, line, "t_job_service", _wait, STYLES[architecture])
        axes.set_xscale("log")
        if busyness:
            axes.set_ylim(0, 1.05)
        else:
            axes.set_yscale("log")
            slo(axes)
    _columns(grid, cells, T_JOB, ["busyness (median of days)" if busyness else "mean job wait (s)"])
    key(figure, decision_time.ARCHITECTURES, crosses=True)
    return figure


def offers(records: Sequence[Record]) -> Figure:
    """Figure 7: wait, busyness and abandoned jobs of a two-level cell, beside shared state."""
    cells, shown = cells_of(records), ("two-level", "shared-state")
    figure, grid = sheet(3, len(cells), height=2.3, sharex=True, sharey="row")
    for column, cell in enumerate(cells):
        for architecture in shown:
            line = along(where(records, workload=cell, architecture=architecture), "t_job_service")
            style = STYLES[architecture]
            _lines(grid[0][column], line, "t_job_service", _wait, style)
            _lines(grid[1][column], line, "t_job_service", _busyness, style, metric="busyness")
            _lines(grid[2][column], line, "t_job_service", _abandoned, style)
        for row in grid:
            row[column].set_xscale("log")
        grid[0][column].set_yscale("log")
        slo(grid[0][column])
        grid[1][column].set_ylim(0, 1.05)
        grid[2][column].set_yscale("symlog", linthresh=1)
        grid[2][column].set_ylim(0, 2 * max(1.0, grid[2][column].get_ylim()[1]))
    _columns(grid, cells, T_JOB, ["mean job wait (s)", "busyness", "jobs abandoned"])
    key(figure, shown, crosses=True)
    return figure


def _abandoned(record: Record, kind: str) -> float:
    return of(record, kind, "abandoned")


def more_jobs(records: Sequence[Record]) -> Figure:
    """Figure 8: wait and busyness over the arrivals of batch jobs; where this and the paper's cell saturate."""
    cells = cells_of(records)
    figure, grid = sheet(2, len(cells), height=2.3, sharex="col", sharey="row")
    style = STYLES["shared-state"]
    for column, cell in enumerate(cells):
        line = along(where(records, workload=cell), "rate")
        _lines(grid[0][column], line, "rate", _wait, style)
        _lines(grid[1][column], line, "rate", _busyness, style, metric="busyness")
        low, high = arrivals.saturation(line)
        for row in grid:
            row[column].axvline(arrivals.PAPER[cell], color=GREY, linestyle="--", linewidth=1.2, zorder=1)
            if high < float("inf"):
                row[column].axvspan(low, high, color="#B00020", alpha=0.12, linewidth=0, zorder=0)
        grid[0][column].set_yscale("log")
        slo(grid[0][column])
        grid[1][column].set_ylim(0, 1.05)
        grid[0][column].annotate(
            f"paper {arrivals.PAPER[cell]:g}×",
            (arrivals.PAPER[cell], 0.4),
            xycoords=("data", "axes fraction"),
            xytext=(-3, 0),
            color=GREY,
            fontsize=8,
            textcoords="offset points",
            ha="right",
            va="center",
            rotation=90,
        )
    _columns(grid, cells, "batch jobs, times the cell's own", ["mean job wait (s)", "busyness (median of days)"])
    key(figure, ["shared-state"], crosses=True)
    return figure


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
        ("conflict fraction (batch)", lambda r, kind: of(r, kind, "conflict_fraction"), "conflict_fraction"),
        ("busyness of each batch scheduler", _busyness, "busyness"),
        ("mean wait of batch jobs (s)", _wait, None),
    ]
    for axes, (label, value, metric) in zip(grid[0], panels, strict=True):
        for number, style in zip(numbers, styles, strict=True):
            line = along(where(records, batch=number), "rate")
            _lines(axes, line, "rate", value, style, kinds=("batch",), metric=metric)
        axes.set_xlabel("batch jobs, times the cell's own")
        axes.set_ylabel(label)
    grid[0][0].set_ylim(bottom=0)
    grid[0][1].set_ylim(0, 1.05)
    grid[0][2].set_yscale("log")
    slo(grid[0][2])
    grid[0][0].set_title(preset(cells_of(records)[0]).label)
    below(figure, [handle(style.label, style.colour, style.marker) for style in styles], columns=6)
    return figure
