"""Running tasks on machines of another tree than that of their pool, after a change of pools or of attributes."""

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from omega.cellstate import ranges
from omega.cellstate.errors import Refused
from omega.cellstate.fairness import leaf_of
from omega.cellstate.lanes import Lane
from omega.cellstate.model import Described, Gang, merged
from omega.cellstate.pools import Pools
from omega.cellstate.pools.records import moved

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell


def after_pools(cell: "Cell", before: Pools, after: Pools) -> Counter[str]:
    """Return the number of tasks, by pool, that leave their machines when the pools change."""
    if not after.divided or not moved(before, after):
        return Counter()
    indices = [machine.index for machine in cell.machines.all()]
    return _on(cell, after, dict(zip(indices, cell.machines.described(indices), strict=True)))


def after_attributes(cell: "Cell", index: int, changes: Mapping[str, str | None]) -> Counter[str]:
    """Return the number of tasks, by pool, that leave a machine when its attributes change; None removes one."""
    pools = cell.pools.get()
    if not pools.divided:
        return Counter()
    ((name, pairs),) = cell.machines.described([index])
    return _on(cell, pools, {index: (name, tuple(sorted(merged(dict(pairs), changes).items())))})


def check(leaving: Counter[str], what: str, *, evict: bool) -> None:
    """Raise Refused when tasks would leave and nobody asked for evictions."""
    if leaving and not evict:
        raise Refused(f"{what}: {text_of(leaving)} would be on machines of another pool tree; --evict evicts them")


def text_of(leaving: Counter[str]) -> str:
    """Return the number of tasks and their pools as text."""
    count, pools = leaving.total(), sorted(leaving)
    return f"{count:,} task{'s' * (count > 1)} of pool{'s' * (len(pools) > 1)} {', '.join(pools)}"


def _on(cell: "Cell", pools: Pools, described: Mapping[int, Described]) -> Counter[str]:
    """Count the tasks of other trees on some machines; a strict gang leaves as a whole."""
    from omega.cellstate.pools.membership import trees_of  # noqa: PLC0415 - numpy; few cells have several trees

    trees = dict(zip(described, trees_of(pools, list(described.values())), strict=True))
    runs = [run for run in cell.machines.runs(sorted(described)) if not run.leaving]
    jobs = cell.jobs.by_id(sorted({run.job for run in runs}))
    lanes = cell.schedulers.lanes(sorted({job.lane for job in jobs.values()}))
    gone, shown_of = Counter[str](), dict[str, str]()
    for run in runs:
        job = jobs.get(run.job)
        if job is None:
            continue
        _, lane = lanes.get(job.lane, (0, Lane(job.kind, job.precedence)))
        leaf = leaf_of(lane.pool, lane.user)
        shown = pools.pool_of(lane.pool, lane.user)
        if pools.tree_number(leaf if leaf in pools.leaves else "") != trees[run.machine]:
            gone[job.id] += ranges.count(run.tasks)
            shown_of[job.id] = shown
    leaving = Counter[str]()
    for name, tasks in gone.items():
        job = jobs[name]
        breaks = job.gang is Gang.STRICT and (not job.gang_min or job.placed - tasks < job.gang_min)
        leaving[shown_of[name]] += job.placed if breaks else tasks
    return leaving
