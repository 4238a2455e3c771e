"""Jobs of a cell in memory: submission, hold, resize, update, stop, copies of tasks; ``lua/`` has a script for each."""

from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

import msgpack

from omega.cellstate.errors import BadInput, OmegaError
from omega.cellstate.lanes import Lane, lane_of
from omega.cellstate.logged_settings import jobs_text, update_text
from omega.cellstate.memory.pools import refused_pool
from omega.cellstate.memory.state import NO_WORDS, GroupRow, JobRow, Loss, State, job_of
from omega.cellstate.memory.tasks import (
    end_tasks,
    finished,
    forget_losses,
    keep_losses,
    publish,
    put_back,
    requeue,
    set_free,
    stop_unplaced,
)
from omega.cellstate.model import (
    MOST_CLAIMS,
    MOST_GROUPS,
    MOST_STOPS,
    NOTHING_TAKEN,
    Job,
    JobSpec,
    JobState,
    TakeOver,
    TaskGroup,
    aims,
    check_author,
    refusal,
    runs_commands,
)
from omega.cellstate.plain_text import check_texts, plain_reason
from omega.cellstate.ranges import (
    NONE,
    Flat,
    span_add,
    span_count,
    span_read,
    span_split,
    span_tail,
    span_take,
    span_text,
)
from omega.cellstate.replies import Budget, Original, Submitted
from omega.cellstate.resources import LARGEST_COUNT, MOST_TOGETHER, largest_sum
from omega.cellstate.tasks import EndKind, Retried

_new = tuple.__new__

# Submission


def submit(c: State, jobs: Sequence[JobSpec], at_ms: int, by: str, *, held: bool = False) -> list[Submitted]:
    """Submit jobs; a job already stored under its id changes nothing."""
    check_author(by)
    for spec in jobs:
        for group in spec.groups:
            if group.need not in c.checked:
                c.check(f"job {spec.name}", group.need)
                c.checked.add(group.need)
        spec.check_numbers()
    c.open()
    answers, known, names, entered = [], c.J, c.names, c.version + 1
    for spec in jobs:
        status, holder, modified = "new", "", entered
        if spec.id in known:
            j = known[spec.id]
            same = _essence(j) == _asked(spec)
            status, modified = ("same", j.modified) if same else ("id", 0)
        elif spec.name in names and not known[names[spec.name]].complete:
            status, holder, modified = "name", names[spec.name], 0
        elif c.pools_state and (refused := refused_pool(c, spec)):
            status, holder, modified = refused
        elif spec.after and (missing := next((wait.job for wait in spec.after if wait.job not in known), "")):
            status, holder, modified = "after", missing, 0
        else:
            c.pend.append(enter(c, spec, at_ms, by, held=held))
        answers.append(_new(Submitted, (spec.id, status, holder, modified)))
    if c.pend:
        c.write_pending()
        c.announce(at_ms, by, settings=jobs_text(jobs) if c.logs else "")
    return answers


def enter(c: State, spec: JobSpec, at_ms: int, by: str, *, held: bool) -> JobRow:
    """Record a new job."""
    c.submissions = order = c.submissions + 1
    kind, job_id = spec.kind, spec.id
    lane = lane_of(kind, spec.precedence, spec.spec)
    row = c.lane_names.get(lane) or c.lane_named(lane)
    row.live += 1
    j = c.J[job_id] = JobRow(spec, c.K.get(kind) or c.kind(kind), row, order, c.version + 1, at_ms, by)
    c.names[spec.name] = job_id
    if held or spec.after:
        j.waits = [*(["*"] if held else []), *_waits(c, j, spec)]
        j.state = JobState.HELD if j.waits else j.state
    words: object = spec.spec
    for group in spec.groups:
        words = words or group.spec
        if group.copies:
            c.copied[j.id] = spec.kind
    if words:
        j.spec = _opaque(spec)
        j.commands = runs_commands(j.spec)
        j.need = -1 if j.commands else j.need
    if c.counted:
        c.count_in_lane(j)
    if c.logs:
        c.fact("submit", j.id, j.name, spec.kind, j.precedence, spec.total)
        for wait in j.waits:
            if wait != "*":
                c.fact("awaited", wait.rstrip("+"), j.id)
    return j


def _waits(c: State, j: JobRow, spec: JobSpec) -> Iterator[str]:
    """Yield what a new job waits for: the jobs that have not ended as it wants."""
    for wait in spec.after:
        other = c.J[wait.job]
        if not other.complete or not (wait.any_end or finished(other)):
            yield f"{wait.job}{'+' if wait.any_end else ''}"
            if other.complete:  # housekeeping stops this job, as if the other ended just now
                c.due[other.id] = 0
            other.awaited = c.waited = True
            c.waiters.setdefault(wait.job, {})[j.id] = None


def as_stored(value: Any) -> Any:
    """Return a value as after encoding with MessagePack."""
    return msgpack.unpackb(msgpack.packb(value)) if value else {}


def _opaque(spec: JobSpec) -> Mapping[str, Any]:
    """Return a job's fields for schedulers and executors."""
    words = dict(spec.spec)
    if any(group.spec for group in spec.groups):
        words["groups"] = [dict(each.spec) for each in spec.groups]
    stored: Mapping[str, Any] = as_stored(words)
    return stored


def _asked(spec: JobSpec) -> tuple[Any, ...]:
    groups = [(*_fixed(g), tuple(g.need), g.duration_ms, g.count, g.count) for g in spec.groups]
    return spec.name, spec.kind, spec.precedence, spec.gang, spec.gang_min, groups, _opaque(spec)


def _essence(j: JobRow) -> tuple[Any, ...]:
    """Return the constant part of a job: everything but state, counts and ranges."""
    groups = [
        (*_fixed(g.asked), g.amounts, g.asked.duration_ms, *((0, 0) if g.copies else (g.total, g.indices)))
        for g in j.groups
    ]
    return j.name, j.kind.name, j.precedence, j.gang, j.gang_min, groups, j.spec


def _fixed(group: TaskGroup) -> tuple[bool, bool, int]:
    return group.copies, group.optional, -1 if group.once else group.budget


# Changes by people and gates


def stop(
    c: State, job_id: str, at_ms: int, by: str, state: JobState = JobState.STOPPED, check: int | None = None, *,
    keep: bool = False,
) -> Job:  # fmt: skip
    """Stop or abandon a job: unplaced tasks end now, running ones by `housekeep`; Refused for an unknown job."""
    check_author(by)
    j = c.J.get(job_id)
    if j is None:
        raise refusal(c.name, job_id, "unknown")
    kept = j.state is JobState.ABANDONED and j.placed and job_id not in c.due
    if j.state <= JobState.HELD or (kept and state is JobState.STOPPED):
        _check_overtaken(c, j, check)
        c.open()
        stopped, j.state = stop_unplaced(c, j), state
        if state is JobState.ABANDONED:  # people do not abandon
            c.touch_job(j)
        else:
            c.modify(j)
        c.due.pop(job_id, None)
        if j.placed and not keep:
            c.due[job_id] = 0
        c.fact("abandon" if state is JobState.ABANDONED else "stop", job_id, stopped)
        publish(c, at_ms, by)
    return shown(c, j)


def shown(c: State, j: JobRow) -> Job:
    """Return a job as calls that change one return it: without what only schedulers and executors read."""
    c.unfold()
    return job_of(j, spec=False)


def note_attempts(c: State, jobs: Sequence[str], at_ms: int, by: str) -> int:
    """Record that the first attempt of these jobs placed nothing, unless something was placed since."""
    check_author(by)
    c.open()
    there = [j for j in map(c.J.get, dict.fromkeys(jobs)) if j and not j.begun and j.state <= JobState.HELD]
    fresh = [j for j in there if all(g.unplaced == g.total for g in j.groups)]
    for j in fresh:
        c.touch_job(j)
        j.begun = True
        c.fact("attempt", j.id)
    if fresh:
        publish(c, at_ms, by)
    return len(fresh)


def _live(c: State, job_id: str) -> JobRow:
    """Return a job that can still be changed; raises Refused for another."""
    j = c.J.get(job_id)
    if j is None:
        raise refusal(c.name, job_id, "unknown")
    if j.state > JobState.HELD:
        raise _refused(c, j, "ended")
    return j


def _refused(c: State, j: JobRow, status: str) -> OmegaError:
    """Return the error for a job that a call left unchanged."""
    return refusal(c.name, j.id, status, shown(c, j))


def _check_overtaken(c: State, j: JobRow, check: int | None) -> None:
    """Raise Overtaken when the caller read another modify index."""
    if check is not None and check != j.modified:
        raise _refused(c, j, "moved")


def hold(c: State, job_id: str, at_ms: int, by: str, check: int | None = None) -> Job:
    """Stop new placements of a job; running tasks continue."""
    return _hold_or_release(c, job_id, at_ms, by, check, held=True)


def release(c: State, job_id: str, at_ms: int, by: str, check: int | None = None) -> Job:
    """Undo `hold`; a job that waits for others keeps waiting."""
    return _hold_or_release(c, job_id, at_ms, by, check, held=False)


def _hold_or_release(c: State, job_id: str, at_ms: int, by: str, check: int | None, *, held: bool) -> Job:
    check_author(by)
    j = _live(c, job_id)
    if ("*" in j.waits) != held or (j.gate and not held):
        _check_overtaken(c, j, check)
        c.open()
        c.modify(j)
        if held:
            j.state = JobState.HELD
            j.waits = [*j.waits, "*"]
        else:
            j.released = j.released or bool(j.gate)
            j.waits = [wait for wait in j.waits if wait[0] not in "*!"]
            if not j.waits:
                set_free(c, j)
        c.fact("hold" if held else "release", job_id)
        publish(c, at_ms, by)
    return shown(c, j)


def gate(c: State, job_id: str, reason: str, at_ms: int, by: str) -> Job:
    """Hold a job for a reason of its scheduler's gate, or release it from that (reason "")."""
    check_author(by)
    j, said = _live(c, job_id), plain_reason(reason)
    if said != j.gate and not (said and j.released):
        c.open()
        c.touch_job(j)
        j.waits = [wait for wait in j.waits if wait[0] != "!"]
        if said:
            j.state = JobState.HELD
            j.waits = [*j.waits, f"!{said}"]
            c.fact("gate", job_id, said)
        else:
            if not j.waits:
                set_free(c, j)
            c.fact("pass", job_id)
        publish(c, at_ms, by)
    return shown(c, j)


# Totals of groups


class Known(NamedTuple):
    """What the caller of a resize read: the modify index, totals and placed tasks by group; the spec to be stored.

    `takes`: groups that take over tasks of others.
    """

    check: int | None
    totals: Mapping[int, int]
    placed: Mapping[int, int]
    spec: Mapping[str, Any] | None = None
    takes: Mapping[int, TakeOver] = {}


def resize(  # noqa: PLR0913, PLR0917 - the store's
    c: State, job_id: str, totals: Mapping[int, int], at_ms: int, by: str, check: int | None = None,
    seen: Mapping[int, int] | None = None, placed: Mapping[int, int] | None = None,
    spec: Mapping[str, Any] | None = None, takes: Mapping[int, TakeOver] | None = None,
) -> Job:  # fmt: skip
    """Set the totals of task groups by position, 0 or more (semantics 4); returns the job afterwards.

    As many steps as it takes to stop running tasks MOST_STOPS at a time.
    """
    check_author(by)
    if any(number < 0 or not 0 <= total <= LARGEST_COUNT for number, total in totals.items()):
        raise BadInput(f"job {job_id}: a group's tasks are from 0 to {LARGEST_COUNT}")
    c.unfold()
    j, known, step = _live(c, job_id), Known(check, seen or {}, placed or {}, spec, takes or {}), seen is not None
    while _resize_once(c, j, totals, at_ms, by, known, step=step):
        known = Known(None, {}, {}, spec, takes or {})
    return shown(c, j)


def _check_resize(c: State, j: JobRow, asked: Mapping[GroupRow, int], known: Known, *, step: bool) -> None:
    """Refuse totals that were decided on other ones, or that a job cannot have."""
    seen, placed = known.totals, known.placed
    compared = [j.groups[number] for number in {g.number for g in asked} | placed.keys()]
    if any(g.total != seen.get(g.number, g.total) or g.placed != placed.get(g.number, g.placed) for g in compared):
        raise _refused(c, j, "moved")
    _check_overtaken(c, j, known.check)
    if any(total < g.finished + g.failed + g.stopped for g, total in asked.items()):
        raise _refused(c, j, "few")
    together = sum(asked.get(g, g.total) for g in j.groups)
    if together > LARGEST_COUNT or any(g.indices + total - g.total > LARGEST_COUNT for g, total in asked.items()):
        raise _refused(c, j, "large")
    grows = any(total > g.total for g, total in asked.items())
    if grows and not step and largest_sum((g.amounts, asked.get(g, g.total)) for g in j.groups) > MOST_TOGETHER:
        raise _refused(c, j, "large")
    if j.whole and together > MOST_CLAIMS:
        raise _refused(c, j, "many")


def _resize_once(
    c: State, j: JobRow, totals: Mapping[int, int], at_ms: int, by: str, known: Known, *, step: bool
) -> bool:
    """Make one call of the script; return whether another one is needed."""
    _live(c, j.id)
    if any(n >= len(j.groups) or (n in totals and j.groups[n].copies) for n in (*totals, *known.placed)):
        raise _refused(c, j, "group")
    asked = {j.groups[number]: total for number, total in totals.items()}
    spec = j.spec if known.spec is None else as_stored(dict(known.spec))
    same = all(g.total == total for g, total in asked.items())
    if same and spec == j.spec:
        return False
    _check_resize(c, j, asked, known, step=step)
    c.open()
    if step:
        c.touch_job(j)
    else:
        c.modify(j)
    j.spec = spec
    left, removed = MOST_STOPS, dict[int, Flat]()
    for g in j.groups:
        change, stopped, added = asked.get(g, g.total) - g.total, 0, NONE
        if change > 0:
            takes = known.takes.get(g.number, NOTHING_TAKEN)
            loses = any(
                j.groups[n].total > asked.get(j.groups[n], LARGEST_COUNT) for n in takes.older if n < len(j.groups)
            )
            added = _new_tasks(j, g, change, takes, removed, only_removed=loses)
            change = put_back(g, added)
            g.total += change
        elif change < 0:
            change, stopped, removed[g.number] = _shrink(c, j, g, -change, left)
            left -= stopped
        if change or stopped or (same and g in asked):
            taken = (span_text(added), g.indices) if added and known.takes.get(g.number, NOTHING_TAKEN).older else ()
            c.fact("resize", j.id, g.number, g.total, change, stopped, *taken)
    c.transactions += left < MOST_STOPS
    publish(c, at_ms, by)
    return any(g.total != total for g, total in asked.items())


def _new_tasks(
    j: JobRow, g: GroupRow, count: int, takes: TakeOver, removed: Mapping[int, Flat], *, only_removed: bool
) -> Flat:
    """Return the indices of up to `count` more tasks of a group: those that it takes over, then the next ones."""
    pool = NONE
    for number in takes.older:
        if number < len(j.groups):
            pool = span_add(pool, removed.get(number, NONE))
            g.indices = max(g.indices, j.groups[number].indices)
    tasks, _ = span_take(pool, min(count, span_count(pool)))
    rest = 0 if only_removed else count - span_count(tasks)
    again = span_read(takes.again)
    more, _ = span_take(again, min(rest, span_count(again)))
    tasks, rest = span_add(tasks, more), rest - span_count(more)
    if rest > 0:
        tasks = span_add(tasks, (g.indices, g.indices + rest - 1))
        g.indices += rest
    return tasks


def _shrink(c: State, j: JobRow, g: GroupRow, count: int, most: int) -> tuple[int, int, Flat]:
    """Remove tasks; return minus the pending ones among them, the number of running ones, and all of them."""
    if count > g.unplaced and g.delayed:
        requeue(c, g, inf)
    waiting, removed = min(count, g.unplaced), NONE
    if waiting:
        removed, g.waiting = span_tail(g.waiting, waiting)
        if g.losses:
            forget_losses(c, g, removed)
        g.unplaced, j.unplaced, j.returned = g.unplaced - waiting, j.unplaced - waiting, True
    stopped = min(count - waiting, most)
    if stopped:
        removed = span_add(removed, _stop_newest(c, g, stopped))
        g.stopped -= stopped
    g.total -= waiting + stopped
    return -waiting, stopped, removed


def _stop_newest(c: State, g: GroupRow, count: int) -> Flat:
    """Stop `count` running tasks, newest index first; return them. Each run is ended once."""
    running = [
        (tasks[i], tasks[i + 1], placement)
        for placement, index in g.runs.items()
        if placement > 0
        for tasks in (c.M[index].runs[placement][1],)
        for i in range(0, len(tasks), 2)
    ]
    parts, all_of_them = dict[int, Flat](), NONE
    for first, last, placement in sorted(running, reverse=True):
        n = min(count, last - first + 1)
        if n:
            newest: Flat = (last - n + 1, last)
            parts[placement] = span_add(parts.get(placement, NONE), newest)
            all_of_them = span_add(all_of_them, newest)
        count -= n
    for placement, part in parts.items():
        end_tasks(c, c.M[g.runs[placement]], placement, part, EndKind.STOPPED, "resize", c.stamp)
    return all_of_them


# Updates and copies


def update(
    c: State, job_id: str, groups: Sequence[TaskGroup], spec: Mapping[str, Any], at_ms: int, by: str,
    check: int | None = None,
) -> Job:  # fmt: skip
    """Begin an update: add `groups`, empty, whatever their count; `spec` replaces the job's."""
    check_author(by)
    check_texts(spec, f"job {job_id}")
    for group in groups:
        c.check(f"job {job_id}", group.need)
    j = _live(c, job_id)
    spec = as_stored(dict(spec)) or NO_WORDS
    if j.spec != spec:
        _check_overtaken(c, j, check)
        if len(j.groups) + len(groups) > MOST_GROUPS:
            raise _refused(c, j, "often")
        lane = lane_of(j.kind.name, j.precedence, spec)
        if j.lane.lane not in (lane, Lane(j.kind.name, 0)):
            raise _refused(c, j, "lane")
        c.open()
        j.spec, j.commands = spec, runs_commands(spec)
        j.groups += [GroupRow(j, i, group, 0) for i, group in enumerate(groups, len(j.groups))]
        current = aims(spec)
        for g in j.groups:
            g.replaced |= current is not None and g.number not in current and not g.copies
        if any(group.copies for group in groups):
            c.copied[job_id] = j.kind.name
        c.rolling[job_id] = "rolling"
        c.modify(j)
        c.fact("update", job_id)
        publish(c, at_ms, by, settings=update_text(job_id, groups))
    return shown(c, j)


def settle(c: State, job_id: str, reason: str, at_ms: int, by: str) -> bool:
    """End a rolling update as done, or as stalled with a `reason`."""
    if job_id not in c.J:
        c.rolling.pop(job_id, None)
        return False
    if c.rolling.get(job_id) != "rolling":
        return False
    c.open()
    why = " ".join(reason.split())
    if why:
        c.rolling[job_id] = f"stalled {why}"
        c.fact("stalled", job_id, why)
    else:
        del c.rolling[job_id]
        c.fact("updated", job_id)
    publish(c, at_ms, by)
    return True


def speculate(
    c: State, job_id: str, originals: Sequence[Original], budget: Budget, at_ms: int, by: str
) -> list[Original]:  # fmt: skip
    """Add copies of running tasks, which then wait; returns these tasks."""
    check_author(by)
    c.unfold()
    j, added = c.J.get(job_id), list[Original]()
    if j is None or j.complete:
        c.copied.pop(job_id, None)
    if j is None or j.state is not JobState.ACTIVE:
        return added
    c.open()
    copies = sum(g.total for each in c.J.values() for g in each.groups if g.copies)
    left = min(budget.cell - copies, budget.job - sum(g.total for g in j.groups if g.copies))
    for original in originals:
        task = original.task, original.task
        g = _copied_group(c, job_id, original)
        if g is None or len(added) >= left:
            continue
        keep_losses(g, [*g.losses, Loss(task, 0, 0, original.placement, Retried(1, original.machine))])
        g.indices = j.groups[g.number - 1].indices
        g.total += put_back(g, task)
        c.touch_job(j)
        c.fact("speculate", j.id, g.number, span_text(task))
        added.append(original)
    if added:
        publish(c, at_ms, by)
    return added


def _copied_group(c: State, job_id: str, original: Original) -> GroupRow | None:
    """Return the group for copies of a task that runs as said and has none yet; None for another."""
    m, task = c.M.get(original.machine), (original.task, original.task)
    run = m.runs.get(original.placement) if m and original.placement > 0 else None
    if run is None or run[0].job.id != job_id or run[0].copies or not span_split(run[1], task)[0]:
        return None
    groups, number = run[0].job.groups, run[0].number + 1
    if number == len(groups) or not groups[number].copies:
        return None
    return None if any(loss.tasks == task for loss in groups[number].losses) else groups[number]
