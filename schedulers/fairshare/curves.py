"""Monotone, piecewise linear, left-continuous vector functions, many in one table.

A curve is a list of points (x, y) with x and y rising; y is a vector. Two points with one x are a jump: the
value at x is that of the first, the value just behind x that of the last. Behind its last point a curve is constant.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

TOLERANCE = 1e-12
"""Breakpoints closer than this are one breakpoint."""
SAME = 1e-15
"""Values closer than this are equal: no jump."""
SLACK = 1e-11
"""How far a sum may pass a bound by rounding and still be within it."""


class Curve(NamedTuple):
    """One curve: `x` of shape (n,), `y` of shape (n, columns)."""

    x: Floats
    y: Floats

    def at(self, x: float) -> Floats:
        """Return the value at `x`: at a jump the lower one."""
        return _read(self, x, "left")

    def behind(self, x: float) -> Floats:
        """Return the limit of the values just behind `x`: at a jump the upper one."""
        return _read(self, x, "right")


def _read(curve: Curve, x: float, side: str) -> Floats:
    """Interpolate at `x`; a breakpoint within the tolerance is `x` itself."""
    value: Floats
    first = int(np.searchsorted(curve.x, x - TOLERANCE, "left"))
    behind = int(np.searchsorted(curve.x, x + TOLERANCE, "right"))
    if behind > first:
        value = curve.y[first if side == "left" else behind - 1]
        return value
    if first in {0, len(curve.x)}:
        value = curve.y[min(first, len(curve.x) - 1)]
        return value
    low, high = first - 1, first
    part = (x - curve.x[low]) / (curve.x[high] - curve.x[low])
    value = curve.y[low] + part * (curve.y[high] - curve.y[low])
    return value


@dataclass(frozen=True)
class Curves:
    """Several curves, one behind the other: points `starts[i]` to `starts[i + 1]` are those of curve i."""

    x: Floats
    y: Floats
    starts: Integers

    def __len__(self) -> int:
        return len(self.starts) - 1

    def curve(self, index: int) -> Curve:
        """Return one of them."""
        part = slice(self.starts[index], self.starts[index + 1])
        return Curve(self.x[part], self.y[part])

    def take(self, chosen: Integers) -> "Curves":
        """Return those of the given numbers, in that order."""
        lengths = np.diff(self.starts)[chosen]
        starts = starts_of(lengths)
        rows = np.repeat(self.starts[chosen] - starts[:-1], lengths) + np.arange(starts[-1])
        return Curves(self.x[rows], self.y[rows], starts)

    def between(self, first: int, last: int) -> "Curves":
        """Return those from `first` up to, not including, `last`; the points are shared."""
        low, high = self.starts[first], self.starts[last]
        return Curves(self.x[low:high], self.y[low:high], self.starts[first : last + 1] - low)

    def times(self, factors: Floats) -> "Curves":
        """Return each curve's values × its own factor."""
        if (factors == 1.0).all():
            return self
        return Curves(self.x, self.y * factors[self.owners()][:, None], self.starts)

    def owners(self) -> Integers:
        """Return the curve's index of each point."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    def at(self, x: Floats) -> Floats:
        """Return the value of each curve at its own entry of `x`: shape (curves, columns)."""
        owners = self.owners()
        reached = np.bincount(owners, self.x < x[owners] - TOLERANCE, len(self)).astype(np.int64)
        high = np.minimum(self.starts[:-1] + reached, self.starts[1:] - 1)
        low = np.maximum(high - 1, self.starts[:-1])
        past = self.starts[:-1] + reached >= self.starts[1:]
        width = self.x[high] - self.x[low]
        inside = (self.x[high] > x + TOLERANCE) & (width > 0) & ~past
        part = np.where(inside, (x - self.x[low]) / np.where(width > 0, width, 1.0), 1.0)
        values: Floats = self.y[low] + part[:, None] * (self.y[high] - self.y[low])
        return values


def starts_of(lengths: npt.ArrayLike) -> Integers:
    """Return where each of some curves starts, one behind the other, and where the last one ends."""
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)


def join(parts: Sequence[Curve | Curves]) -> Curves:
    """Put single curves and tables of curves into one table."""
    lengths = [np.diff(part.starts) if isinstance(part, Curves) else [len(part.x)] for part in parts]
    x, y = np.concatenate([part.x for part in parts]), np.concatenate([part.y for part in parts])
    return Curves(x, y, starts_of(np.concatenate(lengths)))


def by_owner(owner: Integers, x: Floats, y: Floats, count: int) -> Curves:
    """Return `count` curves of points that are sorted by their curve's index, `owner`."""
    return Curves(x, y, starts_of(np.bincount(owner, minlength=count)))


def clean(owner: Integers, x: Floats, y: Floats) -> tuple[Integers, Floats, Floats]:
    """Keep of the points of one owner with one x the first and the last; one of them where both are equal."""
    if len(x) < 2:
        return owner, x, y
    new = np.empty(len(x), bool)
    new[0] = True
    new[1:] = (x[1:] - x[:-1] > TOLERANCE) | (owner[1:] != owner[:-1])
    last = np.empty(len(x), bool)
    last[-1] = True
    last[:-1] = new[1:]
    firsts = np.flatnonzero(new)
    of = firsts[np.cumsum(new) - 1]  # the first point of the group that each point is in
    keep = new | (last & (np.abs(y - y[of]).max(1) > SAME))
    return owner[keep], x[of][keep], y[keep]


def sides(curves: Curves) -> tuple[Floats, Floats, Floats]:
    """Return all breakpoints, and the values of each curve there and just behind.

    Shapes: (places,), then (curves, places, columns) twice.

    Every curve begins at the smallest x of all.
    """
    count = len(curves)
    order = np.argsort(curves.x, kind="stable")
    ordered = curves.x[order]
    new = np.empty(len(ordered), bool)
    new[0] = True
    new[1:] = np.diff(ordered) > TOLERANCE
    ranks = np.empty(len(ordered), np.int64)
    ranks[order] = np.cumsum(new) - 1
    places = ordered[new]
    width = len(places)
    keys = curves.owners() * width + ranks
    met_points = np.bincount(keys, minlength=count * width)
    right = np.cumsum(met_points) - 1
    left = right + 1 - met_points
    met = left <= right
    owner_end = np.repeat(curves.starts[1:], width)
    onward = np.where(left < owner_end, left, right)
    x = places[ranks]
    span = x[onward] - x[right]
    part = np.where(met | (span <= 0), 0.0, (np.tile(places, count) - x[right]) / np.where(span > 0, span, 1.0))
    high = curves.y[right]
    upper = high + part[:, None] * (curves.y[onward] - high)
    lower = np.where(met[:, None], curves.y[np.minimum(left, len(keys) - 1)], upper)
    shape = (count, width, curves.y.shape[1])
    return places, lower.reshape(shape), upper.reshape(shape)


def cut(curve: Curve, bound: Floats) -> Curve:
    """Return the curve up to the last x at which no component passes `bound`."""
    within = np.asarray((curve.y <= bound + SLACK).all(1))
    count = int(np.argmin(within)) if not within.all() else len(within)
    if count == len(within):
        return curve
    count = max(count, 1)
    x, y = curve.x[:count], curve.y[:count]
    if curve.x[count] - x[-1] <= TOLERANCE:
        return Curve(x, y)
    rise = curve.y[count] - y[-1]
    over = curve.y[count] > bound + SLACK
    part = float(np.clip(((bound - y[-1])[over] / rise[over]).min(), 0.0, 1.0))
    if part <= 0:
        return Curve(x, y)
    return Curve(
        np.append(x, x[-1] + part * (curve.x[count] - x[-1])),
        np.concatenate((y, (y[-1] + part * rise)[None])),
    )
