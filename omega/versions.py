"""Versions of a job: its present specification, and those before its last updates. Pure.

Each update stores the version that it replaces in the job's spec (``versions``), whole, so that a version does not
depend on the record of the job that had it: a service that restarts after its end is a new job with the old versions.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from omega.cellstate.errors import NotFound
from omega.cellstate.model import Job, JobSpec, TaskGroup
from omega.schedulers.rolling import targets
from omega.schedulers.speculation import FIELD, with_copies

KEPT = 6
"""Number of versions before the present one that a job keeps."""
UPDATING = ("groups", "targets", "version", "versions")
"""Fields of a job's spec that belong to its updates, not to a version."""


class Version(NamedTuple):
    """A version of a job: its number from 1 on, when and by whom it was submitted, and its content."""

    number: int
    at_ms: int
    by: str
    fields: Mapping[str, Any]
    """The job's fields for schedulers and executors (`JobSpec.spec`)."""
    groups: Sequence[TaskGroup]
    """The groups of the job's file: without those for copies of slow tasks, which follow from its fields."""

    def stored(self) -> list[Any]:
        """Return it as the spec of a later version stores it."""
        groups = [
            [list(each.need), each.count, each.duration_ms, each.budget, each.once, each.optional, dict(each.spec)]
            for each in self.groups
        ]
        return [self.number, self.at_ms, self.by, dict(self.fields), groups]

    def spec(self, job: Job) -> JobSpec:
        """Return it as a job file of `job` would be read."""
        groups, least = tuple(self.groups), job.gang_min
        groups = groups if self.fields.get(FIELD) is None else with_copies(groups)
        return JobSpec(
            job.id, job.name, job.kind, groups, job.precedence, job.gang, dict(self.fields), gang_min=least
        )  # fmt: skip


def number_of(job: Job) -> int:
    """Return the number of a job's present version."""
    number: int = (job.spec.get("version") or (1,))[0]
    return number


def present(job: Job) -> Version:
    """Return the version that a job has now, with its present numbers of tasks."""
    number, at_ms, by = job.spec.get("version") or (1, job.submitted_ms, job.submitter)
    fields = {name: value for name, value in job.spec.items() if name not in UPDATING}
    specs = job.spec.get("groups") or [{}] * len(job.groups)
    groups = []
    for target in targets(job):
        its = job.groups[target.group]
        groups.append(
            TaskGroup(its.need, target.count, its.duration_ms, specs[target.group], its.optional, its.budget, its.once)
        )
    return Version(number, at_ms, by, fields, tuple(groups))


def earlier(job: Job) -> list[Version]:
    """Return the versions that a job keeps beside its present one, oldest first."""
    return [
        Version(number, at_ms, by, fields, tuple(_group(*row) for row in groups))
        for number, at_ms, by, fields, groups in job.spec.get("versions", ())
    ]


def _group(*row: Any) -> TaskGroup:
    need, count, duration_ms, budget, once, optional, spec = row
    return TaskGroup(tuple(need), count, duration_ms, spec, optional, budget, once)


def find(job: Job, number: int | None) -> Version:
    """Return the version of a number; None: the one before the present. NotFound when the job does not keep it."""
    kept = earlier(job)
    if number is None and kept:
        return kept[-1]
    for version in (*kept, present(job)):
        if version.number == number:
            return version
    if number is None:
        raise NotFound(f"job {job.name}: was never updated, so there is no earlier version; see omega job history")
    there = ", ".join(str(version.number) for version in (*kept, present(job)))
    raise NotFound(f"job {job.name}: has no version {number} (any more); it has {there}")


def next_fields(job: Job, at_ms: int, by: str) -> dict[str, Any]:
    """Return the fields of the spec that a new version of a job has in addition to its content."""
    now = present(job)
    versions = [version.stored() for version in (*earlier(job), now)][-KEPT:]
    return {"version": [now.number + 1, at_ms, by], "versions": versions}


class Difference(NamedTuple):
    """A field that differs between two versions; None where a version does not have it."""

    field: str
    before: Any
    after: Any


def differences(before: Version, after: Version, dimensions: Sequence[str]) -> list[Difference]:
    """Return the fields that differ between two versions, such as ``tasks.web.command``."""
    old, new = _flat(before, dimensions), _flat(after, dimensions)
    names = [*old, *(name for name in new if name not in old)]
    return [Difference(name, old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)]


def _flat(version: Version, dimensions: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def put(name: str, value: Any) -> None:
        if isinstance(value, Mapping) and value:  # an empty one is a value: `speculation: true` is stored so
            for key, each in value.items():
                put(f"{name}.{key}", each)
        else:
            found[name] = list(value) if isinstance(value, tuple) else value

    for name, value in version.fields.items():
        put(name, value)
    for position, group in enumerate(version.groups):
        begin = f"tasks.{group.spec.get('name') or position}"
        put(f"{begin}.count", group.count)
        put(f"{begin}.resources", dict(zip(dimensions, group.need, strict=True)))
        put(f"{begin}.duration_ms", group.duration_ms)
        put(f"{begin}.lost", group.budget)
        put(f"{begin}.requeue", "never" if group.once else "always")
        for name, value in group.spec.items():
            put(f"{begin}.{name}", value)
    return found
