"""Charts as SVG from the server: bars, lines, sparklines. Colours and dashes are classes of the style sheet.

Drawings are stretched to their place; labels are HTML beside them, so that text keeps its size.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from markupsafe import Markup, escape

Series = Sequence[float | None]
MOST_POINTS = 100
"""Points of a line; more are averaged."""
MOST_LINES = 6
"""Lines of a chart, the number of distinct classes."""
LEAST_SPAN_MS = 10_000
"""Time between two points of a line: schedulers report every few seconds."""
WIDTH, HEIGHT = 600, 100


def bar(
    parts: Sequence[tuple[str, float]], label: str, *, marks: Sequence[tuple[str, float]] = (), whole: float = 1.0
) -> Markup:
    """Return a bar of consecutive parts (class, size) on a scale from 0 to `whole`, with marks (class, position).

    `label` describes it in words.
    """
    at, shapes = 0.0, []
    for kind, size in parts:
        width = max(0.0, min(1.0 - at, size / whole if whole else 0.0))
        if width:
            shapes.append(f'<rect class="{kind}" x="{_n(100 * at)}" width="{_n(100 * width)}" height="10"/>')
        at += width
    for kind, position in marks:
        x = _n(100 * min(1.0, position / whole if whole else 0.0))
        shapes.append(f'<path class="mark {kind}" d="M{x} 0v10"/>')
    return Markup(  # noqa: S704 - numbers and classes of our own; the label is escaped
        f'<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" role="img" aria-label="{escape(label)}">'
        f"{''.join(shapes)}</svg>"
    )


def spark(values: Series, label: str, *, top: float | None = None) -> Markup:
    """Return a line without axes from 0 to `top` (None: the largest value)."""
    thin = thinned(values)
    highest = top or max((each for each in thin if each is not None), default=0) or 1
    return Markup(  # noqa: S704 - as above
        f'<svg class="spark" viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img"'
        f' aria-label="{escape(label)}"><path class="line c0" d="{_path(thin, highest)}"/></svg>'
    )


def lines(
    series: Mapping[str, Series], label: str, *, top: float, top_text: str, left: Markup | str, right: Markup | str,
    texts: Mapping[str, Markup | str] | None = None,
) -> Markup:  # fmt: skip
    """Return lines over time, of at most `MOST_LINES` names, with a legend of their last values (`texts`).

    `top` is the value at the upper edge, `top_text` its label; `left` and `right` are the labels of the time axis.
    """
    drawn, legend = [], []
    for i, (name, values) in enumerate(list(series.items())[:MOST_LINES]):
        drawn.append(f'<path class="line c{i}" d="{_path(thinned(values), top or 1)}"/>')
        key = f'<svg class="key" viewBox="0 0 20 8" aria-hidden="true"><path class="line c{i}" d="M0 4h20"/></svg>'
        legend.append(Markup("<li>{}{} <b>{}</b></li>").format(Markup(key), name, (texts or {}).get(name, "")))  # noqa: S704
    drawing = Markup(  # noqa: S704 - as above
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" role="img" aria-label="{escape(label)}">'
        f'<path class="grid" d="M0 0h{WIDTH}M0 50h{WIDTH}M0 100h{WIDTH}"/>{"".join(drawn)}</svg>'
    )
    return Markup(
        '<div class="chart"><div class="plot"><span class="top">{}</span><span class="bottom">0</span>{}'
        '<span class="left">{}</span><span class="right">{}</span></div><ul class="legend">{}</ul></div>'
    ).format(top_text, drawing, left, right, Markup("").join(legend))


def thinned(values: Series, most: int = MOST_POINTS) -> list[float | None]:
    """Return at most `most` values, each the mean of its neighbours; None where none of them is known."""
    if len(values) <= most:
        return list(values)
    edges = [len(values) * i // most for i in range(most + 1)]
    means = []
    for begin, end in pairwise(edges):
        known = [each for each in values[begin:end] if each is not None]
        means.append(sum(known) / len(known) if known else None)
    return means


def sampled(at_ms: Sequence[int], values: Series, begin_ms: int, end_ms: int) -> list[float | None]:
    """Return the means of values over equal spans from `begin_ms` to `end_ms`, at least 15 s long; None without any."""
    points = max(2, min(MOST_POINTS, (end_ms - begin_ms) // LEAST_SPAN_MS))
    sums, counts = [0.0] * points, [0] * points
    for at, value in zip(at_ms, values, strict=True):
        if value is not None and at >= begin_ms:
            place = min((at - begin_ms) * points // max(1, end_ms - begin_ms), points - 1)
            sums[place] += value
            counts[place] += 1
    return [total / count if count else None for total, count in zip(sums, counts, strict=True)]


def nice(value: float) -> float:
    """Return the next of 1, 2, 5, 10, … at or above a value, as the top of an axis."""
    if value <= 0:
        return 1.0
    power = 10.0 ** (len(str(int(value))) - 1 if value >= 1 else -3)
    while True:
        for step in (1, 2, 5):
            if step * power >= value:
                return step * power
        power *= 10


def _path(values: Series, top: float) -> str:
    """Return a path through the known values; it is interrupted where one is unknown."""
    step, path, pen = WIDTH / max(1, len(values) - 1), [], "M"
    for i, value in enumerate(values):
        if value is None:
            pen = "M"
            continue
        y = HEIGHT - HEIGHT * max(0.0, min(1.0, value / top))
        path.append(f"{pen}{i * step:.0f} {y:.0f}")
        pen = "L"
    if len(path) == 1:
        path.append("h2")
    return "".join(path)


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
