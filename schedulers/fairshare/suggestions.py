"""Shares of many elements by suggestion at once, from their shares by fit factor."""

import numpy as np

from omega.schedulers.fairshare.curves import SLACK, TOLERANCE, Curves, Floats, Integers, by_owner, clean, starts_of


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
    return _until_one(*clean(owner, height, points), len(curves))


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


def _until_one(owner: Integers, x: Floats, y: Floats, count: int) -> Curves:
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
