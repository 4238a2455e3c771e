"""Changes of the limits on all jobs of a kind, and evictions after a limit was lowered below the use."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from omega.cellstate.errors import BadInput
from omega.cellstate.lanes import lane_of
from omega.cellstate.model import MOST_PRECEDENCE, Limits
from omega.cellstate.resources import Dimensions, format_amount, shown

if TYPE_CHECKING:
    from omega.cellstate.model import Job
    from omega.cellstate.ports import JobStore, OperatorStore, Queries

FIELDS = ("resources", "jobs", "precedence")
REASON = "limit"
JOBS, TASKS = "jobs", "tasks"
"""Limits that are not on a resource."""
MOST_JOBS = 1_000
"""Maximum number of jobs whose running tasks are compared at once."""


def set_limits(
    cell: "JobStore | OperatorStore", kind: str, wanted: Mapping[str, Any], now_ms: int, by: str, *, clear: bool = False
) -> None:
    """Change the limits of a kind, see `changed`; with `clear` from none at all. Raises BadInput, Refused."""
    now = cell.kinds().get(kind)
    cell.set_limits(kind, changed(cell.dimensions, None if clear or now is None else now.limits, wanted), now_ms, by)


def changed(dimensions: Dimensions, now: Limits | None, wanted: Mapping[str, Any]) -> Limits:
    """Return limits with some fields replaced; None removes a limit.

    `wanted`: ``resources`` by name, as amounts of a job file ("4", "2Gi") or numbers; ``jobs``, the number of jobs with
    placed tasks; ``precedence``, the lowest and the highest. Absent fields stay. Raises BadInput.
    """
    for name in wanted:
        if name not in FIELDS:
            raise BadInput(f"limits: {shown(name)} is unknown; known are {', '.join(FIELDS)}")
    now = now or Limits((None,) * len(dimensions))
    amounts: Mapping[str, Any] = wanted.get("resources") or {}
    parsed = dimensions.parse({name: amount for name, amount in amounts.items() if amount is not None})
    dimensions.parse(dict.fromkeys(amounts, 0))  # reports unknown names among the limits to remove
    resources = tuple(
        old if name not in amounts else None if amounts[name] is None else parsed[i]
        for i, (name, old) in enumerate(zip(dimensions.names, now.resources, strict=True))
    )
    jobs = _number(wanted["jobs"]) if "jobs" in wanted else now.jobs
    return Limits(resources, jobs, _range(wanted["precedence"]) if "precedence" in wanted else now.precedence)


def _number(value: Any) -> int | None:
    if value is not None and (type(value) is not int or value < 0):
        raise BadInput(f"limits: jobs: {shown(str(value))} is not a number from 0 on, nor None")
    return value


def _range(value: Any) -> tuple[int, int]:
    if value is None:
        return 0, MOST_PRECEDENCE
    try:
        low, high = (int(each) for each in value)
    except (TypeError, ValueError):
        raise BadInput(f"limits: precedence: {shown(str(value))} is not a pair of numbers, such as [0, 99]") from None
    if not 0 <= low <= high <= MOST_PRECEDENCE:
        raise BadInput(f"limits: precedence: {low} to {high} is not a range within 0 to {MOST_PRECEDENCE}")
    return low, high


# The use above a limit


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
    """Return whether a job belongs to a pool or to one below it, also by its user's name."""
    pools = cell.pools()

    def belongs(job: "Job") -> bool:
        lane = lane_of(job.kind, job.precedence, job.spec)
        leaf = pools.pool_of(lane.pool, lane.user)
        above = pools.path(leaf) or pools.path(pools.parent_of(leaf))
        return pool in (each.name for each in above)

    return belongs


def evict(
    cell: "JobStore | OperatorStore",
    excess: Callable[[], Mapping[str, int]],
    belongs: "Callable[[Job], bool]",
    now_ms: Callable[[], int],
    by: str,
) -> int:
    """Evict tasks of jobs that `belongs` accepts until `excess` is empty; return the number of evicted tasks.

    `omega.schedulers.over_limit` chooses the victims. Evicted tasks are pending again until the limit permits them.
    """
    from omega.schedulers.constraints.fetching import residents_on  # noqa: PLC0415 - numpy
    from omega.schedulers.over_limit import end_victims, over_limit  # noqa: PLC0415

    evicted, over = 0, excess()
    jobs = [job for job in cell.jobs() if belongs(job)] if over else []
    jobs.sort(key=lambda job: (job.precedence, -job.order))
    for start in range(0, len(jobs) if over else 0, MOST_JOBS):
        some = {job.id: job for job in jobs[start : start + MOST_JOBS]}
        runs = (run for job in some.values() for group in job.groups for run in group.runs)
        machines = sorted({machine for _, machine, leaving in runs if not leaving})
        residents = [each for each in residents_on(machines, cell, now_ms() / 1000) if each.job in some]
        amounts = [over.get(name, 0) for name in (JOBS, TASKS, *cell.dimensions.names)]
        evicted += end_victims(cell, over_limit(residents, amounts), REASON, now_ms() / 1000, by)
        over = excess()
        if not over:
            break
    return evicted


def settle(
    cell: "JobStore | OperatorStore",
    what: str,
    excess: Callable[[], Mapping[str, int]],
    belongs: "Callable[[Job], bool] | None",
    now_ms: Callable[[], int],
    by: str,
) -> tuple[dict[str, int], int, str]:
    """Evict what is over a limit; return by how much the use is over then, the evicted tasks, and a warning.

    `belongs` None: nothing is evicted. The warning is empty when the use is within the limit.
    """
    evicted = 0 if belongs is None else evict(cell, excess, belongs, now_ms, by)
    over = dict(excess())
    amounts = ", ".join(f"{name} {format_amount(name, amount)}" for name, amount in over.items())
    kept = "running tasks continue, none starts until enough have ended; --over evict evicts the difference"
    return over, evicted, f"{what}: over by {amounts}: {kept}" if over else ""
