"""The limits of a job type as they concern one job (semantics 9); commit.lua validates the claims."""

from collections.abc import Sequence

from cellstate.cell import KindUse
from cellstate.model import Gang, Job
from cellstate.resources import format_amount


def limit_reached(job: Job, left: Sequence[int], use: KindUse, names: Sequence[str]) -> str:
    """Return the limit of its job type that excludes every task of a job; empty when none does.

    `left` counts the unplaced tasks of each group, `use` has limits and use of the job type, `names` the resources.
    A gang needs room for all unplaced tasks, other jobs for their smallest task.
    """
    low, high = use.limits.precedence
    if not low <= job.precedence <= high:
        return f"precedence {job.precedence} is not within {low} to {high} of kind {job.kind}"
    fresh = not any(group.placed for group in job.groups)
    if fresh and use.limits.jobs is not None and use.jobs >= use.limits.jobs:
        return f"{use.jobs} jobs of kind {job.kind} are admitted, the most there may be"
    for d, most in enumerate(use.limits.resources):
        needs = [(group.need[d], count) for group, count in zip(job.groups, left, strict=True) if count]
        if most is None or not needs:
            continue
        gang = job.gang is not Gang.NO
        least = sum(need * count for need, count in needs) if gang else min(need for need, _ in needs)
        if 0 < least > most - use.used[d]:
            held, limit, need = (format_amount(names[d], amount) for amount in (use.used[d], most, least))
            who = "the gang" if gang else "a task"
            return f"{names[d]}: kind {job.kind} holds {held} of at most {limit}, {who} needs {need}"
    return ""
