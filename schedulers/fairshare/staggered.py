"""The improved fit factor: jumps of several children at one place are tried one child after the other."""

import numpy as np

from omega.schedulers.fairshare.curves import TOLERANCE, Curve, Curves, Floats, Integers, sides


def staggered(children: Curves, squeeze: Floats) -> Curve:
    """F of the improved fit factor: each breakpoint of each child is a step of 1, and only that child jumps there.

    Breakpoints are sorted by place, then by child, so that of several jumps at one place the first child's is
    tried alone before the next one's.
    """
    lower, upper, where, owner = _events(children, squeeze)
    jump = np.zeros((len(where), lower.shape[2]))
    jump[:] = (upper - lower)[owner, where]
    before = np.cumsum(jump, axis=0) - jump
    first = np.searchsorted(where, where, "left")
    left = lower.sum(0)[where] + before - before[first]
    x = np.repeat(np.arange(len(where), dtype=float), 2)
    y = np.empty((len(x), left.shape[1]))
    y[0::2], y[1::2] = left, left + jump
    keep = np.ones(len(x), bool)
    keep[1::2] = jump.max(1, initial=0.0) > 0
    return Curve(np.append(x[keep], float(len(where))), np.concatenate((y[keep], y[-1:])))


def _events(children: Curves, squeeze: Floats) -> tuple[Floats, Floats, Integers, Integers]:
    """Return the values of the children at and behind all breakpoints, and place and child of each breakpoint."""
    scaled = Curves(children.x * np.repeat(squeeze, np.diff(children.starts)), children.y, children.starts)
    places, lower, upper = sides(scaled)
    at = np.searchsorted(places, scaled.x + TOLERANCE, "right") - 1
    pairs = np.unique(np.stack((at, scaled.owners()), axis=1), axis=0)
    return lower, upper, pairs[:, 0], pairs[:, 1]


def staggered_parts(children: Curves, squeeze: Floats, factor: float) -> Floats:
    """Return shares of the children at a fit factor of `staggered`; past a breakpoint the upper value holds."""
    lower, upper, where, owner = _events(children, squeeze)
    reached = int(np.ceil(factor - TOLERANCE))
    if reached >= len(where):
        return upper[:, -1]
    low = max(reached - 1, 0)
    part = min(max(factor - low, 0.0), 1.0) if reached else 0.0
    if where[low] != where[reached]:
        start, end = upper[:, where[low]], lower[:, where[reached]]
        shares: Floats = start + part * (end - start)
        return shares
    shares = lower[:, where[reached]].copy()
    passed = owner[(where == where[reached]) & (np.arange(len(where)) < reached)]
    shares[passed] = upper[passed, where[reached]]
    return shares
