"""Jobs as bytes: what lists and reasons need of a job, without its runs and without the commands of its tasks."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgpack

from omega.cellstate.model import After, Gang, GroupStatus, Job, JobState
from omega.cellstate.ranges import EMPTY
from omega.cellstate.tasks import Retried, TaskLoss
from omega.schedulers.constraints.demands import FIELDS
from omega.users import SOURCES

KEPT = ("user", *SOURCES.values(), "pool", "targets", "weight", "expected_duration")
"""Fields of a job's specification that documents, pools and reasons need."""
OF_GROUPS = (*FIELDS, "array", "name")
_STATES, _GANGS = {int(state): state for state in JobState}, {int(gang): gang for gang in Gang}


def pack(job: Job) -> bytes:
    """Return a job as bytes."""
    groups = [
        (
            group.need, group.duration_ms, group.total, group.unplaced, group.placed, group.finished, group.failed,
            group.stopped, group.indices, group.optional + 2 * group.copies + 4 * group.replaced,
            [(each.tasks, each.times, each.due_ms, each.placement, *each.retried) for each in group.losses],
        )
        for group in job.groups
    ]  # fmt: skip
    packed: bytes = msgpack.packb(
        (
            job.id, "" if job.name == job.id else job.name, job.kind, job.precedence, job.order, int(job.state),
            int(job.gang), job.gang_min, job.submitted_ms, job.modified, job.held, job.gate, job.released,
            job.after, job.awaited, job.begun, job.lane, job.commands, job.submitter, kept_of(job.spec), groups,
        )
    )  # fmt: skip
    return packed


def kept_of(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a specification that is kept."""
    if not spec:
        return {}
    kept = {name: spec[name] for name in KEPT if name in spec}
    groups = spec.get("groups")
    if isinstance(groups, list):
        parts = [_part(each) if isinstance(each, Mapping) else {} for each in groups]
        if any(part.keys() - {"name"} for part in parts):
            kept["groups"] = parts
    return kept


def _part(group: Mapping[str, Any]) -> dict[str, Any]:
    return {name: group[name] for name in OF_GROUPS if name in group}


def unpack(packed: bytes) -> Job:
    """Return the job that `pack` wrote: without runs, and with the kept part of its specification."""
    (
        job_id, name, kind, precedence, order, state, gang, gang_min, submitted_ms, modified, held, gate, released,
        after, awaited, begun, lane, commands, submitter, spec, groups,
    ) = msgpack.unpackb(packed)  # fmt: skip
    return Job(
        id=job_id, name=name or job_id, kind=kind, precedence=precedence, order=order, state=_STATES[state],
        gang=_GANGS[gang], gang_min=gang_min, submitted_ms=submitted_ms, groups=[_group(each) for each in groups],
        spec=spec, modified=modified, held=held, gate=gate, released=released,
        after=tuple(After(*each) for each in after), awaited=awaited, begun=begun, lane=lane, commands=commands,
        submitter=submitter,
    )  # fmt: skip


def _group(packed: Sequence[Any]) -> GroupStatus:
    need, duration, total, unplaced, placed, finished, failed, stopped, indices, flags, losses = packed
    return GroupStatus(
        need=tuple(need), duration_ms=duration, total=total, unplaced=unplaced, placed=placed, finished=finished,
        failed=failed, stopped=stopped, waiting=EMPTY, optional=bool(flags & 1), copies=bool(flags & 2),
        replaced=flags > 3, indices=indices,
        losses=tuple(
            TaskLoss(tasks, times, due, placement, Retried(*retried))
            for tasks, times, due, placement, *retried in losses
        ),
    )  # fmt: skip
