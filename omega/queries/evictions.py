"""Evictions that its scheduler would make for a pending job, by a dry run of the scheduler's own policy."""

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from omega.cellstate.pools import DEFAULT_PREEMPTION, Pools
from omega.queries.working_copy import look_up, working_copy

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell
    from omega.cellstate.model import Job

KEEPS = (
    "allow_regular_preemption", "allow_aggressive_preemption", "minimum_runtime", "evictions_per_minute",
    "non_preemptible_usage",
)  # a table # fmt: skip
"""Settings of a pool that may keep its tasks from pools below their fair share."""
MOST_SECONDS = 600.0
"""How far ahead evictions are promised: until then much else changes."""
COSTS = ("eviction_cost",)
"""Settings of a pool that may keep it from evicting."""


def evictions_for(cell: "Cell", job: "Job") -> dict[str, Any] | None:
    """Return the evictions for a pending job of a cell with pools: tasks, seconds from now, and tasks by pool.

    None when no set of evictions is legal and within the settings of the pools in `MOST_SECONDS`, and before the first
    epoch. Settings count as in the scheduler, except that evictions of the last minute (`evictions_per_minute`) are not
    known here.
    """
    from omega.cellstate.errors import BadInput
    from omega.schedulers import registry
    from omega.schedulers.dry_run import DryRun
    from omega.schedulers.work import Work

    epoch = cell.pools.epoch()
    if epoch is None:
        return None
    try:
        scheduler = registry.scheduler(job.kind, f"{cell.name}/why")
    except BadInput:
        return None  # a kind of one's own, which is not installed here
    snapshot, work = working_copy(cell), Work.of(job)
    snapshot.epoch = epoch
    if unknown := snapshot.lanes.unknown():
        snapshot.lanes.learn(cell.schedulers.lanes(unknown))
    look_up(cell, snapshot, [work])
    planned = DryRun(scheduler, snapshot, cell, cell.store_ms() / 1000).plan(work)
    pools = Counter[str]()
    for victim in planned.victims:
        pools[snapshot.pools.pool_of(victim.resident.pool, victim.resident.user)] += victim.tasks
    if not pools or planned.after > MOST_SECONDS:
        return None
    return {"tasks": pools.total(), "after_seconds": round(planned.after, 1), "pools": dict(sorted(pools.items()))}


def kept_by(pools: Pools, own: str, holders: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the settings, by pool, that may keep tasks of `holders` from the pool `own`."""
    read = [(own, COSTS), *((holder, KEEPS) for holder in holders)]
    found = {}
    for name, settings in read:
        rules = {each: getattr(pools.preemption(name), each) for each in settings}
        found[name] = {each: value for each, value in rules.items() if value != getattr(DEFAULT_PREEMPTION, each)}
    return {name: settings for name, settings in found.items() if settings}
