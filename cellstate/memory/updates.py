"""Updates of jobs in the twin: ``lua/update.lua`` and ``lua/settle.lua``."""

from collections.abc import Mapping, Sequence
from typing import Any

from omega.cellstate.lanes import Lane, lane_of
from omega.cellstate.logged_settings import update_text
from omega.cellstate.memory.jobs import as_stored, live, overtaken, refused
from omega.cellstate.memory.ledger import Ledger
from omega.cellstate.memory.links import modify
from omega.cellstate.memory.port_values import job_of
from omega.cellstate.memory.publish import publish
from omega.cellstate.memory.records import GroupRow
from omega.cellstate.model import MOST_GROUPS, Job, TaskGroup, aims, check_author, runs_commands
from omega.cellstate.plain_text import check_texts


def update(
    ledger: Ledger, job_id: str, groups: Sequence[TaskGroup], spec: Mapping[str, Any], at_ms: int, by: str,
    check: int | None = None,
) -> Job:  # fmt: skip
    """Begin an update: add `groups`, empty, whatever their count; `spec` replaces the job's."""
    check_author(by)
    check_texts(spec, f"job {job_id}")
    for group in groups:
        ledger.check(f"job {job_id}", group.need)
    j = live(ledger, job_id)
    spec = as_stored(dict(spec))
    if j.spec != spec:
        overtaken(ledger, j, check)
        if len(j.groups) + len(groups) > MOST_GROUPS:
            raise refused(ledger, j, "often")
        lane = lane_of(j.kind.name, j.precedence, spec)
        if j.lane.lane not in (lane, Lane(j.kind.name, 0)):
            raise refused(ledger, j, "lane")
        ledger.open()
        j.spec, j.commands = spec, runs_commands(spec)
        j.groups += [GroupRow(j, i, group, 0) for i, group in enumerate(groups, len(j.groups))]
        current = aims(spec)
        for g in j.groups:
            g.replaced |= current is not None and g.number not in current and not g.copies
        if any(group.copies for group in groups):
            ledger.copied[job_id] = j.kind.name
        ledger.rolling[job_id] = "rolling"
        modify(ledger, j)
        ledger.fact("update", job_id)
        publish(ledger, at_ms, by, settings=update_text(job_id, groups))
    return job_of(ledger, j, spec=False)


def settle(ledger: Ledger, job_id: str, reason: str, at_ms: int, by: str) -> bool:
    """End a rolling update as done, or as stalled with a `reason`."""
    if job_id not in ledger.J:
        ledger.rolling.pop(job_id, None)
        return False
    if ledger.rolling.get(job_id) != "rolling":
        return False
    ledger.open()
    why = " ".join(reason.split())
    if why:
        ledger.rolling[job_id] = f"stalled {why}"
        ledger.fact("stalled", job_id, why)
    else:
        del ledger.rolling[job_id]
        ledger.fact("updated", job_id)
    publish(ledger, at_ms, by)
    return True
