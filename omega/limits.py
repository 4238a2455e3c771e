"""Changes of the limits on all jobs of a kind, and evictions after a limit was lowered below the use."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from omega.cellstate.errors import BadInput
from omega.cellstate.lanes import lane_of
from omega.cellstate.model import MOST_PRECEDENCE, Limits
from omega.cellstate.resources import Dimensions, format_amount, shown

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell
    from omega.cellstate.model import Job
    from omega.cellstate.pools import Pools
    from omega.cellstate.pools.records import PoolUse
    from omega.cellstate.snapshot import Resident
    from omega.schedulers.preemption.victims import Victim

FIELDS = ("resources", "jobs", "precedence")
REASON = "limit"
JOBS, TASKS = "jobs", "tasks"
"""Limits that are not on a resource."""
MOST_JOBS = 1_000
"""Maximum number of jobs whose running tasks are compared at once."""


def set_limits(
    cell: "Cell", kind: str, wanted: Mapping[str, Any], now_ms: int, by: str, *, clear: bool = False
) -> Limits:
    """Change the limits of a kind, see `changed`, and return them; with `clear` from none at all. BadInput, Refused."""
    now = cell.pools.kinds().get(kind)
    limits = changed(cell.dimensions, None if clear or now is None else now.limits, wanted)
    cell.pools.set_limits(kind, limits, now_ms, by)
    return limits


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


def excess_of_kind(cell: "Cell", kind: str, wanted: Limits | None = None) -> dict[str, int]:
    """Return by how much the use of a kind exceeds its limits, by resource or ``jobs``; empty when it does not.

    `wanted`: the limits that a dry run would set.
    """
    use = cell.pools.kinds().get(kind)
    if use is None:
        return {}
    limits = use.limits if wanted is None else wanted
    names = (*cell.dimensions.names, JOBS)
    pairs = zip((*use.used, use.jobs), (*limits.resources, limits.jobs), strict=True)
    return _excess(dict(zip(names, pairs, strict=True)))


def excess_of_pool(cell: "Cell", pool: str, wanted: "Pools | None" = None) -> dict[str, int]:
    """Return by how much the use of a pool exceeds its limits, by resource, ``tasks`` or ``jobs``.

    `wanted`: the pools that a dry run would set.
    """
    if wanted is None:
        use, limits = cell.pools.use().get(pool), cell.pools.get().by_name[pool].upper
    else:
        use, limits = _use_of_pool(cell, pool, wanted), wanted.by_name[pool].upper
    if use is None:
        return {}
    held = {JOBS: use.jobs, TASKS: use.tasks} | dict(zip(cell.dimensions.names, use.amounts, strict=True))
    return _excess({name: (held[name], limit) for name, limit in limits.items()})


def _use_of_pool(cell: "Cell", pool: str, pools: "Pools") -> "PoolUse":
    """Return the use of a pool from its jobs; the store has it only of pools that carry limits already."""
    from omega.cellstate.pools.records import PoolUse  # noqa: PLC0415

    belongs, amounts, jobs, tasks = jobs_of_pool(pools, pool), [0] * len(cell.dimensions), 0, 0
    for job in cell.jobs.all():
        if job.placed and belongs(job):
            jobs, tasks = jobs + 1, tasks + job.placed
            for group in job.groups:
                amounts = [held + group.placed * need for held, need in zip(amounts, group.need, strict=True)]
    return PoolUse(jobs, tasks, tuple(amounts))


def _excess(pairs: Mapping[str, tuple[int, int | None]]) -> dict[str, int]:
    return {name: used - limit for name, (used, limit) in pairs.items() if limit is not None and used > limit}


def jobs_of_pool(pools: "Pools", pool: str) -> "Callable[[Job], bool]":
    """Return whether a job belongs to a pool or to one below it, also by its user's name."""

    def belongs(job: "Job") -> bool:
        lane = lane_of(job.kind, job.precedence, job.spec)
        leaf = pools.pool_of(lane.pool, lane.user)
        above = pools.path(leaf) or pools.path(pools.parent_of(leaf))
        return pool in (each.name for each in above)

    return belongs


class Settled(NamedTuple):
    """What is over a limit after evictions, how many tasks they ended and what these held, and a warning.

    `over` and `freed` are by resource, ``tasks`` and ``jobs``. The warning is empty when nothing is over.
    """

    over: dict[str, int]
    evicted: int
    freed: Counter[str]
    warning: str


def evict(
    cell: "Cell",
    excess: Callable[[], Mapping[str, int]],
    belongs: "Callable[[Job], bool]",
    now_ms: Callable[[], int],
    by: str,
) -> tuple[int, Counter[str]]:
    """Evict tasks of jobs that `belongs` accepts until `excess` is empty; return their number, and what they held.

    `omega.schedulers.over_limit` chooses the victims. Evicted tasks are pending again until the limit permits them.
    """
    from omega.schedulers.constraints.fetching import residents_on  # noqa: PLC0415 - numpy
    from omega.schedulers.over_limit import end_victims, over_limit  # noqa: PLC0415

    evicted, freed, over = 0, Counter[str](), excess()
    jobs = [job for job in cell.jobs.all() if belongs(job)] if over else []
    jobs.sort(key=lambda job: (job.precedence, -job.order))
    for start in range(0, len(jobs) if over else 0, MOST_JOBS):
        some = {job.id: job for job in jobs[start : start + MOST_JOBS]}
        runs = (run for job in some.values() for group in job.groups for run in group.runs)
        machines = sorted({machine for _, machine, leaving in runs if not leaving})
        residents = [each for each in residents_on(machines, cell, now_ms() / 1000) if each.job in some]
        amounts = [over.get(name, 0) for name in (JOBS, TASKS, *cell.dimensions.names)]
        victims = over_limit(residents, amounts)
        evicted += end_victims(cell, victims, REASON, now_ms() / 1000, by)
        freed += _held(cell, victims, residents)
        over = _less(excess(), freed) if cell.dry else excess()
        if not over:
            break
    return evicted, freed


def _held(cell: "Cell", victims: "Sequence[Victim]", residents: "Sequence[Resident]") -> Counter[str]:
    """Return what victims hold, by resource, ``tasks`` and ``jobs``: a job whose tasks all are victims counts."""
    left, found = Counter[str](), Counter[str]()
    for each in residents:
        left[each.job] += each.tasks
    gangs = {each.resident.job for each in victims if each.resident.together}
    for victim in victims:
        if victim.resident.job not in gangs:
            left[victim.resident.job] -= victim.number
            found.update(
                {
                    name: victim.number * need
                    for name, need in zip(cell.dimensions.names, victim.resident.need, strict=True)
                }
            )
            found[TASKS] += victim.number
    for each in residents:
        if each.job in gangs:  # it leaves as a whole
            left[each.job] -= each.tasks
            found.update({name: each.tasks * need for name, need in zip(cell.dimensions.names, each.need, strict=True)})
            found[TASKS] += each.tasks
    found[JOBS] = sum(not left[job] for job in {each.resident.job for each in victims})
    return found


def _less(over: Mapping[str, int], freed: Mapping[str, int]) -> dict[str, int]:
    return {name: amount - freed[name] for name, amount in over.items() if amount > freed[name]}


def settle(
    cell: "Cell",
    what: str,
    excess: Callable[[], Mapping[str, int]],
    belongs: "Callable[[Job], bool] | None",
    now_ms: Callable[[], int],
    by: str,
) -> Settled:
    """Evict what is over a limit; `belongs` None: nothing is evicted."""
    evicted, freed = (0, Counter[str]()) if belongs is None else evict(cell, excess, belongs, now_ms, by)
    over = _less(excess(), freed) if cell.dry else dict(excess())
    amounts = ", ".join(f"{name} {format_amount(name, amount)}" for name, amount in over.items())
    kept = "running tasks continue, none starts until enough have ended; --over evict evicts the difference"
    return Settled(over, evicted, freed, f"{what}: over by {amounts}: {kept}" if over else "")
