"""Losses of a job's tasks (semantics 26)."""

from typing import TYPE_CHECKING, Any

from omega.queries.job_state import group_names

if TYPE_CHECKING:
    from omega.cellstate.model import Job
    from omega.cellstate.ports import Queries


def losses(cell: "Queries", job: "Job") -> list[dict[str, Any]]:
    """Return the losses of tasks that have not ended; ``delay_ms`` is how long they are delayed from now on."""
    if not any(group.losses for group in job.groups):
        return []
    now, names = cell.store_ms(), group_names(job)
    return [
        {
            "group": number,
            "name": names[number],
            "tasks": loss.tasks,
            "lost": loss.times,
            "budget": group.budget,
            "delay_ms": max(0, loss.due_ms - now),
        }
        for number, group in enumerate(job.groups)
        for loss in group.losses
    ]
