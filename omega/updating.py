"""The update of a running job: new groups beside the old ones, and the changes of both. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from omega.cellstate.errors import BadInput
from omega.cellstate.model import Gang, GroupStatus, Job, JobSpec, TaskGroup
from omega.cellstate.resources import MEMORY_BYTES
from omega.output_pattern import check_distinct
from omega.schedulers.rolling import STARTED_WITH, Policy, Target, count_of, counted, going, resized, targets
from omega.schedulers.sizing import PLAN
from omega.schedulers.speculation import FIELD, with_copies
from omega.users import SOURCES
from omega.versions import UPDATING, next_fields


class Effect(StrEnum):
    """What an update does to a job when it changes a field."""

    REPLACES = "replaced"
    """The tasks are replaced: the work of those that run is lost."""
    IN_PLACE = "in place"
    """The tasks run on; the new value counts from now on."""
    REFUSED = "refused"
    """Only a new job can have another value."""
    FINDS = "finds the job"
    """The field finds the job that is updated."""


JOB_FIELDS: Mapping[str, Effect] = {
    "name": Effect.FINDS,
    "id": Effect.FINDS,
    "kind": Effect.REFUSED,
    "precedence": Effect.REFUSED,
    "gang": Effect.REFUSED,
    "user": Effect.REFUSED,
    "pool": Effect.REFUSED,
    "expected_duration": Effect.REFUSED,
    "policy": Effect.REFUSED,
    "after": Effect.REFUSED,
    "environment": Effect.REPLACES,
    "directory": Effect.REPLACES,
    "simulate": Effect.REPLACES,
    "requeue": Effect.REPLACES,
    "update.health": Effect.REPLACES,
    "update.max_down": Effect.IN_PLACE,
    "update.progress_deadline": Effect.IN_PLACE,
    "weight": Effect.IN_PLACE,
    "on_abandon": Effect.IN_PLACE,
    "annotations": Effect.IN_PLACE,
    "speculation": Effect.IN_PLACE,
}
"""The fields of a job file, without its task groups. docs/services.md has this table, and a test compares both."""
GROUP_FIELDS: Mapping[str, Effect] = {
    "name": Effect.REFUSED,
    "array": Effect.REFUSED,
    "count": Effect.IN_PLACE,
    "repeatable": Effect.IN_PLACE,
    "resources": Effect.REPLACES,
    "command": Effect.REPLACES,
    "runner": Effect.REPLACES,
    "image": Effect.REPLACES,
    "duration": Effect.REPLACES,
    "constraints": Effect.REPLACES,
    "spread": Effect.REPLACES,
    "different_machines": Effect.REPLACES,
    "near": Effect.REPLACES,
    "apart_from": Effect.REPLACES,
    "locality": Effect.REPLACES,
    "restart": Effect.REPLACES,
    "health": Effect.REPLACES,
    "time_limit": Effect.REPLACES,
    "grace": Effect.REPLACES,
    "keep_output": Effect.REPLACES,
    "output": Effect.REPLACES,
    "error": Effect.REPLACES,
}
"""The fields of a task group in a job file."""

STORED_APART = ("kind", "precedence", "gang", "gang_min")
"""Refused fields that are the job's own attributes: they decide the scheduler, and the job's rights over others."""
KEPT = ("user", "pool", "expected_duration", "policy", "after")
"""Refused fields of its spec: they decide its lane, orderings read them, or its start followed them. Unstated: kept."""
OWN = ("submitted_in", "submission", *SOURCES.values())
"""Fields of the spec that are no fields of a job file; an update keeps them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChange:
    """What an update does to the tasks of one group of the job's file."""

    name: str
    replaced: int
    """Tasks that others replace, and those of them that run."""
    running: int
    kept: int
    """Tasks that run on or wait as they are."""
    before: int
    after: int
    fields: tuple[str, ...]
    """The fields whose change replaces them."""

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return asdict(self) | {"fields": list(self.fields)}


@dataclass(frozen=True, slots=True)
class JobUpdate:
    """An update as `Cell.update` takes it, how many tasks it replaces, and what it does to each group of the file.

    `restarts`: the job had ended, and a new one of its name runs all tasks.
    """

    groups: tuple[TaskGroup, ...]
    spec: dict[str, Any]
    replaced: int
    restarts: bool = False
    changes: tuple[GroupChange, ...] = ()


def job_update(job: Job, spec: JobSpec, at_ms: int = 0, by: str = "", *, again: bool = False) -> JobUpdate:
    """Compare a running job with its new specification; raises BadInput for changes that need a new job.

    A replaced group keeps the fields of the job that its tasks were started with. A group that is the same keeps its
    tasks; `again` replaces those too, after an update that stalled. `at_ms` and `by` are time and author of a new
    version; a specification without changes makes none.
    """
    _check(job, spec)
    specs: list[dict[str, Any]] = [dict(each) for each in job.spec.get("groups") or [{}] * len(job.groups)]
    present, asked = _matched(job, spec, specs)
    fields = _fields(job, spec)
    copied = fields.get(FIELD) is not None
    fresh: list[TaskGroup] = []
    wanted: list[Target] = []
    changes: list[GroupChange] = []
    changed = False
    for name, group in asked.items():
        target, number = present[name], present[name].group
        now = job.groups[number]
        differs = _differences(job, fields, (now, specs[number]), group)
        same = not again and not differs
        older = target.older if same else (*target.older, number)
        stored = range(number, number + 1 + _has_copies(job, number))
        if same:
            its = dict(group.spec)
            totals = resized(job, target, group.count)
            changed |= specs[number] != its or any(job.groups[each].total != totals[each] for each in totals)
            if copied and len(stored) == 1:
                fresh += _copies_behind(job, name, number, group, fresh)
        else:
            its = specs[number] | {STARTED_WITH: {each: job.spec[each] for each in _ORDERED if each in job.spec}}
            number = len(job.groups) + len(fresh)
            fresh += with_copies([group]) if copied else [group]
        for each in stored:
            specs[each] = dict(its)
        live = tuple(each for each in older if going(job.groups[each]))
        if "array" in group.spec and older:
            live = older if not same else older[older.index(live[0]) :] if live else ()
        finished = target.finished + sum(counted(job, job.groups[each]) for each in older if each not in live)
        changed = changed or not same or target.count != group.count
        wanted.append(Target(number, group.count, live, finished=finished))
        left = [job.groups[each] for each in live]
        changes.append(
            GroupChange(
                name=name, replaced=sum(map(going, left)), running=sum(each.placed for each in left),
                kept=going(now) if same else 0, before=count_of(job, target), after=group.count, fields=differs,
            )
        )  # fmt: skip
    changed = changed or fields != {name: value for name, value in job.spec.items() if name not in UPDATING}
    versions = next_fields(job, at_ms, by) if changed else _versions(job)
    for its, there in zip(specs, job.groups, strict=True):
        if not going(there):
            its.pop(STARTED_WITH, None)
    groups = specs + [dict(group.spec) for group in fresh]
    whole = fields | versions | {"groups": groups, "targets": [each.row() for each in wanted]}
    return JobUpdate(tuple(fresh), whole, sum(each.replaced for each in changes), changes=tuple(changes))


def resize(job: Job, group: int, count: int) -> tuple[dict[int, int], dict[str, Any] | None]:
    """Return the totals that give a group of the job's file `count` tasks, and the spec to be stored with them.

    The spec of a job that was updated has the count that its update aims at.
    """
    aims = targets(job)
    check_distinct([(count, ((job.spec.get("groups") or [])[group:] or [{}])[0])])
    (target,) = [each for each in aims if each.group == group]
    rows = [replace(each, count=count).row() if each is target else each.row() for each in aims]
    return resized(job, target, count), {**job.spec, "targets": rows} if "targets" in job.spec else None


def restarted(job: Job, spec: JobSpec, job_id: str, at_ms: int, by: str) -> JobSpec:
    """Return the job that restarts a service that ended: a new one of its name, which keeps its versions.

    Raises BadInput for a change that an update of `job` could not make.
    """
    _check(job, spec)
    _matched(job, spec, [dict(each) for each in job.spec.get("groups") or [{}] * len(job.groups)])
    goals = [Target(i, group.count, restarted=True) for i, group in enumerate(spec.groups) if not group.copies]
    whole = _fields(job, spec) | next_fields(job, at_ms, by) | {"targets": [goal.row() for goal in goals]}
    return replace(spec, id=job_id, spec=whole)


def _matched(
    job: Job, spec: JobSpec, specs: Sequence[Mapping[str, Any]]
) -> tuple[dict[str, Target], dict[str, TaskGroup]]:
    """Return the present and the wanted groups of a job by their names; raises BadInput when the names differ."""
    known = {_key(i, specs[target.group]): target for i, target in enumerate(targets(job))}
    groups = [group for group in spec.groups if not group.copies]
    asked = {_key(i, group.spec): group for i, group in enumerate(groups)}
    if known.keys() != asked.keys():
        raise BadInput(f"job {spec.name}: an update keeps its groups, {', '.join(known)}; submit others as a new job")
    for name, group in asked.items():
        if specs[known[name].group].get("array") != group.spec.get("array"):
            raise BadInput(
                f"job {spec.name}: an update keeps the indices of an array, and group {name} would have others; only "
                "the end of a range may change; submit others as a new job"
            )
    return known, asked


_ORDERED = ("environment", "directory", "submitted_in", "simulate", "update")
"""Fields of a job that its tasks are started with."""
_IN_PLACE = frozenset(name for name, effect in GROUP_FIELDS.items() if effect is Effect.IN_PLACE)


def _differences(
    job: Job, fields: Mapping[str, Any], present: tuple[GroupStatus, Mapping[str, Any]], group: TaskGroup
) -> tuple[str, ...]:
    """Return the names of the fields whose change replaces the tasks of a group."""
    now, its = present
    names = {
        "resources": now.need != tuple(group.need) or its.get(MEMORY_BYTES) != group.spec.get(MEMORY_BYTES),
        "duration": now.duration_ms != group.duration_ms,
        "requeue": now.once != group.once,
        "restart": now.budget != group.budget and not group.once,
        "update.health": _health(job.spec) != _health(fields),
        **{each: (job.spec.get(each) or None) != (fields.get(each) or None) for each in _ORDERED[:-1]},
        "optional": now.optional != group.optional,
    }
    its_fields = {*its, *group.spec} - _IN_PLACE - {STARTED_WITH, MEMORY_BYTES}
    differs = [name for name, other in names.items() if other]
    differs += [name for name in sorted(its_fields) if its.get(name) != group.spec.get(name)]
    return tuple(dict.fromkeys(differs))


def _health(spec: Mapping[str, Any]) -> tuple[object, ...]:
    policy = Policy.of(spec)
    return policy.command, policy.grace_ms, policy.healthy_after_ms


def _has_copies(job: Job, number: int) -> bool:
    return number + 1 < len(job.groups) and job.groups[number + 1].copies


def _copies_behind(job: Job, name: str, number: int, group: TaskGroup, fresh: Sequence[TaskGroup]) -> list[TaskGroup]:
    """Return the group for copies of running tasks, which stands behind theirs. BadInput where it cannot."""
    if number + 1 < len(job.groups) or fresh:
        raise BadInput(
            f"job {job.name}: {FIELD} cannot be added to the running tasks of group {name}, as it has several "
            "groups; change a field that replaces the tasks of all of them, or submit it as a new job"
        )
    return [with_copies([group])[1]]


def _fields(job: Job, spec: JobSpec) -> dict[str, Any]:
    """Return the fields of an updated job that belong to its version."""
    stated = {name: value for name, value in spec.spec.items() if name not in OWN}
    return stated | {name: job.spec[name] for name in (*KEPT, *OWN) if name in job.spec}


def _versions(job: Job) -> dict[str, Any]:
    return {name: job.spec[name] for name in ("version", "versions") if name in job.spec}


def _check(job: Job, spec: JobSpec) -> None:
    """Raise BadInput for a change that only a new job can make."""
    if PLAN in job.spec or PLAN in spec.spec:
        raise BadInput(
            f"job {spec.name}: the phases of a MapReduce job share their files, so its workers cannot be replaced by "
            "others; stop it and submit it again"
        )
    for name in STORED_APART:
        if getattr(job, name) != getattr(spec, name):
            now = getattr(job, name)
            said = now.name.lower() if isinstance(now, Gang) else now
            raise BadInput(f"job {spec.name}: an update keeps its {name} ({said}); to change it, submit a new job")
    for name in KEPT:
        if name in spec.spec and spec.spec[name] != job.spec.get(name):
            now = job.spec.get(name) or "none"
            said = ", ".join(f"{each} {value}" for each, value in now.items()) if isinstance(now, Mapping) else now
            said = ", ".join(each["job"] for each in now) if isinstance(now, list) else said
            raise BadInput(f"job {spec.name}: an update keeps its {name} ({said}); to change it, submit a new job")
    if job.gang is not Gang.NO:
        raise BadInput(f"job {spec.name}: the tasks of a gang are not replaced one by one; stop it and submit it again")


def _key(position: int, group: Any) -> str:
    return str(group.get("name") or position)
