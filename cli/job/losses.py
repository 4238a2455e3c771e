"""Losses of a job's tasks, as ``job status`` and ``job why`` show them (semantics 26)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from cli import words
from cli.job.state import group_names

if TYPE_CHECKING:
    from cellstate.model import Job
    from cellstate.redis import RedisCell


def losses(cell: "RedisCell", job: "Job") -> list[dict[str, Any]]:
    """Return the losses of tasks that have not ended; ``delay_ms`` is how long they are delayed from now on."""
    if not any(group.losses for group in job.groups):
        return []
    now, names = cell.store_ms(), group_names(job)
    return [
        {"group": number, "name": names[number], "tasks": loss.tasks, "lost": loss.times, "budget": group.budget,
         "delay_ms": max(0, loss.due_ms - now)}
        for number, group in enumerate(job.groups) for loss in group.losses
    ]  # fmt: skip


def lines(found: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a line for each: ``tasks 3,5 of web: lost 2 times of at most 10, placed again in 3.2 s``."""
    for each in found:
        delay = f", delayed for {words.seconds(each['delay_ms'] / 1000)}" if each["delay_ms"] else ""
        times = words.count(each["lost"], "time")
        yield f"tasks {each['tasks']} of group {each['name']}: lost {times} of at most {each['budget']}{delay}"
