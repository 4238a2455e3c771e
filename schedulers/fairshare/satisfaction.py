"""Satisfaction of pools and jobs (§8) and starvation (§9)."""

from collections.abc import Sequence

import numpy as np

from omega.schedulers.fairshare.curves import Floats, Integers
from omega.schedulers.fairshare.tree import Tree

EPSILON = 1e-9
Vector = Sequence[float] | Floats
"""Amounts by resource: of few resources, loops cost less than arrays."""
Triple = tuple[Floats, Floats, Floats]
"""Fair share, demand and usage, as shares (elements, resources)."""


def local_satisfaction(share: Floats, demand: Floats, usage: Floats) -> Floats:
    """Return usage ÷ fair share of each element as one number: (elements,), infinite where there is no share.

    The largest ratio where usage passes the share in some component; else the largest over the components whose
    share is below demand, and where there is none of these the smallest of all components with a share.
    """
    safe = np.where(share > EPSILON, share, 1.0)
    ratio = np.where(share > EPSILON, usage / safe, np.where(usage > EPSILON, np.inf, np.nan))
    over = (usage > share + EPSILON).any(1)
    open_ = share < demand - EPSILON
    with np.errstate(invalid="ignore"):
        largest = np.nanmax(np.where(np.isnan(ratio), -np.inf, ratio), axis=1)
        largest_open = np.where(open_ & ~np.isnan(ratio), ratio, -np.inf).max(1)
        smallest = np.where(np.isnan(ratio), np.inf, ratio).min(1)
    ratios = np.where(over, largest, np.where(open_.any(1), np.maximum(largest_open, 0.0), smallest))
    none: Floats = np.where((share <= EPSILON).all(1), np.inf, ratios)
    return none


def satisfactions(tree: Tree, pools: Triple, jobs: Triple) -> Triple:
    """Return satisfaction of pools (the least of what is below), local satisfaction of pools, satisfaction of jobs."""
    own = local_satisfaction(*jobs)
    local = local_satisfaction(*pools)
    least = np.full(len(local), np.inf)
    np.minimum.at(least, tree.pool_of, own)
    for number in reversed(tree.downward[1:]):
        least[tree.parents[number]] = min(least[tree.parents[number]], least[number])
    return least, local, own


def least_jobs(tree: Tree, own: Floats) -> Integers:
    """Return the place of the least satisfied job below each pool, given the satisfaction of jobs; −1 without any."""
    least = np.full(len(tree.numbers), -1)
    order = np.argsort(own, kind="stable")[::-1]
    least[tree.pool_of[order]] = order
    for number in reversed(tree.downward[1:]):
        above, job = tree.parents[number], least[number]
        if job >= 0 and (least[above] < 0 or own[job] < own[least[above]]):
            least[above] = job
    return least


def below(*, bound: Vector, usage: Vector, share: Vector, demand: Vector) -> bool:
    """Whether `usage` is below `bound`: in all components whose share is below demand; where there is none, in any."""
    less = [most > has + EPSILON for most, has in zip(bound, usage, strict=True)]
    open_ = [low for low, part, wants in zip(less, share, demand, strict=True) if part < wants - EPSILON]
    return all(open_) if open_ else any(less)


def is_below_fair_share(share: Vector, demand: Vector, usage: Vector, tolerance: float, *, job: bool) -> bool:
    """Return whether an element gets less than `tolerance` of its fair share.

    The tolerance of a job whose share is its whole demand is 1.
    """
    if job and all(part + 1e-4 >= wants for part, wants in zip(share, demand, strict=True)):
        tolerance = 1.0
    bound = [min(part * tolerance, wants) for part, wants in zip(share, demand, strict=True)]
    return below(bound=bound, usage=usage, share=share, demand=demand)


def starvation(
    since: float | None, now: float, timeouts: tuple[float, float | None], *, is_below: bool
) -> tuple[str, float | None]:
    """Return the status of an element and the time since when it is below its share.

    `timeouts`: ordinary and aggressive (None: off).

    Statuses are `normal`, `starving`, `aggressively_starving`. Times in seconds; they compare strictly.
    """
    if not is_below:
        return "normal", None
    begun = now if since is None else since
    ordinary, aggressive = timeouts
    if aggressive is not None and now > begun + aggressive:
        return "aggressively_starving", begun
    return ("starving" if now > begun + ordinary else "normal"), begun
