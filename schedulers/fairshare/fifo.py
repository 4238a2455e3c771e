"""The order of jobs in a FIFO pool: sort keys, and reordering for the pool's guarantee (§7)."""

from collections.abc import Sequence

import numpy as np

from omega.cellstate.pools import Pool
from omega.schedulers.fairshare.curves import SLACK, Floats
from omega.schedulers.fairshare.guarantees import NEGLIGIBLE
from omega.schedulers.fairshare.tree import Tree


def fifo_order(tree: Tree, pool: Pool, members: Sequence[int], weight: Floats) -> list[int]:
    """Return the numbers of a pool's jobs by rank, then by its sort keys; ties keep the order given."""

    def key(index: int) -> list[float]:
        job = tree.jobs[index]
        values = {
            "weight": -float(weight[index]),
            "start_time": job.start_time,
            "pending_job_count": float(job.pending),
        }
        return [float(job.rank), *(values[name] for name in pool.sort_keys)]

    return sorted(members, key=key)


def for_guarantee(strong: Floats, gangs: Sequence[bool], jobs: tuple[Floats, Floats, Floats]) -> list[int]:
    """Return the places of jobs such that gangs which pack into the guarantee come before those that do not fit.

    `strong`: guarantee of the pool as a share; `jobs`: demand, usage and limits as shares (jobs, resources), in
    FIFO order. A gang without usage that does not fit is deferred. A job that is no gang and does not fit ends the
    packing: it comes next, behind it the deferred gangs and the rest in FIFO order. A gang that its limits forbid
    costs nothing.
    """
    demand, usage, limits = jobs
    places = list(range(len(gangs)))
    used = np.zeros(len(strong))
    first: list[int] = []
    deferred: list[int] = []
    for at in places:
        possible = not gangs[at] or bool((demand[at] <= limits[at] + SLACK).all())
        cost = np.minimum(demand[at], limits[at]) if possible else np.zeros(len(strong))
        fits = bool((used + cost <= strong + NEGLIGIBLE).all())
        if not fits and not gangs[at]:
            return [*first, at, *deferred, *places[at + 1 :]]
        if not fits and not usage[at].any():
            deferred.append(at)
            continue
        first.append(at)
        used = used + cost
    return first + deferred
