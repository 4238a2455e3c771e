"""Style of all figures: a colour and marker per architecture, a line style per kind of job, units on axes.

The colours are Okabe and Ito's, which colour-blind readers can distinguish; markers distinguish lines without colour.
"""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullLocator

from omega.cellstate.errors import BadInput

SLO_SECONDS = 30.0
LEAST_SECONDS = 1e-3
"""Waits below this value are drawn at it: a logarithmic axis has no 0."""
CHARACTERS = 14
"""Characters of small print per inch."""
GREY, RED = "#666666", "#B00020"
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


@dataclass(frozen=True, slots=True)
class Style:
    """Name, colour and marker of an architecture."""

    label: str
    colour: str
    marker: str

    @property
    def handle(self) -> Line2D:
        """The entry of a legend."""
        return handle(self.label, self.colour, self.marker)


STYLES = {
    "monolithic-single": Style("monolithic, single-path", "#000000", "o"),
    "monolithic-multi": Style("monolithic, multi-path", "#E69F00", "s"),
    "partitioned": Style("statically partitioned", "#009E73", "v"),
    "two-level": Style("two-level (Mesos)", "#D55E00", "^"),
    "shared-state": Style("shared state (Omega)", "#0072B2", "D"),
}
LINES: dict[str, Any] = {"batch": "-", "service": "--"}
RULES: Any = {
    "axes.edgecolor": "#444444", "axes.grid": True, "axes.spines.right": False, "axes.spines.top": False,
    "axes.titlesize": 11.5, "axes.titleweight": "bold", "axes.titlelocation": "left",
    "errorbar.capsize": 2, "figure.dpi": 100, "font.size": 10.5,
    "grid.color": "#DDDDDD", "grid.linewidth": 0.6, "legend.frameon": False, "lines.linewidth": 1.6,
    "lines.markersize": 5, "svg.fonttype": "none", "svg.hashsalt": "omega",
}  # a table # fmt: skip
"""matplotlib's settings; the salt makes the same figure the same file."""


def styled() -> AbstractContextManager[None]:
    """Return the settings while a figure is drawn."""
    return mpl.rc_context(RULES)


def sheet(rows: int, columns: int, *, width: float = 3.0, height: float = 2.7, **shared: Any) -> tuple[Figure, Any]:
    """Return a figure and its axes, always as an array of rows; inches per panel."""
    figure = Figure(figsize=(width * columns + 0.6, height * rows + 0.8), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **shared)


def series(
    axes: Axes,
    x: Sequence[float],
    y: Sequence[float],
    *,
    style: Style,
    kind: str = "batch",
    spread: Sequence[float] | None = None,
    full: Sequence[bool] = (),
    rings: bool = False,
) -> None:
    """Draw one line with its markers and error bars; crosses where the scheduler was saturated (`full`).

    `rings`: with large open markers, which stay visible around the markers of an equal line.
    """
    filled = "none" if rings else style.colour if kind == "batch" else "white"
    shown = spread if spread is not None and any(spread) else None
    axes.errorbar(
        x,
        y,
        yerr=shown,
        color=style.colour,
        linestyle=LINES[kind],
        marker=style.marker,
        markerfacecolor=filled,
        markersize=10 if rings else None,
        elinewidth=1.0,
        capsize=2,
    )
    lost = [(a, b) for a, b, is_full in zip(x, y, full, strict=False) if is_full]
    if lost:
        axes.plot(*zip(*lost, strict=True), linestyle="", marker="x", color=RED, markersize=8, zorder=5)


def slo(axes: Axes) -> None:
    """Draw the line of 30 seconds (Omega §4)."""
    axes.axhline(SLO_SECONDS, color=GREY, linestyle=":", linewidth=1.2, zorder=1)
    axes.annotate(
        "SLO 30 s", (0.01, SLO_SECONDS), xycoords=("axes fraction", "data"), color=GREY, fontsize=9, va="bottom"
    )


def logarithmic(axes: Axes, names: str) -> None:
    """Make axes logarithmic (`names`: "x", "y" or "xy"), with decimal numbers at powers of ten and no other ticks."""
    for name in names:
        axes.set(**{f"{name}scale": "log"})
        axis = axes.xaxis if name == "x" else axes.yaxis
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        axis.set_minor_locator(NullLocator())


def handle(label: str, colour: str, marker: str = "", linestyle: Any = "-") -> Line2D:
    """Return an entry of a legend."""
    return Line2D([], [], color=colour, marker=marker, linestyle=linestyle, label=label)


def kind_handles() -> list[Line2D]:
    """Return entries of line styles: batch with full lines and markers, service with dashed lines and empty markers."""
    fill = {"batch": GREY, "service": "white"}
    return [
        Line2D([], [], color=GREY, linestyle=style, label=kind, marker="o", markerfacecolor=fill[kind])
        for kind, style in LINES.items()
    ]


def key(
    figure: Figure, architectures: Iterable[str], *, kinds: bool = True, crosses: bool = False, rings: bool = False
) -> None:
    """Draw one legend of architectures below all panels; `rings`: the first one has large open markers."""
    handles = [STYLES[name].handle for name in architectures]
    if rings:
        handles[0].set(markersize=10, markerfacecolor="none")
    handles += kind_handles() if kinds else []
    if crosses:
        handles.append(Line2D([], [], color=RED, linestyle="", marker="x", markersize=8, label="saturated"))
    below(figure, handles)


def titled(figure: Figure, title: str, details: str) -> None:
    """Make room above all panels for a title and, smaller, the parameters of the simulation."""
    width, height = figure.get_size_inches()
    lines = fill(details, int(CHARACTERS * width), break_on_hyphens=False)
    room = 0.3 + 0.18 * (lines.count("\n") + 1)
    figure.set_size_inches(width, height + room)
    top, left = height + room, 0.1 / width
    engine: Any = figure.get_layout_engine()
    engine.set(rect=(0, 0, 1, height / top))
    figure.text(left, 1 - 0.05 / top, title, fontsize=12.5, fontweight="bold", ha="left", va="top")
    figure.text(left, 1 - 0.32 / top, lines, fontsize=9, color=GREY, ha="left", va="top")


def below(figure: Figure, handles: Sequence[Any], columns: int | None = None, title: str | None = None) -> None:
    """Draw a legend under the panels."""
    columns = columns or min(len(handles), max(3, int(figure.get_figwidth() / 1.7)))
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, frameon=False, title=title, fontsize=10)


def save(figure: Figure, *paths: Path) -> None:
    """Write a figure in the format of its file extension. Raises BadInput when it cannot be written."""
    for path in paths:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(
                path, dpi=130, bbox_inches="tight", metadata={"Date": None} if path.suffix == ".svg" else None
            )
        except OSError as error:
            raise BadInput(f"figure {path}: cannot be written ({error.strerror}); name another place") from None
