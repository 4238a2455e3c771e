"""The update of a running job: new groups beside the old ones, and the changes of both. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from omega.cellstate.errors import BadInput
from omega.cellstate.model import Gang, GroupStatus, Job, JobSpec, TaskGroup
from omega.schedulers.rolling import Target, counted, going, targets
from omega.schedulers.sizing.model import PLAN
from omega.users import SOURCES
from omega.versions import UPDATING, next_fields

KEPT = ("kind", "precedence", "gang", "gang_min")
"""Fields that an update cannot change: they decide the scheduler, and the job's rights over others."""
ORDERED = ("user", "pool", "expected_duration", "policy")
"""Fields that decide its lane (`omega.cellstate.lanes`) or that orderings read; an update keeps them, also unstated."""


@dataclass(frozen=True, slots=True)
class JobUpdate:
    """An update as `Cell.update` takes it, and how many tasks it replaces.

    `restarts`: the job had ended, and a new one of its name runs all tasks.
    """

    groups: tuple[TaskGroup, ...]
    spec: dict[str, Any]
    replaced: int
    restarts: bool = False


def job_update(job: Job, spec: JobSpec, at_ms: int = 0, by: str = "", *, again: bool = False) -> JobUpdate:
    """Compare a running job with its new specification; raises BadInput for changes that need a new job.

    A group that is the same keeps its tasks; `again` replaces those too, after an update that stalled. `at_ms` and `by`
    are the time and the author of a new version; a specification without changes makes none.
    """
    _check(job, spec)
    specs: list[dict[str, Any]] = [dict(each) for each in job.spec.get("groups") or [{}] * len(job.groups)]
    present, asked = _matched(job, spec, specs)
    fresh: list[TaskGroup] = []
    wanted: list[Target] = []
    changed = False
    for name, group in asked.items():
        target = present[name]
        now = job.groups[target.group]
        same = not again and _same(now, specs[target.group], group)
        older = target.older if same else (*target.older, target.group)
        number = target.group if same else len(job.groups) + len(fresh)
        if number != target.group:
            fresh.append(group)
        live = tuple(each for each in older if going(job.groups[each]))
        finished = target.finished + sum(counted(job, job.groups[each]) for each in older if each not in live)
        # The store takes an update with the spec that the job has for one that was sent twice (semantics 14).
        wants = max(group.count - finished, now.finished + now.failed + now.stopped)
        resized = job.modified if number == target.group and not live and now.total != wants else 0
        changed = changed or not same or bool(resized) or target.count != group.count
        wanted.append(Target(number, group.count, live, finished=finished, resized=resized))
    replaced = sum(going(job.groups[number]) for target in wanted for number in target.older)
    fields = _fields(job, spec)
    changed = changed or fields != {name: value for name, value in job.spec.items() if name not in UPDATING}
    versions = next_fields(job, at_ms, by) if changed else _versions(job)
    groups = specs + [dict(group.spec) for group in fresh]
    whole = fields | versions | {"groups": groups, "targets": [each.row() for each in wanted]}
    return JobUpdate(tuple(fresh), whole, replaced)


def restarted(job: Job, spec: JobSpec, job_id: str, at_ms: int, by: str) -> JobSpec:
    """Return the job that restarts a service that ended: a new one of its name, which keeps its versions.

    Raises BadInput for a change that an update of `job` could not make.
    """
    _check(job, spec)
    _matched(job, spec, [dict(each) for each in job.spec.get("groups") or [{}] * len(job.groups)])
    goals = [Target(i, group.count, restarted=True) for i, group in enumerate(spec.groups)]
    whole = _fields(job, spec) | next_fields(job, at_ms, by) | {"targets": [goal.row() for goal in goals]}
    return replace(spec, id=job_id, spec=whole)


def _matched(
    job: Job, spec: JobSpec, specs: Sequence[Mapping[str, Any]]
) -> tuple[dict[str, Target], dict[str, TaskGroup]]:
    """Return the present and the wanted groups of a job by their names; raises BadInput when the names differ."""
    known = {_key(i, specs[target.group]): target for i, target in enumerate(targets(job))}
    asked = {_key(i, group.spec): group for i, group in enumerate(spec.groups)}
    if known.keys() != asked.keys():
        raise BadInput(f"job {spec.name}: an update keeps its groups, {', '.join(known)}; submit others as a new job")
    return known, asked


def _same(now: GroupStatus, its: Mapping[str, Any], group: TaskGroup) -> bool:
    """Return whether the tasks of a group are those that are wanted."""
    wanted = (group.need, group.duration_ms, group.once, dict(group.spec))
    return (now.need, now.duration_ms, now.once, its) == wanted


def _fields(job: Job, spec: JobSpec) -> dict[str, Any]:
    """Return the fields of an updated job that belong to its version."""
    return dict(spec.spec) | {name: job.spec[name] for name in (*ORDERED, *SOURCES.values()) if name in job.spec}


def _versions(job: Job) -> dict[str, Any]:
    return {name: job.spec[name] for name in ("version", "versions") if name in job.spec}


def _check(job: Job, spec: JobSpec) -> None:
    """Raise BadInput for a change that only a new job can make."""
    if PLAN in job.spec or PLAN in spec.spec:
        raise BadInput(
            f"job {spec.name}: the phases of a MapReduce job share their files, so its workers cannot be replaced by "
            "others; stop it and submit it again"
        )
    for name in KEPT:
        if getattr(job, name) != getattr(spec, name):
            now = getattr(job, name)
            said = now.name.lower() if isinstance(now, Gang) else now
            raise BadInput(f"job {spec.name}: an update keeps its {name} ({said}); to change it, submit a new job")
    for name in ORDERED:
        if name in spec.spec and spec.spec[name] != job.spec.get(name):
            now = job.spec.get(name) or "none"
            said = ", ".join(f"{each} {value}" for each, value in now.items()) if isinstance(now, Mapping) else now
            raise BadInput(f"job {spec.name}: an update keeps its {name} ({said}); to change it, submit a new job")
    if job.gang is not Gang.NO:
        raise BadInput(f"job {spec.name}: the tasks of a gang are not replaced one by one; stop it and submit it again")


def _key(position: int, group: Any) -> str:
    return str(group.get("name") or position)
