"""The machines that satisfy a job's demands, and enforcement on claims of policies that do not apply these."""

import operator
from collections.abc import Sequence
from functools import reduce

import numpy as np

from omega.cellstate.constraints.evaluation import Mask, all_hold
from omega.cellstate.model import MACHINE
from omega.cellstate.pools import Pools
from omega.cellstate.pools.membership import tree_numbers
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Claim
from omega.schedulers.constraints.demands import Relation, asks_anything, demands
from omega.schedulers.placement.domains import Level, levels, most_on_machine, places_of, tasks_of
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


def demanding(work: Work, snapshot: Snapshot) -> bool:
    """Return whether some machine may be excluded for a job, or bounded: by its demands, its commands or its tree."""
    job = work.job
    return job.commands or snapshot.pools.divided or asks_anything(job)


def permitted_to_some(work: Work, snapshot: Snapshot) -> Mask | None:
    """Return the machines that satisfy the demands of some group with unplaced tasks; None for all machines."""
    some = np.zeros(snapshot.size, dtype=np.bool_)
    for group, left in enumerate(work.left):
        if left:
            may = permitted(work, group, snapshot)
            if may is None:
                return None
            some |= may
    return some


def enforced(work: Work, claims: Sequence[Claim], snapshot: Snapshot, mark: int) -> Sequence[Claim]:
    """Return claims without the tasks that break a demand of their job; these are undone on the snapshot.

    `claims` are those since `mark`, in order. Of a gang all claims are kept, or none.
    """
    counted = _Bounds(work, snapshot).counted(claims)
    if sum(count for _, count in counted) == sum(claim.count for claim in claims):
        return claims
    snapshot.undo(mark)
    if work.gang:
        return []
    kept = [claim if count == claim.count else claim._replace(count=count) for claim, count in counted]
    for claim in kept:
        snapshot.take(claim.machine, work.need(claim.group), claim.count)
    return kept


class _Bounds:
    """How many tasks of each group the demands still allow on each machine, claim by claim."""

    def __init__(self, work: Work, snapshot: Snapshot) -> None:
        self.work, self.snapshot, self.total = work, snapshot, tasks_of(work)
        self.here = places_of(work, snapshot)

    def counted(self, claims: Sequence[Claim]) -> list[tuple[Claim, int]]:
        """Return the claims that may have tasks, with the number of their tasks that may stay."""
        counted, group = list[tuple[Claim, int]](), -1
        may: Mask | None = None
        most: int | None = None
        over: list[Level] = []
        for claim in claims:
            if claim.group != group:
                group = claim.group
                wants, may = demands(self.work.job, group), permitted(self.work, group, self.snapshot)
                most = most_on_machine(wants, self.total)
                over = [each for each in levels(wants, self.total, self.snapshot, self.here) if each.bound is not None]
            count = 0 if may is not None and not may[claim.machine] else claim.count
            if most is not None:
                count = min(count, most - self.here.get(claim.machine, 0))
            count = max(0, min([count, *(_left(level, claim.machine, self.snapshot) for level in over)]))
            if count:
                self._add(claim.machine, count, over)
                counted.append((claim, count))
        return counted

    def _add(self, machine: int, count: int, over: Sequence[Level]) -> None:
        self.here[machine] = self.here.get(machine, 0) + count
        for level in over:
            level.counts[self.snapshot.attributes.codes(level.domain)[machine]] += count


def _left(level: Level, machine: int, snapshot: Snapshot) -> int:
    """Return how many more tasks the domain of a machine may have; none for a machine in no domain."""
    code = int(snapshot.attributes.codes(level.domain)[machine])
    return 0 if level.bound is None or not code else level.bound - int(level.counts[code])
