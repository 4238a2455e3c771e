"""Demand that could run, on machines that are up and within limits, if nothing else ran.

A task that could run nowhere is no demand: no placement and no eviction starts it, so it takes no share from others. A
job of which only a part could run at once has a share of that part (docs/pool-rules.md, rule 1). A count is made once
for each distinct need and demand, over the distinct sizes of machines, and kept until machines, pools or limits change.
`near` and `apart_from` count as satisfied: the machines of the other job change.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.constraints.evaluation import all_hold
from omega.cellstate.job_demands import JobDemand
from omega.cellstate.lanes import Lane
from omega.cellstate.model import MACHINE, Limits
from omega.cellstate.pools import TASKS, Pools
from omega.cellstate.replies import KindUse
from omega.cellstate.resources import Resources
from omega.cellstate.snapshot import Snapshot
from omega.schedulers.constraints.demands import NONE, Demands, demands
from omega.schedulers.constraints.enforcing import tree_machines
from omega.schedulers.fitting import UNBOUNDED, fitting
from omega.schedulers.placement.domains import most_on_machine
from omega.schedulers.pool_machines import fetch_attributes

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell

Integers = NDArray[np.int64]


class _Task(NamedTuple):
    """What decides how many tasks of a group could run. `total`: tasks of the job, where its demands depend on it."""

    tree: str
    bounds: tuple[tuple[int, int], ...]
    """Limits in force: resource and amount."""
    most: int
    """Limit of tasks."""
    need: Resources
    commands: bool
    wants: Demands
    total: int


@dataclass(slots=True)
class Runnable:
    """Reduces demands to what could run; one object for all epochs that a process computes."""

    _pools: Pools = field(default_factory=Pools)
    _limits: Mapping[str, Limits] = field(default_factory=dict)
    _machines: "_Machines | None" = None
    _known: dict[str, tuple[JobDemand, JobDemand]] = field(default_factory=dict)
    """Each job as it was given and as it was returned last."""
    _places: dict[Lane, tuple[str, tuple[tuple[int, int], ...], int]] = field(default_factory=dict)

    def of(self, jobs: Sequence[JobDemand], pools: Pools, snapshot: Snapshot, cell: "Cell") -> list[JobDemand]:
        """Return jobs of a cell with the demand that could run; reads attributes and limits."""
        new = (job for job in jobs if job.spec and job.id not in self._known)
        demanding = snapshot.attributes.used or any(
            demands(job, at).attributes for job in new for at in range(len(job.groups))
        )
        fetch_attributes(pools, snapshot, cell, also=demanding)
        return self.cut(jobs, pools, snapshot, cell.pools.kinds(), cell.dimensions.names)

    def cut(
        self, jobs: Iterable[JobDemand], pools: Pools, snapshot: Snapshot, kinds: Mapping[str, KindUse],
        names: Sequence[str],
    ) -> list[JobDemand]:  # fmt: skip
        """Return jobs with the demand that could run; attributes must be there.

        Of a gang it is at least what runs together, or nothing.

        `kinds` have the limits of job types, `names` are the cell's resources.
        """
        limits = {kind: use.limits for kind, use in kinds.items()}
        if pools != self._pools or limits != self._limits:
            self._pools, self._limits, self._machines = pools, limits, None
            self._places.clear()
        if self._machines is None or not self._machines.describes(snapshot):
            self._machines = _Machines(pools, snapshot)
            self._known = {}
        machines, before, self._known = self._machines, self._known, {}
        for job in jobs:
            known = before.get(job.id)
            if known is None or known[0] is not job:
                known = job, job if job.waits else self._cut(job, machines, names)
            self._known[job.id] = known
        return [cut for _, cut in self._known.values()]

    def _cut(self, job: JobDemand, machines: "_Machines", names: Sequence[str]) -> JobDemand:
        tree, bounds, most = self._place(job, names)
        groups, held, short = list(job.groups), [placed for _, _, placed in job.groups], False
        for at, (need, unplaced, placed) in enumerate(job.groups):
            if not unplaced:
                continue
            wants = demands(job, at) if job.spec else NONE
            total = sum(unplaced + placed for _, unplaced, placed in job.groups) if wants.counts else 0
            could = machines.hold(_Task(tree, bounds, most, need, job.commands, wants, total))
            held[at] = min(placed + unplaced, max(could, placed))
            short = short or could < placed + unplaced
            if could == 0:
                groups[at] = need, 0, placed
        if job.least and not _starts(job, held, bounds, most):
            return job._replace(groups=tuple((need, 0, placed) for need, _, placed in job.groups))
        if job.gang:
            together = [
                (need, unplaced + placed) for at, (need, unplaced, placed) in enumerate(job.groups)
                if at not in job.optional
            ]  # fmt: skip
            whole = all(held[at] == sum(job.groups[at][1:]) for at in range(len(groups)) if at not in job.optional)
            if not (whole and _within(bounds, most, together)):
                return job._replace(groups=tuple((need, 0, placed) for need, _, placed in job.groups))
        if not short:
            return job
        amounts = (
            sum(need[d] * count for (need, _, _), count in zip(groups, held, strict=True)) for d in range(len(names))
        )
        return job._replace(groups=tuple(groups), most=tuple(amounts))

    def _place(self, job: JobDemand, names: Sequence[str]) -> tuple[str, tuple[tuple[int, int], ...], int]:
        """Return the tree of a job, and what the limits of its pool, of ancestors and of its type leave one job."""
        lane = job.lane
        place = self._places.get(lane)
        if place is None:
            pool = self._pools.pool_of(lane.pool, lane.user)
            upper = [each.upper for each in self._pools.chain(pool)]
            bounds = [(d, limit[name]) for limit in upper for d, name in enumerate(names) if name in limit]
            most = min((limit[TASKS] for limit in upper if TASKS in limit), default=UNBOUNDED)
            of_kind = self._limits.get(lane.kind)
            if of_kind is not None:
                bounds += [(d, limit) for d, limit in enumerate(of_kind.resources) if limit is not None]
                low, high = of_kind.precedence
                most = most if low <= lane.precedence <= high else 0
            place = self._places[lane] = self._pools.tree_of(pool).name, tuple(bounds), most
        return place


def _within(bounds: Sequence[tuple[int, int]], most: int, groups: Sequence[tuple[Resources, int]]) -> bool:
    """Return whether limits admit tasks of several groups together."""
    amounts = (sum(need[d] * tasks for need, tasks in groups) <= limit for d, limit in bounds)
    return sum(tasks for _, tasks in groups) <= most and all(amounts)


def _starts(job: JobDemand, could: Sequence[int], bounds: Sequence[tuple[int, int]], most: int) -> bool:
    """Return whether as many tasks of a gang run together as must, if so many of each group `could`; smallest first."""
    lacks = min(job.least, sum(unplaced + placed for _, unplaced, placed in job.groups))
    if sum(placed for _, _, placed in job.groups) >= lacks:
        return True
    together = list[tuple[Resources, int]]()
    for (need, _, _), tasks in sorted(zip(job.groups, could, strict=True)):
        together.append((need, min(tasks, lacks)))
        lacks -= together[-1][1]
    return not lacks and _within(bounds, most, together)


class _Machines:
    """The machines of a snapshot by size, as they were when this was made."""

    def __init__(self, pools: Pools, snapshot: Snapshot) -> None:
        self._pools, self._snapshot = pools, snapshot
        self._rows, self._version = self._relevant(snapshot).copy(), snapshot.attributes.version
        columns = [np.unique(row, return_inverse=True)[1] for row in snapshot.capacity]
        size: Integers = np.zeros(snapshot.size, dtype=np.int64)
        for column in columns:  # renumbered after each resource, so that the product stays small
            size = np.unique(size * (int(column.max(initial=0)) + 1) + column, return_inverse=True)[1]
        self._size = size
        _, first = np.unique(size, return_index=True)
        self._sizes = snapshot.capacity[:, first]
        self._numbers: dict[tuple[str, bool, Demands], Integers] = {}
        self._held: dict[_Task, int] = {}

    @staticmethod
    def _relevant(snapshot: Snapshot) -> NDArray[np.int64]:
        """State, executor and capacity of each machine."""
        return snapshot.rows[2 : 4 + snapshot.dimensions, : snapshot.size]

    def describes(self, snapshot: Snapshot) -> bool:
        """Return whether a snapshot still has these machines."""
        same = snapshot is self._snapshot and snapshot.attributes.version == self._version
        return same and np.array_equal(self._relevant(snapshot), self._rows)

    def hold(self, task: _Task) -> int:
        """Return how many such tasks could run together if nothing else ran."""
        held = self._held.get(task)
        if held is None:
            bounds = [limit // task.need[d] for d, limit in task.bounds if task.need[d]]
            held = self._held[task] = max(0, min(self._on_all(task), task.most, *bounds))
        return held

    def _on_all(self, task: _Task) -> int:
        if task.wants.fault:
            return 0
        fits = fitting(self._sizes, task.need)
        alone = most_on_machine(task.wants, task.total)
        fits = fits if alone is None else np.minimum(fits, alone)
        key = task.tree, task.commands, task.wants
        numbers = self._numbers.get(key)
        if numbers is None:
            numbers = np.bincount(self._size[self._may(task)], minlength=self._sizes.shape[1])
            self._numbers[key] = numbers
        held = int((np.minimum(fits, UNBOUNDED // max(1, len(self._size))) * numbers).sum())
        for spread in task.wants.spread:
            bound = spread.bound(task.total)
            if bound is not None and spread.domain != MACHINE:
                may, codes = self._may(task), self._snapshot.attributes.codes(spread.domain)
                inside = np.bincount(codes[may], weights=np.minimum(fits, bound)[self._size[may]])
                held = min(held, int(np.minimum(inside[1:], bound).sum()))
        return held

    def _may(self, task: _Task) -> NDArray[np.bool_]:
        """Return the machines that a task may use, whatever their size."""
        snapshot = self._snapshot
        may = tree_machines(self._pools, task.tree, snapshot) & snapshot.up
        if task.wants.hard:
            may = may & all_hold(task.wants.hard, snapshot.attributes)
        return may & ~snapshot.simulated if task.commands else may
