"""Monotone, piecewise linear, left-continuous vector functions, many in one table.

A curve is a list of points (x, y) with x and y rising; y is a vector. Two points with one x are a jump: the
value at x is that of the first, the value just behind x that of the last. Behind its last point a curve is constant.
"""

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
_DENSE = 4096
"""A sum of curves × breakpoints up to this many values is computed in one step, a larger one by halves."""


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
    found: Floats
    first = int(np.searchsorted(curve.x, x - TOLERANCE, "left"))
    behind = int(np.searchsorted(curve.x, x + TOLERANCE, "right"))
    if behind > first:
        found = curve.y[first if side == "left" else behind - 1]
        return found
    if first in {0, len(curve.x)}:
        found = curve.y[min(first, len(curve.x) - 1)]
        return found
    low, high = first - 1, first
    part = (x - curve.x[low]) / (curve.x[high] - curve.x[low])
    found = curve.y[low] + part * (curve.y[high] - curve.y[low])
    return found


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
        found: Floats = self.y[low] + part[:, None] * (self.y[high] - self.y[low])
        return found


def join(curves: list[Curve]) -> Curves:
    """Put single curves into one table."""
    lengths = [len(curve.x) for curve in curves]
    starts = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    return Curves(np.concatenate([curve.x for curve in curves]), np.concatenate([curve.y for curve in curves]), starts)


def append(first: Curves, second: Curves) -> Curves:
    """Return the curves of both tables, those of `first` first."""
    if not len(first):
        return second
    if not len(second):
        return first
    starts = np.concatenate((first.starts, second.starts[1:] + first.starts[-1]))
    return Curves(np.concatenate((first.x, second.x)), np.concatenate((first.y, second.y)), starts)


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


def total(curves: Curves, squeeze: Floats) -> Curve:
    """Return Σ curve_i(min(1, x ÷ squeeze_i)) for x in [0, 1]: each curve on [0, 1] compressed by its own factor."""
    found = _sum(Curves(curves.x * np.repeat(squeeze, np.diff(curves.starts)), curves.y, curves.starts))
    if found.x[-1] >= 1.0 - TOLERANCE:
        return found
    return Curve(np.append(found.x, 1.0), np.concatenate((found.y, found.y[-1:])))


def _sum(curves: Curves) -> Curve:
    count = len(curves)
    if count == 1:
        return Curve(curves.x, curves.y)
    if count > 2 and count * len(curves.x) > _DENSE:
        half = count // 2
        return _sum(join([_sum(curves.between(0, half)), _sum(curves.between(half, count))]))
    places, lower, upper = sides(curves)
    low, high = lower.sum(0), upper.sum(0)
    doubled = np.repeat(places, 2)
    values = np.empty((len(doubled), low.shape[1]))
    values[0::2], values[1::2] = low, high
    keep = np.ones(len(doubled), bool)
    keep[1::2] = (high - low).max(1) > SAME
    return Curve(doubled[keep], values[keep])


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


def chain(curves: Curves) -> Curve:
    """Return F(k + x) = Σ_{i<k} curve_i(1) + curve_k(x) for x in [0, 1]: one curve behind the other."""
    ends = curves.at(np.ones(len(curves)))
    before = np.concatenate((np.zeros((1, ends.shape[1])), np.cumsum(ends, axis=0)))
    inner = curves.x < 1.0 - TOLERANCE
    owners = curves.owners()[inner]
    x = np.concatenate((curves.x[inner] + owners, np.arange(len(curves)) + 1.0))
    y = np.concatenate((curves.y[inner] + before[owners], before[1:]))
    where = np.concatenate((owners, np.arange(len(curves))))
    order = np.lexsort((x, where))
    _, x, y = clean(np.zeros(len(order), np.int64), x[order], y[order])
    return Curve(x, y)


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


def _closed(curve: Curve) -> Curve:
    """Return the curve without a jump at its end: the value there is the lower one."""
    end = int(np.searchsorted(curve.x, curve.x[-1] - TOLERANCE, "left")) + 1
    return Curve(curve.x[:end], curve.y[:end])


def with_corners(curve: Curve, heights: Floats) -> tuple[Curve, Floats]:
    """Add the points at which the greatest column of `heights` changes, so that their maximum is linear in between.

    `heights` has the shape (points, any) and is linear between neighbouring points as the curve itself.
    """
    for _ in range(heights.shape[1]):
        highest = heights.argmax(1)
        if (highest[1:] == highest[:-1]).all():
            break  # the same column leads at both ends of each piece, so also in between: lines are convex
        low, high = heights[:-1], heights[1:]
        rows = np.arange(len(low))
        leader = np.where(low >= low.max(1, keepdims=True) - TOLERANCE, high, -np.inf).argmax(1)
        follower = np.where(high >= high.max(1, keepdims=True) - TOLERANCE, low, -np.inf).argmax(1)
        gap = high[rows, follower] - high[rows, leader]
        ahead = low[rows, leader] - low[rows, follower]
        at = np.flatnonzero((gap > TOLERANCE) & (ahead > TOLERANCE) & (np.diff(curve.x) > TOLERANCE))
        if not len(at):
            break
        part = ahead[at] / (ahead[at] + gap[at])
        curve = Curve(
            np.insert(curve.x, at + 1, curve.x[at] + part * (curve.x[at + 1] - curve.x[at])),
            np.insert(curve.y, at + 1, curve.y[at] + part[:, None] * (curve.y[at + 1] - curve.y[at]), axis=0),
        )
        heights = np.insert(heights, at + 1, low[at] + part[:, None] * (high[at] - low[at]), axis=0)
    return curve, heights


def by_suggestion(curve: Curve, guarantee: Floats, limit: Floats) -> Curve:
    """Return S and M of an element whose shares by fit factor are `curve`: columns of S, then one for M.

    A suggestion s lies on top of the guarantee, equal in every component, and is cut by the limit. M(s) is the
    largest fit factor that it allows and S(s) the share there. M is the inverse of H(f) = max_r(F_r(f) − g_r), so
    both are read from one list of points (H, F, f). At s = 0 the right end of a plateau of H counts. The last
    point of `curve` is the end of its domain: nothing lies behind a jump there.
    """
    curve = _closed(curve)
    limit = np.clip(limit, curve.y[0], curve.y[-1])
    guarantee = np.clip(guarantee, curve.y[0], limit)
    curve = _closed(cut(curve, limit))
    heights = np.concatenate((np.zeros((len(curve.x), 1)), curve.y - guarantee), axis=1)
    curve, heights = with_corners(curve, heights)
    height = np.maximum.accumulate(heights.max(1))
    start = int(np.searchsorted(height, TOLERANCE, "right")) - 1
    height, factor, share = height[start:], curve.x[start:], curve.y[start:]
    height[0] = 0.0
    points = np.concatenate((share, factor[:, None]), axis=1)
    jumps = np.flatnonzero((factor[1:] - factor[:-1] <= TOLERANCE) & (height[1:] - height[:-1] > TOLERANCE))
    if len(jumps):
        points = np.insert(points, jumps + 1, points[jumps], axis=0)
        height = np.insert(height, jumps + 1, height[jumps + 1])
    _, x, y = clean(np.zeros(len(height), np.int64), height, points)
    return _until_one(Curve(x, y))


def _until_one(curve: Curve) -> Curve:
    """Return the curve on [0, 1]; at a jump at 1 the lower value holds."""
    beyond = int(np.searchsorted(curve.x, 1.0 + TOLERANCE, "right"))
    if curve.x[beyond - 1] >= 1.0 - TOLERANCE:
        last = int(np.searchsorted(curve.x, 1.0 - TOLERANCE, "left"))
        return Curve(curve.x[: last + 1], curve.y[: last + 1])
    if beyond == len(curve.x):
        return curve
    return Curve(np.append(curve.x[:beyond], 1.0), np.concatenate((curve.y[:beyond], curve.at(1.0)[None])))
