"""Dominant resource fairness: flat and weighted, fluid or task by task; FIFO; two forms for hierarchies.

Sources: Ghodsi et al., Dominant Resource Fairness, NSDI 2011; Bhattacharya et al., Hierarchical Scheduling for
Diverse Datacenter Workloads, SoCC 2013.
"""

from collections.abc import Sequence

import numpy as np

from omega.schedulers.fairshare.curves import Floats
from omega.schedulers.fairshare.hierarchical_drf import LIGHTEST, HierarchicalFilling, products
from omega.schedulers.fairshare.tree import Tree
from omega.schedulers.fairshare.update import summed

_FULL = 1e-12


def fluid(demand: Floats, weight: Floats, start: Floats | None = None) -> Floats:
    """Return the part of its demand, infinitely divisible, that each user gets: shares (users, resources).

    Progressive filling: the dominant shares of all users rise in proportion to their weights until a resource
    is full; users that need it stop, the others continue. `demand`: (users, resources) as shares of the totals, at most
    which a user takes; `start`: shares held at the beginning.
    """
    given = np.zeros_like(demand) if start is None else start.astype(float).copy()
    peak = demand.max(1, initial=0.0)
    pace = demand / np.where(peak > 0, peak, 1.0)[:, None] * weight[:, None]
    level = (given / np.where(pace > 0, pace, np.inf)).max(1, initial=0.0)
    open_ = (peak > 0) & (peak - given.max(1, initial=0.0) > _FULL)
    while open_.any():
        lowest = level[open_].min()
        active = open_ & (level <= lowest + _FULL)
        speed = pace[active].sum(0)
        room = 1.0 - given.sum(0)
        if ((room <= _FULL) & (speed > 0)).any():
            open_ &= ~(active & (pace[:, room <= _FULL] > 0).any(1))
            continue
        steps = [float((room[speed > 0] / speed[speed > 0]).min())]
        steps.append(float(((peak - given.max(1)) / (pace.max(1)))[active].min()))
        ahead = level[open_ & ~active]
        if len(ahead):
            steps.append(float(ahead.min() - lowest))
        step = max(min(steps), 0.0)
        given[active] += pace[active] * step
        level[active] += step
        open_ &= peak - given.max(1) > _FULL
    return given


def task_by_task(
    totals: Floats, per_task: Floats, weight: Floats, pending: Sequence[int] | None = None
) -> tuple[list[int], list[int]]:
    """Return the tasks of each user and the order of picks: the smallest dominant share ÷ weight goes first.

    `per_task`: amounts (users, resources). A user whose next task does not fit is left out. Ties go to the first.
    """
    counts = [0] * len(per_task)
    left = totals.astype(float).copy()
    dominant = (per_task / np.where(totals > 0, totals, np.inf)).max(1)
    open_ = [index for index in range(len(per_task)) if dominant[index] > 0]
    picks = []
    while open_:
        index = min(open_, key=lambda user: counts[user] * dominant[user] / weight[user])
        wanted = pending is None or counts[index] < pending[index]
        if wanted and (per_task[index] <= left + _FULL).all():
            counts[index] += 1
            left -= per_task[index]
            picks.append(index)
        else:
            open_.remove(index)
    return counts, picks


def fifo(machines: Floats, queue: Sequence[tuple[Floats, int]]) -> list[int]:
    """Return how many tasks of each job run: jobs in order, each packed machine by machine.

    `machines`: amounts (machines, resources); one row with the sums gives the result without fragmentation.
    `queue`: amounts of one task and the number of tasks, a job each.
    """
    left = machines.astype(float).copy()
    placed = []
    for task, wanted in queue:
        used = task > 0
        fits = np.floor(left[:, used] / task[used] + _FULL).min(1) if used.any() else np.full(len(left), wanted)
        taken = np.clip(wanted - np.concatenate(([0.0], np.cumsum(fits)[:-1])), 0.0, fits)
        left -= taken[:, None] * task
        placed.append(int(taken.sum()))
    return placed


def drf(tree: Tree, weights: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """Flat DRF over the jobs, a job's weight being the product of the parts of weight on its path: pools, jobs."""
    parts = _parts(tree, weights)
    paths = np.maximum(products(tree, parts[0])[tree.pool_of] * parts[1], LIGHTEST)
    jobs = fluid(_wanted(tree), paths, tree.share(tree.table([job.usage for job in tree.jobs])))
    return summed(tree, jobs), jobs


def hierarchical(tree: Tree, weights: tuple[Floats, Floats], *, least_satisfied: bool) -> tuple[Floats, Floats]:
    """Descend to the child with the least dominant share ÷ weight, or to that which holds the least satisfied element.

    Without `least_satisfied` a pool's dominant share may be another job's; kept to show its failure: a job that
    restarts below a pool whose sibling job is large gets nothing. With it satisfaction is dominant share ÷ product of
    the parts of weight on the path, and every pool on the path counts as well as the jobs, so each reaches at least its
    promise. Returns shares of pools and jobs.
    """
    return HierarchicalFilling(tree, _parts(tree, weights), _wanted(tree), least_satisfied=least_satisfied).run()


def _wanted(tree: Tree) -> Floats:
    """Demands as shares, scaled down as a whole to fit the job's limits."""
    demand = tree.share(tree.table([job.demand for job in tree.jobs]))
    limit = tree.share(np.minimum(tree.table([job.limits for job in tree.jobs], np.inf), tree.capacity))
    part = np.where(demand > limit, limit / np.where(demand > 0, demand, 1.0), 1.0).min(1, initial=1.0)
    fitted: Floats = demand * part[:, None]
    return fitted


def _parts(tree: Tree, weights: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """Each element's weight ÷ the sum of its siblings' weights, jobs and pools together."""
    pools, jobs = weights
    sums = np.zeros(len(pools))
    np.add.at(sums, tree.parents[1:], pools[1:])
    np.add.at(sums, tree.pool_of, jobs)
    part = np.ones(len(pools))
    part[1:] = pools[1:] / sums[tree.parents[1:]]
    return part, jobs / sums[tree.pool_of]
