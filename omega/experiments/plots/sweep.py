"""The figure of any sweep: a panel a metric, the first parameter along it, a line for every other combination."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from omega.experiments.metrics import UNITS, chosen, saturated, spread
from omega.experiments.plots.style import PALETTE, STYLES, Style, below, kind_handles, save, series, sheet, styled
from omega.experiments.results import Record

MARKERS = "osD^vP*"
UNIT = {
    "t_job_batch": "s",
    "t_job_service": "s",
    "t_task": "s",
    "t_task_service": "s",
    "rate": "times the arrivals",
    "machines": "",
    "days": "simulated",
    "batch": "schedulers",
}


def draw_sweep(records: Sequence[Record], names: Sequence[str], metrics: Sequence[str], path: Path) -> None:
    """Draw `metrics` over the parameter `names[0]`. Raises BadInput."""
    with styled():
        save(_figure(records, names, metrics), path)


def _figure(records: Sequence[Record], names: Sequence[str], metrics: Sequence[str]) -> Figure:
    along, others = names[0], names[1:]
    columns: dict[str, tuple[str, str]] = {}
    for metric in metrics:
        columns |= {column: (kind, name) for column, kind, name, _ in chosen(records[0], metric)}
    panels: dict[str, list[str]] = {}
    for column, (kind, name) in columns.items():
        panels.setdefault(name if kind else column, []).append(column)
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        groups.setdefault(tuple(record["configuration"][name] for name in others), []).append(record)
    styles = {group: _style(i, others, group) for i, group in enumerate(groups)}
    figure, grid = sheet(1, len(panels), height=2.9)
    values = [record["configuration"][along] for record in records]
    for axes, (name, shown) in zip(grid[0], panels.items(), strict=True):
        for group, members in groups.items():
            for column in shown:
                _line(axes, along, members, columns[column], column, styles[group])
        axes.set_xlabel(f"{along} ({UNIT[along]})" if UNIT.get(along) else along)
        axes.set_ylabel(UNITS.get(name, name.replace("_", " ")))
        _scale(axes, values)
    handles = [each.handle for each in styles.values() if each.label]
    if len({kind for kind, _ in columns.values() if kind}) > 1:
        handles += kind_handles()
    if handles:
        below(figure, handles)
    return figure


def _style(number: int, others: Sequence[str], group: Sequence[Any]) -> Style:
    shown = [f"{value:g}" if isinstance(value, float) else str(value) for value in group]
    label = ", ".join(f"{name} {value}" for name, value in zip(others, shown, strict=True))
    if list(others) == ["architecture"] and group[0] in STYLES:
        return STYLES[group[0]]
    return Style(label, PALETTE[number % len(PALETTE)], MARKERS[number % len(MARKERS)])


def _line(axes: Any, along: str, members: Sequence[Record], what: tuple[str, str], column: str, style: Style) -> None:
    kind, name = what
    points = []
    for record in members:
        values = {label: value for label, _, _, value in chosen(record, column)}
        points.append((record["configuration"][along], values[column], record))
    if all(isinstance(x, int | float) for x, _, _ in points):
        points.sort(key=lambda point: float(point[0]))
    spreads = [spread(record, kind, name) if kind else 0.0 for _, _, record in points]
    full = [saturated(record, kind) if kind else False for _, _, record in points]
    series(
        axes,
        [x for x, _, _ in points],
        [y for _, y, _ in points],
        style=style,
        kind=kind or "batch",
        spread=spreads,
        full=full,
    )


def _scale(axes: Any, values: Sequence[Any]) -> None:
    """Logarithms along the axis when the values span more than a factor of 20, none of them 0."""
    numbers = [float(value) for value in values if isinstance(value, int | float)]
    if len(numbers) == len(values) and min(numbers) > 0 and max(numbers) / min(numbers) > 20:
        axes.set_xscale("log")
    elif len(numbers) == len(values) and len(set(numbers)) <= 8:
        axes.set_xticks(sorted(set(numbers)))
    if axes.get_ylim()[0] < 0:
        axes.set_ylim(bottom=0)
