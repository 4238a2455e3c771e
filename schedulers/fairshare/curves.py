"""Monotone, piecewise linear, left-continuous vector functions, many in one table.

A curve is a list of points (x, y) with x and y rising; y is a vector. Two points with one x are a jump: the
value at x is that of the first, the value just behind x that of the last. Behind its last point a curve is constant.
Shares of many pools by fit factor are sums of their children's curves, of FIFO pools these one behind the other
(`totals`, `chains`); shares by suggestion follow from them (`by_suggestion`).
"""

from collections.abc import Callable, Sequence
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
_HALVINGS, _NEAR, _ROUNDING = 100, 1e-8, 1e-13
"""Steps of a bisection; how far the slack of its bound may carry it past a jump; that slack."""
_PAIRS = 40_000
"""Values of curves at breakpoints that one step computes: few enough to stay in the processor's cache."""


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


def totals(children: Curves, squeeze: Floats, groups: Integers, count: int) -> Curves:
    """Return F of each group: Σ curve_i(min(1, x ÷ squeeze_i)) for x in [0, 1].

    Each curve on [0, 1] is compressed by its own factor. `groups`: group of each curve, rising; a group without
    curves is 0.
    """
    lengths = np.diff(children.starts)
    scaled = Curves(children.x * np.repeat(squeeze, lengths), children.y, children.starts)
    bounds = np.searchsorted(groups, np.arange(count + 1))
    pairs = np.diff(bounds) * np.diff(children.starts[bounds])
    tables: list[Curves] = []
    first = 0
    while first < count:
        last, size = first + 1, int(pairs[first])
        while last < count and size + pairs[last] <= _PAIRS:
            size += int(pairs[last])
            last += 1
        part = scaled.between(bounds[first], bounds[last])
        if size > _PAIRS:
            tables.append(_by_halves(part))
        else:
            tables.append(_sums(part, groups[bounds[first] : bounds[last]] - first, last - first))
        first = last
    return _until_one(join(tables))


def _by_halves(curves: Curves) -> Curves:
    """Sum many curves: the halves first, so that no step needs all curves at all breakpoints."""
    count = len(curves)
    if count <= 2 or count * len(curves.x) <= _PAIRS:
        return _sums(curves, np.zeros(count, np.int64), 1)
    half = count // 2
    return _by_halves(join([_by_halves(curves.between(0, half)), _by_halves(curves.between(half, count))]))


def _sums(curves: Curves, groups: Integers, count: int) -> Curves:
    """Sum the curves of each group at all their breakpoints. Every curve begins at 0."""
    width = curves.y.shape[1]
    empty = np.bincount(groups, minlength=count) == 0
    if empty.any():
        zero = Curve(np.zeros(1), np.zeros((1, width)))
        curves = join([curves, *[zero] * int(empty.sum())])
        groups = np.concatenate((groups, np.flatnonzero(empty)))
    owners = curves.owners()
    of_point = groups[owners]
    order = np.lexsort((curves.x, of_point))
    ordered, group = curves.x[order], of_point[order]
    new = np.ones(len(ordered), bool)
    new[1:] = (ordered[1:] - ordered[:-1] > TOLERANCE) | (group[1:] != group[:-1])
    ranks = np.empty(len(ordered), np.int64)
    ranks[order] = np.cumsum(new) - 1
    places, of_place = ordered[new], group[new]
    breadth = np.bincount(of_place, minlength=count)
    begins = np.cumsum(breadth) - breadth
    upper, jumps = _at_places(curves, ranks, places, (breadth[groups], begins[groups]))
    low = np.stack([upper[column] - jumps[column] for column in range(width)], axis=1)
    high = np.stack(list(upper), axis=1)
    doubled = np.repeat(places, 2)
    values = np.empty((len(doubled), width))
    values[0::2], values[1::2] = low, high
    keep = np.ones(len(doubled), bool)
    keep[1::2] = (high - low).max(1, initial=0.0) > SAME
    return by_owner(np.repeat(of_place, 2)[keep], doubled[keep], values[keep], count)


def _at_places(
    curves: Curves, ranks: Integers, places: Floats, extent: tuple[Integers, Integers]
) -> tuple[list[Floats], list[Floats]]:
    """Return the sums just behind each place and how far they jump there, by column.

    `ranks`: place of each point; `extent`: number of places of each curve's group and the first of them.
    """
    breadth, begins = extent
    offsets = np.cumsum(breadth) - breadth
    size = int(breadth.sum())
    owners = curves.owners()
    keys = offsets[owners] + ranks - begins[owners]
    met = np.bincount(keys, minlength=size)
    right = np.cumsum(met) - 1
    place = np.arange(size) - np.repeat(offsets - begins, breadth)
    ends = np.repeat(curves.starts[1:], breadth)
    onward = np.where((met == 0) & (right + 1 < ends), right + 1, right)
    x = places[ranks]
    span = x[onward] - x[right]
    part = np.where(span > 0, (places[place] - x[right]) / np.where(span > 0, span, 1.0), 0.0)
    jumping = np.flatnonzero(met > 1)
    before, behind = right[jumping] + 1 - met[jumping], right[jumping]
    upper, jumps = list[Floats](), list[Floats]()
    for column in range(curves.y.shape[1]):
        y = np.ascontiguousarray(curves.y[:, column])
        here = y[right]
        summed: Floats = np.bincount(place, here + part * (y[onward] - here), len(places)).astype(float)
        jumped: Floats = np.bincount(place[jumping], y[behind] - y[before], len(places)).astype(float)
        upper.append(summed)
        jumps.append(jumped)
    return upper, jumps


def _until_one(curves: Curves) -> Curves:
    """Continue each curve that ends before 1 up to there."""
    ends = curves.starts[1:]
    short = np.flatnonzero(curves.x[ends - 1] < 1.0 - TOLERANCE)
    if not len(short):
        return curves
    more = np.zeros(len(curves), np.int64)
    more[short] = 1
    x = np.insert(curves.x, ends[short], 1.0)
    y = np.insert(curves.y, ends[short], curves.y[ends[short] - 1], axis=0)
    return Curves(x, y, curves.starts + np.concatenate(([0], np.cumsum(more))))


def chains(children: Curves, groups: Integers, count: int) -> Curves:
    """Return F of each FIFO group: F(k + x) = Σ_{i<k} curve_i(1) + curve_k(x) for x in [0, 1]; 0 for an empty one."""
    width = children.y.shape[1]
    bounds = np.searchsorted(groups, np.arange(count + 1))
    sizes = np.diff(bounds)
    ends = children.at(np.ones(len(children)))
    sums = np.concatenate((np.zeros((1, width)), np.cumsum(ends, axis=0)))
    before = sums[:-1] - sums[bounds[groups]]
    place = np.arange(len(children)) - bounds[groups]
    inner = children.x < 1.0 - TOLERANCE
    owners = children.owners()[inner]
    none = np.flatnonzero(sizes == 0)
    x = np.concatenate((children.x[inner] + place[owners], place + 1.0, np.zeros(len(none))))
    y = np.concatenate((children.y[inner] + before[owners], before + ends, np.zeros((len(none), width))))
    group = np.concatenate((groups[owners], groups, none))
    child = np.concatenate((place[owners], place, np.zeros(len(none), np.int64)))
    order = np.lexsort((x, child, group))
    group, x, y = clean(group[order], x[order], y[order])
    return by_owner(group, x, y, count)


def largest_factor(taken: Callable[[float], Floats], room: Floats, jumps: Floats) -> float:
    """Return the largest factor of at most 1 whose taken shares are within the room.

    `jumps` are the places of jumps. Where the room ends at one, the value before it holds: the slack of the comparison
    does not carry the factor past it.
    """
    low, high, bound = 0.0, 1.0, room + np.where(room > _ROUNDING, _ROUNDING, 0.0)  # no room is none
    if (taken(1.0) <= bound).all():
        return 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if (taken(middle) <= bound).all() else (low, middle)
    low = low if low > TOLERANCE else 0.0  # so near to 0 curves are read at 0
    return float(min((place for place in jumps if low - _NEAR < place < low), default=low))


def by_suggestion(curves: Curves, guarantees: Floats, limits: Floats) -> Curves:
    """Return S and M of elements whose shares by fit factor are `curves`: columns of S, then one for M.

    A suggestion s lies on top of the guarantee, equal in every component, and is cut by the limit. M(s) is the
    largest fit factor that it allows and S(s) the share there. M is the inverse of H(f) = max_r(F_r(f) − g_r), so
    both are read from one list of points (H, F, f). At s = 0 the right end of a plateau of H counts. The last
    point of a curve is the end of its domain: nothing lies behind a jump there.
    """
    curves = _closed(curves)
    first, last = curves.y[curves.starts[:-1]], curves.y[curves.starts[1:] - 1]
    limits = np.clip(limits, first, last)
    guarantees = np.clip(guarantees, first, limits)
    curves = _closed(_cut(curves, limits))
    owner, x, y = curves.owners(), curves.x, curves.y
    heights = np.concatenate((np.zeros((len(x), 1)), y - guarantees[owner]), axis=1)
    owner, x, y, heights = _with_corners(owner, x, y, heights)
    height = _rising(owner, heights.max(1))
    starts = starts_of(np.bincount(owner, minlength=len(curves)))[:-1]
    low = starts + np.bincount(owner, height <= TOLERANCE, len(curves)).astype(np.int64) - 1
    height[low] = 0.0
    # Where a curve begins behind a jump, the value before it holds at s = 0.
    behind = np.flatnonzero((low > starts) & (x[low] - x[np.maximum(low - 1, 0)] <= TOLERANCE))
    before = y[low[behind] - 1]
    kept = np.arange(len(x)) >= low[owner]
    owner, height, points = owner[kept], height[kept], np.concatenate((y, x[:, None]), axis=1)[kept]
    if len(behind):
        place = np.searchsorted(owner, behind)
        points = np.insert(points, place, np.column_stack((before, points[place, -1])), axis=0)
        height = np.insert(height, place, 0.0)
        owner = np.insert(owner, place, behind)
    risen = height[1:] - height[:-1] > TOLERANCE
    jumps = np.flatnonzero((owner[1:] == owner[:-1]) & (points[1:, -1] - points[:-1, -1] <= TOLERANCE) & risen)
    if len(jumps):
        points = np.insert(points, jumps + 1, points[jumps], axis=0)
        height = np.insert(height, jumps + 1, height[jumps + 1])
        owner = np.insert(owner, jumps + 1, owner[jumps])
    return _up_to_one(*clean(owner, height, points), len(curves))


def _closed(curves: Curves) -> Curves:
    """Return the curves without a jump at their end: the value there is the lower one."""
    ends = curves.x[curves.starts[1:] - 1]
    owner = curves.owners()
    inner = curves.x < ends[owner] - TOLERANCE
    place = np.arange(len(owner)) - curves.starts[:-1][owner]
    kept = place <= np.bincount(owner, inner, len(curves)).astype(np.int64)[owner]
    return curves if kept.all() else by_owner(owner[kept], curves.x[kept], curves.y[kept], len(curves))


def _cut(curves: Curves, bounds: Floats) -> Curves:
    """Return each curve up to the last x at which no component passes its bound."""
    owner = curves.owners()
    over = curves.y > bounds[owner] + SLACK
    beyond = np.flatnonzero(over.any(1))
    if not len(beyond):
        return curves
    ends = curves.starts[1:].copy()
    np.minimum.at(ends, owner[beyond], beyond)
    ends = np.maximum(ends, curves.starts[:-1] + 1)
    at = ends[ends < curves.starts[1:]]
    low, high = curves.y[at - 1], curves.y[at]
    rise = high - low
    room = np.where(over[at], (bounds[owner[at]] - low) / np.where(rise > 0, rise, 1.0), 1.0)
    part = np.clip(room.min(1), 0.0, 1.0)
    wide = (curves.x[at] - curves.x[at - 1] > TOLERANCE) & (part > 0)
    x, y = curves.x.copy(), curves.y.copy()
    x[at] = curves.x[at - 1] + part * (curves.x[at] - curves.x[at - 1])
    y[at] = low + part[:, None] * rise
    ends[owner[at[wide]]] += 1
    kept = np.arange(len(x)) < ends[owner]
    return by_owner(owner[kept], x[kept], y[kept], len(curves))


def _with_corners(owner: Integers, x: Floats, y: Floats, heights: Floats) -> tuple[Integers, Floats, Floats, Floats]:
    """Add the points at which the greatest column of `heights` changes, so that their maximum is linear in between.

    `heights` has the shape (points, any) and is linear between neighbouring points as the curves themselves.
    """
    for _ in range(heights.shape[1]):
        highest = heights.argmax(1)
        # Where one column leads at both ends of a piece, it leads in between: lines are convex.
        before = np.flatnonzero((highest[1:] != highest[:-1]) & (owner[1:] == owner[:-1]))
        low, high = heights[before], heights[before + 1]
        rows = np.arange(len(before))
        leader = np.where(low >= low.max(1, keepdims=True) - TOLERANCE, high, -np.inf).argmax(1)
        follower = np.where(high >= high.max(1, keepdims=True) - TOLERANCE, low, -np.inf).argmax(1)
        gap = high[rows, follower] - high[rows, leader]
        ahead = low[rows, leader] - low[rows, follower]
        found = np.flatnonzero((gap > TOLERANCE) & (ahead > TOLERANCE) & (x[before + 1] - x[before] > TOLERANCE))
        if not len(found):
            break
        at = before[found]
        part = ahead[found] / (ahead[found] + gap[found])
        x = np.insert(x, at + 1, x[at] + part * (x[at + 1] - x[at]))
        y = np.insert(y, at + 1, y[at] + part[:, None] * (y[at + 1] - y[at]), axis=0)
        heights = np.insert(heights, at + 1, low[found] + part[:, None] * (high - low)[found], axis=0)
        owner = np.insert(owner, at + 1, owner[at])
    return owner, x, y, heights


def _rising(owner: Integers, height: Floats) -> Floats:
    """Lift each value that is below the one before it in its curve: rounding may have lowered it."""
    same = owner[1:] == owner[:-1]
    while (lower := same & (height[1:] < height[:-1])).any():
        height[1:][lower] = height[:-1][lower]
    return height


def _up_to_one(owner: Integers, x: Floats, y: Floats, count: int) -> Curves:
    """Return the curves on [0, 1]; at a jump at 1 the lower value holds."""
    starts = starts_of(np.bincount(owner, minlength=count))
    ends = starts[:-1] + np.bincount(owner, x < 1.0 - TOLERANCE, count).astype(np.int64)
    at = ends[ends < starts[1:]]  # the first points at 1 or beyond
    beyond = at[x[at] > 1.0 + TOLERANCE]
    before = np.maximum(beyond - 1, 0)
    span = x[beyond] - x[before]
    part = np.where(span > 0, (1.0 - x[before]) / np.where(span > 0, span, 1.0), 1.0)
    y[beyond] = y[before] + part[:, None] * (y[beyond] - y[before])
    x[beyond] = 1.0
    kept = np.arange(len(x)) < (ends + 1)[owner]
    return by_owner(owner[kept], x[kept], y[kept], count)
