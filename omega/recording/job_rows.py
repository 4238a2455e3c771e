"""Jobs and their groups as rows of a recording: names of fields and values in their order."""

from collections.abc import Mapping, Sequence
from typing import Any

from omega.cellstate.errors import BadInput
from omega.cellstate.model import BUDGET, Gang, GroupStatus, Job, JobSpec, JobState, TaskGroup
from omega.cellstate.schema import GROUP_SPEC, SPEC

JOB = ("id", "name", "kind", "precedence", "order", "state", "gang", "gang_min", "submitted_ms", "modified", "held",
       "released", "submitter")  # a table # fmt: skip
GROUP = ("need", "duration_ms", "total", "unplaced", "placed", "finished", "failed", "stopped", "waiting", "optional",
         "copies", "replaced", "indices", "budget", "once")  # a table # fmt: skip
SECRET = frozenset({"command", "env", "secrets", "script", "template"})
NOT_RECORDED = ["not recorded"]
_OF_JOBS, _OF_GROUPS = (frozenset(field.name for field in table) for table in (SPEC, GROUP_SPEC))
"""Fields of specifications; records have further ones, such as those of an update that is under way."""


def row_of(job: Job, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a job as a row; `spec`: its fields that only schedulers and executors read."""
    row: dict[str, Any] = {name: getattr(job, name) for name in JOB}
    row["groups"] = [[getattr(group, name) for name in GROUP] for group in job.groups]
    if spec:
        row["spec"] = without_secrets(spec)
    if job.after:
        row["after"] = [wait.job for wait in job.after]
    if job.gate:
        row["gate"] = job.gate
    return row


def without_secrets(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a job without environments and commands: only whether it has a command is recorded."""
    kept = {name: value for name, value in spec.items() if name not in SECRET}
    if spec.get("command"):
        kept["command"] = NOT_RECORDED
    if isinstance(groups := spec.get("groups"), list):
        kept["groups"] = [without_secrets(each) if isinstance(each, Mapping) else {} for each in groups]
    return kept


def job_of(row: Mapping[str, Any]) -> Job:
    """Read a row. Raises KeyError, TypeError or ValueError."""
    fields = {name: row[name] for name in JOB}
    fields |= {"state": JobState(row["state"]), "gang": Gang(row["gang"])}
    groups = [_group(dict(zip(GROUP, values, strict=True))) for values in row["groups"]]
    return Job(**fields, groups=groups, spec=row.get("spec", {}), gate=row.get("gate", ""))


def _group(fields: dict[str, Any]) -> GroupStatus:
    return GroupStatus(**(fields | {"need": tuple(fields["need"])}))


def spec_of(job: Job) -> JobSpec:
    """Return the specification of a job, with its present totals (at least 1), without the jobs that it waits for."""
    own: Sequence[Any] = [*(job.spec.get("groups") or ()), *[{}] * len(job.groups)]
    groups = tuple(
        TaskGroup(
            need=group.need, count=max(1, group.total), duration_ms=group.duration_ms,
            spec={name: value for name, value in given.items() if name in _OF_GROUPS},
            optional=group.optional and not group.copies, budget=group.budget if group.budget >= 0 else BUDGET,
            once=group.once, copies=group.copies,
        )
        for group, given in zip(job.groups, own, strict=False)
    )  # fmt: skip
    words = {name: value for name, value in job.spec.items() if name in _OF_JOBS}
    spec: dict[str, Any] = {
        "id": job.id, "name": job.name, "kind": job.kind, "groups": groups, "precedence": job.precedence, "spec": words
    }  # fmt: skip
    try:
        return JobSpec(**spec, gang=job.gang, gang_min=job.gang_min)
    except BadInput:  # it has fewer tasks now than its gang needs
        return JobSpec(**spec)
