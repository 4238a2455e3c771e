"""Shares of many pools by fit factor at once: sums of their children's curves, and FIFO pools one behind the other."""

from collections.abc import Callable

import numpy as np

from omega.schedulers.fairshare.curves import SAME, TOLERANCE, Curve, Curves, Floats, Integers, by_owner, clean, join

_HALVINGS, _NEAR, _ROUNDING = 100, 1e-8, 1e-13
"""Steps of a bisection; how far the slack of its bound may carry it past a jump; that slack."""
_PAIRS = 40_000
"""Values of curves at breakpoints that one step computes: few enough to stay in the processor's cache."""


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
