"""Curves of jobs, all of a tree at once: how much of its demand a job gets by suggestion."""

from itertools import combinations

import numpy as np

from omega.schedulers.fairshare.curves import SLACK, TOLERANCE, Curves, Floats, by_owner, clean


def job_curves(*, demand: Floats, usage: Floats, limits: Floats, steps: Floats) -> Curves:
    """Return S of each job on [0, 1]. Arguments are shares (jobs, resources).

    `steps` is the part of its demand that a gang holds at least, 0 for other jobs.

    By fit factor a job first regains its usage, equal in all components, then rises linearly to its demand:
    F(f) = min(usage, f·max usage) for f ≤ 1, from usage to demand for f in [1, 2]. A gang is 0 below its
    step, from there on it rises linearly to its demand or to its limits. S(s) is F at the largest f that the suggestion
    and the limits allow.
    """
    count, width = demand.shape
    peak = usage.max(1, initial=0.0)
    factors = _corners(demand, usage, peak)
    factors = np.sort(
        np.minimum(factors, _ceiling(demand=demand, usage=usage, limits=limits, peak=peak)[:, None]), axis=1
    )
    early = np.minimum(usage[:, None, :], factors[:, :, None] * peak[:, None, None])
    late = usage[:, None, :] + (factors[:, :, None] - 1.0) * (demand - usage)[:, None, :]
    shares = np.where((factors <= 1.0)[:, :, None], early, late)
    heights = np.maximum.accumulate(shares.max(2), axis=1)
    if steps.any():
        _add_steps(heights, shares, demand=demand, limits=limits, steps=steps)
    owner = np.repeat(np.arange(count), factors.shape[1])
    x, y = heights.reshape(-1), shares.reshape(-1, width)
    first = np.searchsorted(owner * 4.0 + np.minimum(x, 2.0), np.arange(count) * 4.0 + TOLERANCE, "right") - 1
    started = np.arange(len(x)) >= np.repeat(first, factors.shape[1])
    x = np.where(x <= TOLERANCE, 0.0, x)
    below = started & (x < 1.0 - TOLERANCE)
    edge = started & ~below
    edge[1:] &= below[:-1] | (owner[1:] != owner[:-1]) | ~started[:-1]  # the value at 1 is the lower one
    kept = below | edge
    owner, x, y = clean(owner[kept], x[kept], y[kept])
    return by_owner(owner, x, y, count)


def _add_steps(heights: Floats, shares: Floats, *, demand: Floats, limits: Floats, steps: Floats) -> None:
    """Replace the corners of gangs: nothing up to the step, a jump, then a line to the demand or the limits."""
    bound = np.where(demand > limits + SLACK, limits / np.where(demand > 0, demand, 1.0), 1.0).min(1, initial=1.0)
    gangs, runs = steps > 0, (steps > 0) & (bound >= steps)
    shares[gangs] = 0.0
    heights[gangs] = 0.0
    top = demand.max(1, initial=0.0)
    heights[runs, 1:] = (steps * top)[runs, None]
    shares[runs, 2:] = (steps[:, None] * demand)[runs, None, :]
    heights[runs, -1] = (bound * top)[runs]
    shares[runs, -1] = (bound[:, None] * demand)[runs]


def _corners(demand: Floats, usage: Floats, peak: Floats) -> Floats:
    """Return fit factors between which both the shares and their maximum are linear: (jobs, corners)."""
    count, width = demand.shape
    safe = np.where(peak > 0, peak, 1.0)
    rise = demand - usage
    columns = [np.zeros(count), np.ones(count), np.full(count, 2.0)]
    columns += [usage[:, column] / safe for column in range(width)]
    if peak.any():
        for one, other in combinations(range(width), 2):
            ahead, gain = usage[:, one] - usage[:, other], rise[:, other] - rise[:, one]
            part = ahead / np.where(gain != 0, gain, 1.0)
            columns.append(1.0 + np.where((gain != 0) & (part > 0) & (part < 1), part, 0.0))
    factors = np.stack(columns, axis=1)
    return np.where((peak > 0)[:, None], factors, np.maximum(factors, 1.0))


def _ceiling(*, demand: Floats, usage: Floats, limits: Floats, peak: Floats) -> Floats:
    """Return the largest fit factor at which no component passes its limit: (jobs,)."""
    safe = np.where(peak > 0, peak, 1.0)[:, None]
    early = np.where(usage > limits + SLACK, limits / safe, np.inf)
    rise = demand - usage
    late = np.where(
        demand > limits + SLACK, 1.0 + np.maximum(limits - usage, 0.0) / np.where(rise > 0, rise, 1.0), np.inf
    )
    largest: Floats = np.minimum(np.minimum(early, late).min(1, initial=np.inf), 2.0)
    return largest
