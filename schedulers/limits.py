"""The limits of a job type and of pools as they concern one job (semantics 9); commit.lua validates the claims."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from omega.cellstate.model import Job
from omega.cellstate.pools import JOBS, TASKS, Pools
from omega.cellstate.pools.records import PoolUse
from omega.cellstate.replies import KindUse
from omega.cellstate.resources import format_amount


class ReachedLimit(NamedTuple):
    """A limit that excludes every task of a job: whose it is, of which resource, ``tasks`` or ``jobs``, and amounts.

    `needed` is what the smallest task needs, of a gang the tasks together that it places together.
    """

    owner: str
    resource: str
    used: int
    limit: int
    needed: int
    gang: bool

    @property
    def short(self) -> int:
        """The amount by which the limit is too low."""
        return self.used + self.needed - self.limit

    @property
    def never(self) -> bool:
        """Whether the task would not fit if nothing else were in use."""
        return self.needed > self.limit

    @property
    def text(self) -> str:
        """``pool web, memory: 3Gi of at most 4Gi in use, a task needs 2Gi; 1Gi short``."""
        used, limit, needed, short = (
            format_amount(self.resource, amount) for amount in (self.used, self.limit, self.needed, self.short)
        )
        who = "a job" if self.resource == JOBS else "the gang" if self.gang else "a task"
        if self.never:
            return f"{self.owner}, {self.resource}: {who} needs {needed}, and the limit is {limit}"
        return f"{self.owner}, {self.resource}: {used} of at most {limit} in use, {who} needs {needed}; {short} short"

    def as_json(self) -> dict[str, Any]:
        """Return the limit as plain values, amounts in smallest units."""
        return {"of": self.owner, "resource": self.resource, "used": self.used, "limit": self.limit,
                "needed": self.needed, "short": self.short}  # fmt: skip


def precedence_excluded(job: Job, use: KindUse) -> str:
    """Return the text for a precedence that the job type does not allow; empty when it does."""
    low, high = use.limits.precedence
    within = low <= job.precedence <= high
    return "" if within else f"precedence {job.precedence} is not within {low} to {high} of kind {job.kind}"


class Limited(NamedTuple):
    """The limits of a job type or a pool and what is in use, by resource, ``tasks`` and ``jobs``; None: no limit."""

    owner: str
    limits: Mapping[str, int | None]
    used: Mapping[str, int]


def limited_by_kind(job: Job, use: KindUse, names: Sequence[str]) -> Limited:
    """Return the limits of a job's type; `names` are the cell's resources."""
    limits = {JOBS: use.limits.jobs, **dict(zip(names, use.limits.resources, strict=True))}
    return Limited(f"kind {job.kind}", limits, {JOBS: use.jobs, **dict(zip(names, use.used, strict=True))})


def limited_by_pools(job: Job, pools: Pools, use: Mapping[str, PoolUse], names: Sequence[str]) -> list[Limited]:
    """Return the limits in force of the job's pool and its ancestors, from the pool upward."""
    leaf = pools.pool_of(str(job.spec.get("pool") or ""), str(job.spec.get("user") or ""))
    held = [(pool, use[pool.name]) for pool in pools.chain(leaf) if pool.name in use]
    return [
        Limited(
            f"pool {pool.name}", pool.upper,
            {JOBS: has.jobs, TASKS: has.tasks, **dict(zip(names, has.amounts, strict=True))},
        )
        for pool, has in held
    ]  # fmt: skip


def limit_reached(
    job: Job, left: Sequence[int], limits: Sequence[Limited], names: Sequence[str]
) -> ReachedLimit | None:  # fmt: skip
    """Return the first limit that excludes every task of a job, first one that would with nothing else in use.

    `left` counts the unplaced tasks of each group, those of other groups are not considered where it is 0.
    """
    reached = [found for each in limits if (found := _reached(each, job, left, names)) is not None]
    return next((each for each in reached if each.never), reached[0] if reached else None)


def never_admitted(
    job: Job, left: Sequence[int], limits: Sequence[Limited], names: Sequence[str]
) -> dict[int, ReachedLimit]:  # fmt: skip
    """Return the groups with unplaced tasks that a limit excludes whatever is in use, each with that limit.

    The groups of a gang are excluded together.
    """
    found: dict[int, ReachedLimit] = {}
    gang = job.lacks > 0
    for at, count in enumerate(left):
        alone = [one if gang or group == at else 0 for group, one in enumerate(left)]
        reached = limit_reached(job, alone, limits, names) if count and limits else None
        if reached is not None and reached.never:
            found[at] = reached
    return found


def admitted(job: Job, left: Sequence[int], limits: Sequence[Limited], names: Sequence[str]) -> list[int]:
    """Return how many unplaced tasks of each group the limits admit now, groups in order."""
    admits = list[int]()
    used = [dict(each.used) for each in limits]
    for group, count in zip(job.groups, left, strict=True):
        need = {TASKS: 1, **dict(zip(names, group.need, strict=True))}
        most = count
        for each, held in zip(limits, used, strict=True):
            for name, limit in each.limits.items():
                if limit is not None and name != JOBS and need[name]:
                    most = min(most, max(0, limit - held[name]) // need[name])
        for held in used:
            for name in held:
                held[name] += need.get(name, 0) * most
        admits.append(most)
    fresh = not any(group.placed for group in job.groups)
    full = any((limit := each.limits.get(JOBS)) is not None and each.used[JOBS] >= limit for each in limits)
    return [0] * len(left) if fresh and full else admits


def _reached(limited: Limited, job: Job, left: Sequence[int], names: Sequence[str]) -> ReachedLimit | None:
    together = job.lacks
    fresh = not any(group.placed for group in job.groups)
    found = list[ReachedLimit]()
    for name, limit in limited.limits.items():
        if limit is None:
            continue
        if name == JOBS:
            needs = [(1, 1)] if fresh else []
        elif name == TASKS:
            needs = [(1, count) for count in left if count]
        else:
            d = names.index(name)
            needs = [(group.need[d], count) for group, count in zip(job.groups, left, strict=True) if count]
        if not needs:
            continue
        least = least_need(needs, together if together and name != JOBS else 1)
        if 0 < least > limit - limited.used[name]:
            found.append(ReachedLimit(limited.owner, name, limited.used[name], limit, least, together > 0))
    return next((each for each in found if each.never), found[0] if found else None)


def least_need(needs: Iterable[tuple[int, int]], tasks: int) -> int:
    """Return what so many of the smallest tasks need together; `needs`: what a task needs, and how many there are."""
    total = 0
    for need, count in sorted(needs):
        taken = min(count, tasks)
        total, tasks = total + need * taken, tasks - taken
    return total
