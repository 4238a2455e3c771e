"""What an update of a running job changes: new groups beside the old ones, and what is to become of both. Pure."""

from dataclasses import dataclass
from typing import Any

from cellstate.errors import BadInput
from cellstate.model import Gang, Job, JobSpec, TaskGroup
from schedulers.rolling import Target, going, targets

KEPT = ("kind", "precedence", "gang")
"""What an update cannot change: it decides who places a job, and what it may take from others."""


@dataclass(frozen=True, slots=True)
class Change:
    """An update as `Cell.update` takes it, and how many tasks it replaces."""

    groups: tuple[TaskGroup, ...]
    extra: dict[str, Any]
    replaced: int


def change(job: Job, spec: JobSpec, *, again: bool = False) -> Change:
    """Compare a running job with what it is to be; raises BadInput for what only a new job can be.

    A group that is the same keeps its tasks; `again` replaces those too, after an update that stalled.
    """
    for name in KEPT:
        if getattr(job, name) != getattr(spec, name):
            now = getattr(job, name)
            said = now.name.lower() if isinstance(now, Gang) else now
            raise BadInput(f"job {spec.name}: an update keeps its {name} ({said}); for another submit it anew")
    if job.gang is not Gang.NO:
        raise BadInput(f"job {spec.name}: a gang runs as a whole or not at all; stop it and submit it anew")
    extras: list[dict[str, Any]] = [dict(extra) for extra in job.spec.get("groups") or [{}] * len(job.groups)]
    known = {_key(i, extras[target.group]): target for i, target in enumerate(targets(job))}
    asked = {_key(i, group.extra): group for i, group in enumerate(spec.groups)}
    if known.keys() != asked.keys():
        raise BadInput(f"job {spec.name}: an update keeps its groups, {', '.join(known)}; submit others as a new job")
    fresh: list[TaskGroup] = []
    wanted: list[Target] = []
    for name, group in asked.items():
        target = known[name]
        now = job.groups[target.group]
        same = (now.need, now.duration_ms, extras[target.group]) == (group.need, group.duration_ms, dict(group.extra))
        older = target.older if same and not again else (*target.older, target.group)
        number = target.group if same and not again else len(job.groups) + len(fresh)
        if number != target.group:
            fresh.append(group)
        wanted.append(Target(number, group.count, tuple(each for each in older if going(job.groups[each]))))
    replaced = sum(going(job.groups[number]) for target in wanted for number in target.older)
    extra = {name: value for name, value in job.spec.items() if name == "user"} | dict(spec.extra)
    extra["groups"] = extras + [dict(group.extra) for group in fresh]
    extra["targets"] = [[target.group, target.count, list(target.older)] for target in wanted]
    return Change(tuple(fresh), extra, replaced)


def _key(position: int, extra: Any) -> str:
    return str(extra.get("name") or position)
