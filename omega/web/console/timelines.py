"""Bars over time, several on one scale: the attempts at the tasks of a job, and where tasks of pools went.

As in `charts`, drawings are stretched to their place, and texts are HTML beside them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from markupsafe import Markup, escape

WIDTH = 1000.0
LEAST_WIDTH = 3.0
"""Width of the shortest bar: also a task that ended at once is seen."""


class Span(NamedTuple):
    """A bar from a time to a later one (None: it goes on), with a class and a text."""

    kind: str
    start_ms: int
    end_ms: int | None
    text: str


class Mark(NamedTuple):
    """A point in time with a class and a text."""

    kind: str
    at_ms: int
    text: str


class Scale(NamedTuple):
    """The times at the left and the right edge, in ms."""

    begin_ms: int
    end_ms: int

    def x(self, at_ms: int) -> float:
        """Return a position from 0 to `WIDTH`."""
        whole = max(1, self.end_ms - self.begin_ms)
        return WIDTH * max(0.0, min(1.0, (at_ms - self.begin_ms) / whole))


def timeline(spans: Sequence[Span], marks: Sequence[Mark], scale: Scale, label: str) -> Markup:
    """Return bars and marks of one row; each shows its text as a tool tip, `label` has all of them in words."""
    shapes = []
    for span in spans:
        left = scale.x(span.start_ms)
        width = max(LEAST_WIDTH, scale.x(scale.end_ms if span.end_ms is None else span.end_ms) - left)
        left = min(left, WIDTH - LEAST_WIDTH)
        place = f'x="{left:.0f}" y="2" width="{width:.0f}" height="8"'
        shapes.append(f'<rect class="is {escape(span.kind)}" {place}><title>{escape(span.text)}</title></rect>')
    for mark in marks:
        path = f'd="M{scale.x(mark.at_ms):.0f} 0v12"'
        shapes.append(f'<path class="mark {escape(mark.kind)}" {path}><title>{escape(mark.text)}</title></path>')
    return Markup(  # noqa: S704 - numbers of our own; texts are escaped
        f'<svg class="timeline" viewBox="0 0 {WIDTH:.0f} 12" preserveAspectRatio="none" role="img"'
        f' aria-label="{escape(label)}">{"".join(shapes)}</svg>'
    )


class Flow(NamedTuple):
    """Names at the left and at the right, and the ribbons between them."""

    sources: Sequence[str]
    targets: Sequence[str]
    drawing: Markup


def flow(rows: Iterable[Mapping[str, Any]], most: int = 12) -> Flow:
    """Return the largest flows between names (``from``, ``to``, ``tasks``), each a ribbon of a width by its tasks."""
    largest = sorted(rows, key=lambda row: -row["tasks"])[:most]
    sources = list(dict.fromkeys(row["from"] for row in largest))
    targets = list(dict.fromkeys(row["to"] for row in largest))
    height, top = max(len(sources), len(targets), 1), max((row["tasks"] for row in largest), default=1)
    ribbons = []
    for row in largest:
        y1, y2 = (
            (names.index(row[end]) + 0.5) * height / len(names) * 20
            for end, names in (("from", sources), ("to", targets))
        )
        width = 2 + 12 * row["tasks"] / top
        ribbons.append(
            f'<path class="ribbon c{sources.index(row["from"]) % 6}" stroke-width="{width:.0f}"'
            f' d="M0 {y1:.0f}C50 {y1:.0f} 50 {y2:.0f} 100 {y2:.0f}"/>'
        )
    return Flow(
        sources,
        targets,
        Markup(  # noqa: S704 - numbers of our own
            f'<svg class="flow" viewBox="0 0 100 {height * 20}" height="{height * 2}rem" preserveAspectRatio="none"'
            f' aria-hidden="true">{"".join(ribbons)}</svg>'
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolAmounts:
    """Parts of the machines of a tree; None where there is no guarantee or limit."""

    usage: float
    demand: float
    fair_share: float
    guarantee: float | None = None
    limit: float | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any], resource: str, total: int) -> "PoolAmounts":
        """Return those of a row of ``omega pool list`` for a resource of which the tree has `total`."""
        strong = row["strong"].get(resource) or None
        limit = row["limits"].get(resource)
        part = None if limit is None or not total else limit / total
        parts = {name: row[name][resource] for name in ("usage", "demand", "fair_share")}
        return cls(**parts, guarantee=strong, limit=part)


def pool_scale(rows: Iterable[PoolAmounts]) -> float:
    """Return the value at the right edge of all pools: what they hold or want, at most the whole tree."""
    largest = max((max(row.demand, row.fair_share, row.usage, row.guarantee or 0) for row in rows), default=1.0)
    return min(1.0, largest * 1.05) if largest > 0 else 1.0


def pool_bars(amounts: PoolAmounts, top: float, label: str, *, starving: bool = False) -> Markup:
    """Return the amounts of a pool on a scale from 0 to `top`; demand beyond it ends in an arrow."""

    def x(part: float) -> float:
        return 100 * min(1.0, part / top)

    demand, usage, fair = x(amounts.demand), x(amounts.usage), x(amounts.fair_share)
    shapes = [f'<rect class="demand" y="3" width="{demand:.1f}" height="14"/>']
    shapes.append(f'<rect class="usage" y="6" width="{usage:.1f}" height="8"/>')
    if starving and fair > usage:
        shapes.append(f'<rect class="lack" x="{usage:.1f}" y="6" width="{fair - usage:.1f}" height="8"/>')
    if amounts.guarantee is not None:
        shapes.append(f'<path class="guarantee" d="M{x(amounts.guarantee):.1f} 1v18"/>')
    if amounts.limit is not None and amounts.limit <= top:
        shapes.append(f'<path class="limit" d="M{x(amounts.limit):.1f} 0v20"/>')
    shapes.append(f'<path class="fair" d="M{fair:.1f} 0v20"/>')
    if amounts.demand > top:
        shapes.append('<path class="beyond" d="M97.5 4l2.5 6l-2.5 6z"/>')
    return Markup(  # noqa: S704 - numbers of our own; the label is escaped
        f'<svg class="pool-bars" viewBox="0 0 100 20" preserveAspectRatio="none" role="img"'
        f' aria-label="{escape(label)}">{"".join(shapes)}</svg>'
    )
