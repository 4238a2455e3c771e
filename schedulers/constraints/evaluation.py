"""The machines that satisfy the demands of a task group, regardless of room."""

import operator
from functools import reduce

import numpy as np

from omega.cellstate.constraints.evaluation import Mask, all_hold
from omega.cellstate.model import MACHINE
from omega.cellstate.pools import Pools
from omega.cellstate.pools.membership import tree_numbers
from omega.cellstate.snapshot import Snapshot
from omega.schedulers.constraints.demands import Relation, demands
from omega.schedulers.work import Work


def kept_from_simulated(work: Work, snapshot: Snapshot) -> bool:
    """Return whether the job runs commands and some machines are simulated, which excludes them (semantics 31)."""
    return work.job.commands and bool(snapshot.simulated.any())


def permitted(work: Work, group: int, snapshot: Snapshot) -> Mask | None:
    """Return the machines that satisfy a group's demands, regardless of room and of its other tasks.

    None when all do; no machine when the demands are invalid.
    """
    wants = demands(work.job, group)
    if wants.fault:
        return np.zeros(snapshot.size, dtype=np.bool_)
    masks = [] if not wants.hard else [all_hold(wants.hard, snapshot.attributes)]
    masks += [related(relation, snapshot) for relation in wants.near if relation.required]
    masks += [~related(relation, snapshot) for relation in wants.apart]
    masks += [~snapshot.simulated] if kept_from_simulated(work, snapshot) else []
    if snapshot.pools.divided:
        tree = snapshot.pools.tree_of(snapshot.pools.pool_of(work.pool, work.user))
        masks.append(tree_machines(snapshot.pools, tree.name, snapshot))
    return reduce(operator.and_, masks) if masks else None


def tree_machines(pools: Pools, name: str, snapshot: Snapshot) -> Mask:
    """Return the machines of a pool tree (`tree_numbers`); all of them where trees do not divide the machines."""
    if not pools.divided:
        return np.ones(snapshot.size, dtype=np.bool_)
    mask: Mask = tree_numbers(pools, snapshot.attributes) == [tree.name for tree in pools.trees].index(name)
    return mask


def related(relation: Relation, snapshot: Snapshot) -> Mask:
    """Return the machines in the domains of the other job's running tasks."""
    there = np.fromiter(snapshot.others.get(relation.job, ()), np.int64)
    there = there[there < snapshot.size]
    if relation.domain == MACHINE:
        mask = np.zeros(snapshot.size, dtype=np.bool_)
        mask[there] = True
        return mask
    codes = snapshot.attributes.codes(relation.domain)
    table = np.zeros(len(snapshot.attributes.values(relation.domain)), dtype=np.bool_)
    table[codes[there]] = True
    table[0] = False  # machines without the attribute are in no domain
    return table[codes]
