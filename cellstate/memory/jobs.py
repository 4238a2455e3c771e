"""Submission, hold, resize and stop of jobs in the twin, as ``lua/`` has a script for each.

Reasons that hold jobs back are in `waits`.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from math import inf
from typing import Any, NamedTuple, cast

import msgpack

from omega.cellstate.errors import BadInput, OmegaError
from omega.cellstate.lanes import lane_of
from omega.cellstate.logged_settings import jobs_text
from omega.cellstate.memory.lanes import join_lane
from omega.cellstate.memory.ledger import Ledger
from omega.cellstate.memory.links import finished, gate_of, modify, set_free, stop_unplaced
from omega.cellstate.memory.losses import forget_losses, requeue
from omega.cellstate.memory.pools import refused_pool
from omega.cellstate.memory.port_values import job_of
from omega.cellstate.memory.publish import announce, publish, write_pending
from omega.cellstate.memory.ranges import NONE, Spans, span_add, span_count, span_tail, span_take, spans, spell
from omega.cellstate.memory.records import GroupRow, JobRow
from omega.cellstate.memory.tasks import end_tasks
from omega.cellstate.model import (
    MOST_CLAIMS,
    MOST_STOPS,
    NOTHING_TAKEN,
    Job,
    JobSpec,
    JobState,
    TakeOver,
    TaskGroup,
    check_author,
    refusal,
    runs_commands,
)
from omega.cellstate.plain_text import plain_reason
from omega.cellstate.replies import Submitted
from omega.cellstate.resources import LARGEST_COUNT, MOST_TOGETHER, largest_sum
from omega.cellstate.tasks import EndKind


def claim_jobs(ledger: Ledger, ids: Sequence[str], name: str, *, expire_ms: int) -> list[str]:
    """Decide that jobs go to a cell; return the cell of each. Without a clock no decision expires."""
    return [ledger.chosen.setdefault(job_id, name) if expire_ms else name for job_id in ids]


def submit(ledger: Ledger, jobs: Sequence[JobSpec], at_ms: int, by: str, *, held: bool = False) -> list[Submitted]:
    """Submit jobs; a job already stored under its id changes nothing."""
    check_author(by)
    checked = set[tuple[int, ...]]()
    for job in jobs:
        job.check_numbers()
        for group in job.groups:
            if group.need not in checked:
                ledger.check(f"job {job.name}", group.need)
                checked.add(tuple(group.need))
    ledger.open()
    answers = []
    for spec in jobs:
        known = ledger.J.get(spec.id)
        if known:
            same = _essence(known) == _asked(spec)
            answers.append(Submitted(spec.id, "same" if same else "id", "", known.modified if same else 0))
        elif (holder := ledger.J.get(ledger.names.get(spec.name, ""))) is not None and not holder.complete:
            answers.append(Submitted(spec.id, "name", ledger.names[spec.name]))
        elif ledger.pools_state and (refused := refused_pool(ledger, spec)):
            answers.append(refused)
        elif missing := next((wait.job for wait in spec.after if wait.job not in ledger.J), ""):
            answers.append(Submitted(spec.id, "after", missing))
        else:
            answers.append(Submitted(spec.id, "new", "", ledger.version + 1))
            ledger.pend.append(enter(ledger, spec, at_ms, held=held))
            ledger.pend[-1].submitter = by
    if ledger.pend:
        write_pending(ledger)
        announce(ledger, at_ms, by, settings=jobs_text(jobs) if ledger.log else "")
    return answers


def enter(ledger: Ledger, spec: JobSpec, at_ms: int, *, held: bool) -> JobRow:
    """Record a new job."""
    kind = ledger.K.get(spec.kind) or ledger.kind(spec.kind)
    j = JobRow(spec.id, spec.name, kind, spec.precedence, JobState.ACTIVE, spec.gang)
    ledger.submissions += 1
    j.order, j.submitted, j.unplaced = ledger.submissions, at_ms, spec.total
    j.modified, j.gang_min = ledger.version + 1, spec.gang_min
    if held:
        j.waits.append("*")
    for wait in spec.after:
        other = ledger.J[wait.job]
        if not other.complete or not (wait.any_end or finished(other)):
            j.waits.append(f"{wait.job}{'+' if wait.any_end else ''}")
            if other.complete:  # housekeeping stops this job, as if the other ended just now
                ledger.due[other.id] = 0
            other.awaited = True
            ledger.waiters.setdefault(wait.job, {})[j.id] = None
            ledger.waited = True
    if j.waits:
        j.state = JobState.HELD
    j.groups = [GroupRow(j, i, group, group.count) for i, group in enumerate(spec.groups)]
    join_lane(ledger, j, lane_of(spec.kind, spec.precedence, spec.spec))
    if words := _opaque(spec):
        j.spec, j.commands = words, runs_commands(words)
    ledger.J[j.id], ledger.names[j.name] = j, j.id
    if any(group.copies for group in spec.groups):
        ledger.copied[j.id] = spec.kind
    if ledger.log:
        ledger.fact("submit", j.id, j.name, j.kind.name, j.precedence, spec.total)
    for link in j.waits:
        if link != "*":
            ledger.fact("awaited", link.rstrip("+"), j.id)
    return j


def stop(
    ledger: Ledger, job_id: str, at_ms: int, by: str, state: JobState = JobState.STOPPED, check: int | None = None, *,
    keep: bool = False,
) -> Job:  # fmt: skip
    """Stop or abandon a job: unplaced tasks end now, running ones by `housekeep`; Refused for an unknown job."""
    check_author(by)
    j = ledger.J.get(job_id)
    if j is None:
        raise refusal(ledger.name, job_id, "unknown")
    kept = j.state is JobState.ABANDONED and j.placed and job_id not in ledger.due
    if j.state <= JobState.HELD or (kept and state is JobState.STOPPED):
        overtaken(ledger, j, check)
        ledger.open()
        stopped, j.state = stop_unplaced(ledger, j), state
        (ledger.touch_job if state is JobState.ABANDONED else partial(modify, ledger))(j)  # people do not abandon
        ledger.due.pop(job_id, None)
        if j.placed and not keep:
            ledger.due[job_id] = 0
        ledger.fact("abandon" if state is JobState.ABANDONED else "stop", job_id, stopped)
        publish(ledger, at_ms, by)
    return job_of(ledger, j, spec=False)


def note_attempts(ledger: Ledger, jobs: Sequence[str], at_ms: int, by: str) -> int:
    """Record that the first attempt of these jobs placed nothing, unless something was placed since."""
    check_author(by)
    ledger.open()
    there = [j for j in map(ledger.J.get, dict.fromkeys(jobs)) if j and not j.begun and j.state <= JobState.HELD]
    fresh = [j for j in there if all(g.unplaced == g.total for g in j.groups)]
    for j in fresh:
        ledger.touch_job(j)
        j.begun = True
        ledger.fact("attempt", j.id)
    if fresh:
        publish(ledger, at_ms, by)
    return len(fresh)


def live(ledger: Ledger, job_id: str) -> JobRow:
    """Return a job that can still be changed; raises Refused for another."""
    j = ledger.J.get(job_id)
    if j is None:
        raise refusal(ledger.name, job_id, "unknown")
    if j.state > JobState.HELD:
        raise refused(ledger, j, "ended")
    return j


def refused(ledger: Ledger, j: JobRow, status: str) -> OmegaError:
    """Return the error for a job that a call left unchanged."""
    return refusal(ledger.name, j.id, status, job_of(ledger, j, spec=False))


def overtaken(ledger: Ledger, j: JobRow, check: int | None) -> None:
    """Raise Overtaken when the caller read another modify index."""
    if check is not None and check != j.modified:
        raise refused(ledger, j, "moved")


def hold(ledger: Ledger, job_id: str, at_ms: int, by: str, check: int | None = None) -> Job:
    """Stop new placements of a job; running tasks continue."""
    return hold_or_release(ledger, job_id, at_ms, by, check, held=True)


def release(ledger: Ledger, job_id: str, at_ms: int, by: str, check: int | None = None) -> Job:
    """Undo `hold`; a job that waits for others keeps waiting."""
    return hold_or_release(ledger, job_id, at_ms, by, check, held=False)


def hold_or_release(ledger: Ledger, job_id: str, at_ms: int, by: str, check: int | None, *, held: bool) -> Job:
    """Hold a job back, or release it."""
    check_author(by)
    j = live(ledger, job_id)
    gate = gate_of(j)
    if ("*" in j.waits) != held or (gate and not held):
        overtaken(ledger, j, check)
        ledger.open()
        modify(ledger, j)
        if held:
            j.state = JobState.HELD
            j.waits.append("*")
        else:
            j.waits[:] = [wait for wait in j.waits if wait[0] not in "*!"]
            j.released = j.released or bool(gate)
            if not j.waits:
                set_free(ledger, j)
        ledger.fact("hold" if held else "release", job_id)
        publish(ledger, at_ms, by)
    return job_of(ledger, j, spec=False)


def gate(ledger: Ledger, job_id: str, reason: str, at_ms: int, by: str) -> Job:
    """Hold a job for a reason of its scheduler's gate, or release it from that (reason "")."""
    check_author(by)
    j, said = live(ledger, job_id), plain_reason(reason)
    if said != gate_of(j) and not (said and j.released):
        ledger.open()
        ledger.touch_job(j)
        j.waits[:] = [wait for wait in j.waits if wait[0] != "!"]
        if said:
            j.state = JobState.HELD
            j.waits.append(f"!{said}")
            ledger.fact("gate", job_id, said)
        else:
            if not j.waits:
                set_free(ledger, j)
            ledger.fact("pass", job_id)
        publish(ledger, at_ms, by)
    return job_of(ledger, j, spec=False)


class Known(NamedTuple):
    """What the caller of a resize read: the modify index, totals and placed tasks by group; the spec to be stored.

    `takes`: groups that take over tasks of others.
    """

    check: int | None
    totals: Mapping[int, int]
    placed: Mapping[int, int]
    spec: Mapping[str, Any] | None = None
    takes: Mapping[int, TakeOver] = {}


def resize(  # noqa: PLR0913, PLR0917 - the port's
    ledger: Ledger, job_id: str, totals: Mapping[int, int], at_ms: int, by: str, check: int | None = None,
    seen: Mapping[int, int] | None = None, placed: Mapping[int, int] | None = None,
    spec: Mapping[str, Any] | None = None, takes: Mapping[int, TakeOver] | None = None,
) -> Job:  # fmt: skip
    """Set the totals of task groups by position, 0 or more (semantics 4); returns the job afterwards.

    As many steps as it takes to stop running tasks MOST_STOPS at a time.
    """
    check_author(by)
    if any(number < 0 or not 0 <= total <= LARGEST_COUNT for number, total in totals.items()):
        raise BadInput(f"job {job_id}: a group's tasks are from 0 to {LARGEST_COUNT}")
    ledger.unfold()
    j, known, step = live(ledger, job_id), Known(check, seen or {}, placed or {}, spec, takes or {}), seen is not None
    while resize_once(ledger, j, totals, at_ms, by, known, step=step):
        known = Known(None, {}, {}, spec, takes or {})
    return job_of(ledger, j, spec=False)


def resize_once(
    ledger: Ledger, j: JobRow, totals: Mapping[int, int], at_ms: int, by: str, known: Known, *, step: bool
) -> bool:
    """Make one call of the script; return whether another one is needed."""
    live(ledger, j.id)
    compared = {**totals, **known.placed}
    if any(n >= len(j.groups) or (n in totals and j.groups[n].copies) for n in compared):
        raise refused(ledger, j, "group")
    asked = {j.groups[number]: total for number, total in totals.items()}
    spec = j.spec if known.spec is None else as_stored(dict(known.spec))
    same = all(g.total == total for g, total in asked.items())
    if same and spec == j.spec:
        return False
    groups = {number: j.groups[number] for number in compared}
    seen, placed = known.totals, known.placed
    if any(g.total != seen.get(i, g.total) or g.placed != placed.get(i, g.placed) for i, g in groups.items()):
        raise refused(ledger, j, "moved")
    overtaken(ledger, j, known.check)
    if any(total < g.finished + g.failed + g.stopped for g, total in asked.items()):
        raise refused(ledger, j, "few")
    if sum(asked.get(g, g.total) for g in j.groups) > LARGEST_COUNT or any(
        g.indices + total - g.total > LARGEST_COUNT for g, total in asked.items()
    ):
        raise refused(ledger, j, "large")
    grows = any(total > g.total for g, total in asked.items())
    if grows and not step and largest_sum((g.amounts, asked.get(g, g.total)) for g in j.groups) > MOST_TOGETHER:
        raise refused(ledger, j, "large")
    if j.whole and sum(asked.get(g, g.total) for g in j.groups) > MOST_CLAIMS:
        raise refused(ledger, j, "many")
    ledger.open()
    (ledger.touch_job if step else partial(modify, ledger))(j)
    j.spec = spec
    left, most, removed = MOST_STOPS, MOST_STOPS, dict[int, Spans]()
    for g in j.groups:
        change, stopped, added = asked.get(g, g.total) - g.total, 0, NONE
        if change > 0 and (takes := known.takes.get(g.number, NOTHING_TAKEN)).older:
            loses = any(
                j.groups[n].total > asked.get(j.groups[n], LARGEST_COUNT) for n in takes.older if n < len(j.groups)
            )
            added = taken(j, g, change, takes, removed, only_removed=loses)
            change = span_count(added)
            g.waiting, g.total = span_add(g.waiting, added), g.total + change
            g.unplaced, j.unplaced, j.returned = g.unplaced + change, j.unplaced + change, True
        elif change > 0:
            grow(j, g, change)
        elif change < 0:
            change, stopped, removed[g.number] = shrink(ledger, j, g, -change, left)
            left -= stopped
        if change or stopped or (same and g in asked):
            ledger.fact(
                "resize", j.id, g.number, g.total, change, stopped, *((spell(added), g.indices) if added else ())
            )
    ledger.transactions += left < most
    publish(ledger, at_ms, by)
    return any(g.total != total for g, total in asked.items())


def grow(j: JobRow, g: GroupRow, count: int) -> None:
    """Add tasks with the next indices."""
    g.waiting = span_add(g.waiting, (g.indices, g.indices + count - 1))
    g.unplaced, j.unplaced, j.returned = g.unplaced + count, j.unplaced + count, True
    g.total, g.indices = g.total + count, g.indices + count


def taken(
    j: JobRow, g: GroupRow, count: int, takes: TakeOver, removed: Mapping[int, Spans], *, only_removed: bool
) -> Spans:
    """Return the numbers of up to `count` tasks that a group takes over."""
    pool = NONE
    for number in takes.older:
        if number < len(j.groups):
            pool = span_add(pool, removed.get(number, NONE))
            g.indices = max(g.indices, j.groups[number].indices)
    tasks, _ = span_take(pool, min(count, span_count(pool)))
    rest = 0 if only_removed else count - span_count(tasks)
    again = spans(takes.again)
    more, _ = span_take(again, min(rest, span_count(again)))
    tasks, rest = span_add(tasks, more), rest - span_count(more)
    if rest > 0:
        tasks = span_add(tasks, (g.indices, g.indices + rest - 1))
        g.indices += rest
    return tasks


def shrink(ledger: Ledger, j: JobRow, g: GroupRow, count: int, most: int) -> tuple[int, int, Spans]:
    """Remove tasks; return minus the pending ones among them, the number of running ones, and all of them."""
    if count > g.unplaced and g.delayed:
        requeue(ledger, g, inf)
    waiting, removed = min(count, g.unplaced), NONE
    if waiting:
        removed, g.waiting = span_tail(g.waiting, waiting)
        if g.losses:
            forget_losses(ledger, g, removed)
        g.unplaced, j.unplaced, j.returned = g.unplaced - waiting, j.unplaced - waiting, True
    stopped = min(count - waiting, most)
    if stopped:
        removed = span_add(removed, stop_newest(ledger, g, stopped))
        g.stopped -= stopped
    g.total -= waiting + stopped
    return -waiting, stopped, removed


def stop_newest(ledger: Ledger, g: GroupRow, count: int) -> Spans:
    """Stop `count` running tasks, newest index first; return them. Each run is ended once."""
    running = [
        (spans[i], spans[i + 1], placement)
        for placement, index in g.runs.items()
        if placement > 0
        for spans in (ledger.M[index].runs[placement][1],)
        for i in range(0, len(spans), 2)
    ]
    parts = dict[int, Spans]()
    all_of_them: Spans = NONE
    for first, last, placement in sorted(running, reverse=True):
        n = min(count, last - first + 1)
        if n:
            newest: Spans = (last - n + 1, last)
            parts[placement] = span_add(parts.get(placement, NONE), newest)
            all_of_them = span_add(all_of_them, newest)
        count -= n
    for placement, part in parts.items():
        end_tasks(ledger, ledger.M[g.runs[placement]], placement, part, EndKind.STOPPED, "resize", ledger.stamp)
    return all_of_them


def as_stored(value: Any) -> Any:
    """Return a value as after encoding with MessagePack."""
    return msgpack.unpackb(msgpack.packb(value)) if value else {}


def _opaque(spec: JobSpec) -> dict[str, Any]:
    """Return a job's fields for schedulers and executors."""
    groups = spec.groups
    if not spec.spec and len(groups) == 1 and not groups[0].spec:
        return {}
    words = dict(spec.spec)
    for group in groups:
        if group.spec:
            words["groups"] = [dict(each.spec) for each in spec.groups]
            break
    return cast("dict[str, Any]", as_stored(words)) if words else {}


def _asked(spec: JobSpec) -> tuple[Any, ...]:
    groups = [(*_fixed(g), tuple(g.need), g.duration_ms, g.count, g.count) for g in spec.groups]
    return spec.name, spec.kind, spec.precedence, spec.gang, spec.gang_min, groups, _opaque(spec)


def _essence(j: JobRow) -> tuple[Any, ...]:
    """Return the constant part of a job: everything but state, counts and ranges."""
    groups = [
        (*_fixed(g), g.amounts, g.duration, *((0, 0) if g.copies else (g.total, g.indices))) for g in j.groups
    ]  # fmt: skip
    return j.name, j.kind.name, j.precedence, j.gang, j.gang_min, groups, j.spec


def _fixed(g: TaskGroup | GroupRow) -> tuple[bool, bool, int]:
    return g.copies, g.optional and not g.copies, -1 if g.once else g.budget
