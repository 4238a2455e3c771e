"""The limits of a job type and of pools as they concern one job (semantics 9); commit.lua validates the claims."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from omega.cellstate.model import Gang, Job
from omega.cellstate.pools import JOBS, TASKS, Pools
from omega.cellstate.pools.records import PoolUse
from omega.cellstate.replies import KindUse
from omega.cellstate.resources import format_amount


class ReachedLimit(NamedTuple):
    """A limit that excludes every task of a job: whose it is, of which resource, ``tasks`` or ``jobs``, and amounts.

    `needed` is what the smallest task needs, of a gang all of its unplaced tasks together.
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
    def text(self) -> str:
        """``pool web, memory: 3Gi of at most 4Gi in use, a task needs 2Gi; 1Gi short``."""
        used, limit, needed, short = (
            format_amount(self.resource, amount) for amount in (self.used, self.limit, self.needed, self.short)
        )
        who = "a job" if self.resource == JOBS else "the gang" if self.gang else "a task"
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


def limit_reached(job: Job, left: Sequence[int], use: KindUse, names: Sequence[str]) -> ReachedLimit | None:
    """Return the limit of its job type that excludes every task of a job, None when none does.

    `left` counts the unplaced tasks of each group, `use` has limits and use of the job type, `names` the resources.
    """
    limits = {JOBS: use.limits.jobs, **dict(zip(names, use.limits.resources, strict=True))}
    used = {JOBS: use.jobs, **dict(zip(names, use.used, strict=True))}
    return _reached(f"kind {job.kind}", limits, used, job, left, names)


def pool_limit_reached(
    job: Job, left: Sequence[int], pools: Pools, use: Mapping[str, PoolUse], names: Sequence[str]
) -> ReachedLimit | None:
    """Return the first limit of the job's pool and its ancestors that excludes every task, None when none does."""
    leaf = pools.pool_of(str(job.spec.get("pool") or ""), str(job.spec.get("user") or ""))
    for pool in pools.chain(leaf):
        held = use.get(pool.name)
        if held is not None:
            used = {JOBS: held.jobs, TASKS: held.tasks, **dict(zip(names, held.amounts, strict=True))}
            reached = _reached(f"pool {pool.name}", pool.upper, used, job, left, names)
            if reached is not None:
                return reached
    return None


def _reached(
    owner: str, limits: Mapping[str, int | None], used: Mapping[str, int], job: Job, left: Sequence[int],
    names: Sequence[str],
) -> ReachedLimit | None:  # fmt: skip
    gang = job.gang is not Gang.NO
    fresh = not any(group.placed for group in job.groups)
    for name, limit in limits.items():
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
        least = sum(need * count for need, count in needs) if gang and name != JOBS else min(need for need, _ in needs)
        if 0 < least > limit - used[name]:
            return ReachedLimit(owner, name, used[name], limit, least, gang)
    return None
