"""The update of a running job: new groups beside the old ones, and the changes of both. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from omega.cellstate.errors import BadInput
from omega.cellstate.model import Gang, Job, JobSpec, TaskGroup
from omega.schedulers.resizing import PLAN
from omega.schedulers.rolling import Target, counted, going, targets

KEPT = ("kind", "precedence", "gang")
"""Fields that an update cannot change: they decide the scheduler, and the job's rights over others."""
ORDERED = ("user", "pool", "expected_duration", "policy")
"""Fields that decide its lane (`omega.cellstate.lanes`) or that orderings read; an update keeps them, also unstated."""


@dataclass(frozen=True, slots=True)
class JobUpdate:
    """An update as `Cell.update` takes it, and how many tasks it replaces."""

    groups: tuple[TaskGroup, ...]
    spec: dict[str, Any]
    replaced: int


def job_update(job: Job, spec: JobSpec, *, again: bool = False) -> JobUpdate:
    """Compare a running job with its new specification; raises BadInput for changes that need a new job.

    A group that is the same keeps its tasks; `again` replaces those too, after an update that stalled.
    """
    _check(job, spec)
    specs: list[dict[str, Any]] = [dict(each) for each in job.spec.get("groups") or [{}] * len(job.groups)]
    known = {_key(i, specs[target.group]): target for i, target in enumerate(targets(job))}
    asked = {_key(i, group.spec): group for i, group in enumerate(spec.groups)}
    if known.keys() != asked.keys():
        raise BadInput(f"job {spec.name}: an update keeps its groups, {', '.join(known)}; submit others as a new job")
    fresh: list[TaskGroup] = []
    wanted: list[Target] = []
    for name, group in asked.items():
        target = known[name]
        now = job.groups[target.group]
        same = (now.need, now.duration_ms, now.once, specs[target.group]) == (
            group.need,
            group.duration_ms,
            group.once,
            dict(group.spec),
        )
        older = target.older if same and not again else (*target.older, target.group)
        number = target.group if same and not again else len(job.groups) + len(fresh)
        if number != target.group:
            fresh.append(group)
        live = tuple(each for each in older if going(job.groups[each]))
        finished = target.finished + sum(counted(job, job.groups[each]) for each in older if each not in live)
        # The store takes an update with the spec that the job has for one that was sent twice (semantics 14).
        wants = max(group.count - finished, now.finished + now.failed + now.stopped)
        resized = job.modified if number == target.group and not live and now.total != wants else 0
        wanted.append(Target(number, group.count, live, finished=finished, resized=resized))
    replaced = sum(going(job.groups[number]) for target in wanted for number in target.older)
    kept = {name: job.spec[name] for name in (*ORDERED, "verified") if name in job.spec}
    whole = dict(spec.spec) | kept
    whole["groups"] = specs + [dict(group.spec) for group in fresh]
    whole["targets"] = [[each.group, each.count, list(each.older), each.finished, each.resized] for each in wanted]
    return JobUpdate(tuple(fresh), whole, replaced)


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
        raise BadInput(f"job {spec.name}: a gang runs as a whole or not at all; stop it and submit it again")


def _key(position: int, group: Any) -> str:
    return str(group.get("name") or position)
