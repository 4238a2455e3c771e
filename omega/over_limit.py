"""Evictions after a limit was lowered below the use: the least important tasks, until the use is within the limit."""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from cellstate import ranges
from cellstate.model import Gang
from cellstate.transaction import Ending, How

if TYPE_CHECKING:
    from cellstate.model import Job, Run
    from cellstate.ports import JobStore, OperatorStore, Queries

REASON = "limit"
JOBS, TASKS = "jobs", "tasks"
"""Limits that are not on a resource."""


def excess_of_kind(cell: "Queries", kind: str) -> dict[str, int]:
    """Return by how much the use of a kind exceeds its limits, by resource or ``jobs``; empty when it does not."""
    use = cell.kinds().get(kind)
    if use is None:
        return {}
    names = (*cell.dimensions.names, JOBS)
    pairs = zip((*use.used, use.jobs), (*use.limits.resources, use.limits.jobs), strict=True)
    return _excess(dict(zip(names, pairs, strict=True)))


def excess_of_pool(cell: "Queries", pool: str) -> dict[str, int]:
    """Return by how much the use of a pool exceeds its limits, by resource, ``tasks`` or ``jobs``."""
    use, limits = cell.pool_use().get(pool), cell.pools().by_name[pool].upper
    if use is None:
        return {}
    held = {JOBS: use.jobs, TASKS: use.tasks} | dict(zip(cell.dimensions.names, use.amounts, strict=True))
    return _excess({name: (held[name], limit) for name, limit in limits.items()})


def _excess(pairs: Mapping[str, tuple[int, int | None]]) -> dict[str, int]:
    return {name: used - limit for name, (used, limit) in pairs.items() if limit is not None and used > limit}


def jobs_of_pool(cell: "Queries", pool: str) -> "Callable[[Job], bool]":
    """Return whether a job belongs to a pool or to one below it."""
    parents = {each.name: each.parent for each in cell.pools().pools}

    def belongs(job: "Job") -> bool:
        name = job.spec.get("pool")
        while name and name != pool:
            name = parents.get(name)
        return bool(name)

    return belongs


def evict(
    cell: "JobStore | OperatorStore",
    excess: Callable[[], Mapping[str, int]],
    belongs: "Callable[[Job], bool]",
    now_ms: Callable[[], int],
    by: str,
) -> int:
    """Evict tasks of jobs that `belongs` accepts until `excess` is empty; return the number of evicted tasks.

    Tasks of the least precedence first, among equals of the newest job. A strict gang loses all its tasks. Evicted
    tasks are pending again and start when the limit permits.
    """
    evicted, over = 0, excess()
    jobs = [job for job in cell.jobs() if belongs(job)] if over else []
    for job in sorted(jobs, key=lambda each: (each.precedence, -each.order)):
        if not over:
            break
        endings = list(_endings(job, _runs(cell, job), over, cell.dimensions.names))
        if endings:
            evicted += sum(cell.end(endings, now_ms(), by))
            over = excess()
    return evicted


def _runs(cell: "JobStore | OperatorStore", job: "Job") -> "list[Run]":
    machines = sorted({machine for group in job.groups for _, machine, leaving in group.runs if not leaving})
    found = [run for run in cell.runs(machines) if run.job == job.id and not run.leaving]
    return sorted(found, key=lambda run: (-run.group, -run.placement))


def _endings(job: "Job", runs: "list[Run]", over: Mapping[str, int], names: tuple[str, ...]) -> Iterator[Ending]:
    """Yield the ends of the last tasks of a job that are needed to free what is `over`."""
    whole = JOBS in over or job.gang is Gang.STRICT
    left = dict(over)
    for run in runs:
        need = dict(zip(names, job.groups[run.group].need, strict=True)) | {TASKS: 1}
        wanted = [-(-amount // need[name]) for name, amount in left.items() if need.get(name)]
        if whole and (wanted or JOBS in over):
            yield Ending(run.machine, run.placement, How.EVICTED, "*", REASON)
            continue
        number = min(max(wanted, default=0), ranges.count(run.tasks))
        if number > 0:
            tasks, _ = ranges.tail(run.tasks, number)
            yield Ending(run.machine, run.placement, How.EVICTED, tasks, REASON)
            left = {name: amount - number * need.get(name, 0) for name, amount in left.items()}
            left = {name: amount for name, amount in left.items() if amount > 0}
