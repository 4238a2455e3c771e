"""Submitting a job again: all of it, its failed tasks, or some of its tasks by index."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from omega.arrays import MOST_SPANS, Array, Span, array_index, parse_array
from omega.cellstate import ranges
from omega.cellstate.errors import BadInput, Refused
from omega.cellstate.model import JobSpec, TaskGroup
from omega.changes import group_of
from omega.queries.task_names import TaskNames
from omega.queries.task_results import job_tasks
from omega.schedulers.rolling import named_groups
from omega.schedulers.speculation import FIELD, with_copies
from omega.submission import new_id, rerun_name
from omega.users import SOURCES

if TYPE_CHECKING:
    from omega.cellstate.model import Job
    from omega.cellstate.redis import RedisCell

ORIGIN = "rerun_of"
"""The annotation of a job that was submitted again: the id of its origin."""
_OWN = ("user", *SOURCES.values(), "submission", "targets", "version", "versions", "after", "logical_name")
"""Fields of a specification that a job does not take from its origin."""


def rerun(
    cell: "RedisCell",
    job: "Job",
    name: str | None,
    *,
    failed: bool = False,
    tasks: str | None = None,
    group: str | None = None,
) -> JobSpec:
    """Return a job with tasks of another one: all of them, those that `failed`, or `tasks` of a group by their index.

    Without `name` it has that of its origin, with ``-rerun`` while that lives. The tasks keep their indices: they are
    an array, also where the group was none. Raises BadInput, Refused.
    """
    if failed and tasks is not None:
        raise BadInput("failed and tasks exclude each other; give one of them")
    if job.spec.get("mapreduce"):
        raise Refused(f"job {job.name}: is a MapReduce job, whose tasks share its work; submit its file again")
    current = named_groups(job)
    chosen: dict[int, list[int] | None]
    if failed:
        chosen = dict(_failed(cell, job, current))
    elif tasks is not None:
        number = group_of(job, group)
        chosen = {number: _asked(job, number, tasks)}
    else:
        chosen = {number: None for number in current if job.groups[number].total}
    groups = [_group(job, number, some) for number, some in chosen.items() if some is None or some]
    job_id = new_id()
    spec = {key: value for key, value in job.spec.items() if key not in (*_OWN, "groups")}
    spec["annotations"] = {**spec.get("annotations", {}), ORIGIN: job.id}
    made = with_copies(groups) if spec.get(FIELD) is not None else tuple(groups)
    least = min(job.gang_min, sum(each.count for each in made))
    called = name or rerun_name(cell, job, job_id)
    return JobSpec(job_id, called, job.kind, made, job.precedence, job.gang, spec, gang_min=least)


def _failed(cell: "RedisCell", job: "Job", current: Sequence[int]) -> dict[int, list[int]]:
    """Return the failed tasks of these groups. Refused when there are none, or more than results name."""
    chosen: dict[int, list[int]] = {number: [] for number in current}
    for row in job_tasks(cell, job).of("failed").rows:
        if row.group in chosen:
            chosen[row.group] += ranges.indices(row.tasks)
    count, known = sum(job.groups[number].failed for number in current), sum(map(len, chosen.values()))
    if not known and not count:
        raise Refused(f"job {job.name}: no task failed; see omega job tasks {job.name}")
    if known < count:
        raise Refused(f"job {job.name}: {count} tasks failed, and results name {known}; name them with --tasks")
    return chosen


def _asked(job: "Job", number: int, text: str) -> list[int]:
    """Return the tasks of a group with these indices. Raises BadInput, and Refused for an index without a task."""
    names = TaskNames.of(job)
    return [
        names.task(job, number, index)
        for span in parse_array(text).spans
        for index in range(span.first, span.last + 1, span.step)
    ]


def _spec_of(job: "Job", number: int) -> dict[str, Any]:
    groups = job.spec.get("groups") or [{}] * len(job.groups)
    return dict(groups[number])


def _group(job: "Job", number: int, tasks: Sequence[int] | None) -> TaskGroup:
    """Return a group with some tasks of another one, or with all of them (None)."""
    group, spec = job.groups[number], _spec_of(job, number)
    made = TaskGroup(group.need, group.total, group.duration_ms, spec, group.optional, group.budget, group.once)
    if tasks is None:
        return made
    indices = [index if (index := array_index(spec, task)) is not None else task for task in tasks]
    array = Array(tuple(Span(first, last) for first, last in ranges.spans(ranges.spell_all(indices))))
    if len(array.spans) > MOST_SPANS:
        raise BadInput(f"{len(array.spans):,} ranges of tasks; the most is {MOST_SPANS:,}: name some with --tasks")
    return replace(made, count=len(tasks), spec=spec | {"array": array.spec()})
