"""Submission, hold, resize and stop of jobs in the twin, as ``lua/`` has a script for each.

Reasons that hold jobs back are in `waits`.
"""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any, cast

import msgpack

from cellstate.cell import Submitted
from cellstate.errors import BadInput, OmegaError
from cellstate.lanes import lane_of
from cellstate.memory.ranges import NONE, Spans, span_add, span_tail
from cellstate.memory.reads import MemoryReads
from cellstate.memory.tasks import MemoryTasks
from cellstate.memory.words import Group, JobRow
from cellstate.model import MOST_CLAIMS, MOST_STOPS, Job, JobSpec, JobState, check_author, runs_commands
from cellstate.refusals import refusal
from cellstate.resources import LARGEST, MOST_TOGETHER, together
from cellstate.transaction import How


class MemoryJobs(MemoryTasks, MemoryReads):
    """Operations on jobs by people; see `Cell` for the methods of the port."""

    def submit(self, jobs: Sequence[JobSpec], at_ms: int, by: str, *, held: bool = False) -> list[Submitted]:
        """See Cell.submit."""
        check_author(by)
        checked = set[tuple[int, ...]]()
        for job in jobs:
            groups = job.groups
            total = groups[0].count if len(groups) == 1 else job.total
            if total > LARGEST:
                raise BadInput(f"job {job.name}: {total} tasks; the most is {LARGEST}")
            job.check_sum()
            for group in groups:
                if group.need not in checked:
                    self.check(f"job {job.name}", group.need)
                    checked.add(tuple(group.need))
                if not 0 <= group.duration_ms <= LARGEST or group.count > LARGEST:
                    raise BadInput(f"job {job.name}: count and duration are at most {LARGEST}, and never negative")
        self.open()
        answers = []
        for spec in jobs:
            known = self.J.get(spec.id)
            if known:
                same = _essence(known) == _asked(spec)
                answers.append(Submitted(spec.id, "same" if same else "id", "", known.modified if same else 0))
            elif spec.name in self.names:
                answers.append(Submitted(spec.id, "name", self.names[spec.name]))
            elif self.pools_state and self.refuses_pool(pool := lane_of(spec.kind, spec.precedence, spec.extra).pool):
                answers.append(Submitted(spec.id, "pool", pool))
            elif spec.after and (why := self.hopeless(spec)):
                answers.append(why)
            else:
                answers.append(Submitted(spec.id, "new", "", self.version + 1))
                self.pend.append(self.enter(spec, at_ms, held=held))
                self.pend[-1].submitter = by
        if self.pend:
            self.write_pending()
            self.announce(at_ms, by)
        return answers

    def hopeless(self, spec: JobSpec) -> Submitted | None:
        """Return why a job cannot be accepted: it depends on a job that does not exist or did not finish."""
        for wait in spec.after:
            j = self.J.get(wait.job)
            if j is None:
                return Submitted(spec.id, "after", wait.job)
            over = j.complete or j.state in (JobState.STOPPED, JobState.ABANDONED)
            if not wait.any_end and over and not self.finished(j):
                return Submitted(spec.id, "never", wait.job)
        return None

    def enter(self, spec: JobSpec, at_ms: int, *, held: bool) -> JobRow:
        """Record a new job."""
        kind = self.K.get(spec.kind) or self.kind(spec.kind)
        j = JobRow(spec.id, spec.name, kind, spec.precedence, JobState.ACTIVE, spec.gang)
        self.submissions += 1
        j.order, j.submitted, j.unplaced = self.submissions, at_ms, spec.total
        j.modified = self.version + 1
        if held:
            j.waits.append("*")
        for wait in spec.after:
            if not self.J[wait.job].complete:
                j.waits.append(f"{wait.job}{'+' if wait.any_end else ''}")
                self.J[wait.job].awaited.append(j.id)
                self.waited = True
        if j.waits:
            j.state = JobState.HELD
        j.groups = [Group(j, i, group, group.count) for i, group in enumerate(spec.groups)]
        self.join_lane(j, lane_of(spec.kind, spec.precedence, spec.extra))
        if words := _opaque(spec):
            j.spec, j.commands = words, runs_commands(words)
        self.J[j.id], self.names[j.name] = j, j.id
        if self.log:
            self.fact("submit", j.id, j.name, j.kind.name, j.precedence, spec.total)
        for link in j.waits:
            if link != "*":
                self.fact("awaited", link.rstrip("+"), j.id)
        return j

    def stop(
        self, job_id: str, at_ms: int, by: str, state: JobState = JobState.STOPPED, check: int | None = None, *,
        keep: bool = False,
    ) -> Job:  # fmt: skip
        """See Cell.stop."""
        check_author(by)
        j = self.J.get(job_id)
        if j is None:
            raise refusal(self.name, job_id, "unknown")
        kept = j.state is JobState.ABANDONED and j.placed and job_id not in self.due
        if j.state <= JobState.HELD or (kept and state is JobState.STOPPED):
            self.overtaken(j, check)
            self.open()
            stopped, j.state = self.stop_unplaced(j), state
            (self.touch_job if state is JobState.ABANDONED else self.modify)(j)  # people do not abandon
            self.due.pop(job_id, None)
            if j.placed and not keep:
                self.due[job_id] = 0
            self.fact("abandon" if state is JobState.ABANDONED else "stop", job_id, stopped)
            self.publish(at_ms, by)
        return self.job_of(j, spec=False)

    def note_attempts(self, jobs: Sequence[str], at_ms: int, by: str) -> int:
        """See Cell.note_attempts."""
        check_author(by)
        self.open()
        fresh = [j for j in map(self.J.get, dict.fromkeys(jobs)) if j and not j.begun and j.state <= JobState.HELD]
        for j in fresh:
            self.touch_job(j)
            j.begun = True
            self.fact("attempt", j.id)
        if fresh:
            self.publish(at_ms, by)
        return len(fresh)

    # Changes of a submitted job

    def live(self, job_id: str) -> JobRow:
        """Return a job that can still be changed; raises Refused for another."""
        j = self.J.get(job_id)
        if j is None:
            raise refusal(self.name, job_id, "unknown")
        if j.state > JobState.HELD:
            raise self.refused(j, "ended")
        return j

    def refused(self, j: JobRow, status: str) -> OmegaError:
        """Why a job is left as it is."""
        return refusal(self.name, j.id, status, self.job_of(j, spec=False))

    def overtaken(self, j: JobRow, check: int | None) -> None:
        """Raise Overtaken when the caller read another modify index."""
        if check is not None and check != j.modified:
            raise self.refused(j, "moved")

    def hold(self, job_id: str, at_ms: int, by: str, check: int | None = None) -> Job:
        """See Cell.hold."""
        return self._hold(job_id, at_ms, by, check, held=True)

    def release(self, job_id: str, at_ms: int, by: str, check: int | None = None) -> Job:
        """See Cell.release."""
        return self._hold(job_id, at_ms, by, check, held=False)

    def _hold(self, job_id: str, at_ms: int, by: str, check: int | None, *, held: bool) -> Job:
        check_author(by)
        j = self.live(job_id)
        if ("*" in j.waits) != held:
            self.overtaken(j, check)
            self.open()
            self.modify(j)
            if held:
                j.state = JobState.HELD
                j.waits.append("*")
            else:
                j.waits.remove("*")
                if not j.waits:
                    self.set_free(j)
            self.fact("hold" if held else "release", job_id)
            self.publish(at_ms, by)
        return self.job_of(j, spec=False)

    # Resizing

    def resize(
        self, job_id: str, totals: Mapping[int, int], at_ms: int, by: str, check: int | None = None,
        seen: Mapping[int, int] | None = None, placed: Mapping[int, int] | None = None,
    ) -> Job:  # fmt: skip
        """See Cell.resize; as many steps as it takes to stop running tasks MOST_STOPS at a time."""
        check_author(by)
        if any(number < 0 or not 0 <= total <= LARGEST for number, total in totals.items()):
            raise BadInput(f"job {job_id}: a group's tasks are from 0 to {LARGEST}")
        self.unfold()
        step, now, least = seen is not None, seen or {}, placed or {}
        j = self.live(job_id)
        while self.resize_once(job_id, totals, at_ms, by, check, now, least, step=step):
            check, now, least = None, {}, {}
        return self.job_of(j, spec=False)

    def resize_once(
        self, job_id: str, totals: Mapping[int, int], at_ms: int, by: str, check: int | None, seen: Mapping[int, int],
        placed: Mapping[int, int], *, step: bool,
    ) -> bool:  # fmt: skip
        """Make one call of the script; return whether another one is needed."""
        j = self.live(job_id)
        if any(number >= len(j.groups) for number in totals):
            raise self.refused(j, "group")
        asked = {j.groups[number]: total for number, total in totals.items()}
        if all(g.total == total for g, total in asked.items()):
            return False
        groups = {number: j.groups[number] for number in totals}
        if any(g.total != seen.get(i, g.total) or g.placed != placed.get(i, g.placed) for i, g in groups.items()):
            raise self.refused(j, "moved")
        self.overtaken(j, check)
        if any(total < g.finished + g.failed + g.stopped for g, total in asked.items()):
            raise self.refused(j, "few")
        if sum(asked.get(g, g.total) for g in j.groups) > LARGEST or any(
            g.indices + total - g.total > LARGEST for g, total in asked.items()
        ):
            raise self.refused(j, "large")
        grows = any(total > g.total for g, total in asked.items())
        if grows and not step and together((g.amounts, asked.get(g, g.total)) for g in j.groups) > MOST_TOGETHER:
            raise self.refused(j, "large")
        if j.gang and sum(asked.get(g, g.total) for g in j.groups) > MOST_CLAIMS:
            raise self.refused(j, "many")
        self.open()
        (self.touch_job if step else self.modify)(j)
        left = most = MOST_STOPS
        for g in j.groups:
            change, stopped = asked.get(g, g.total) - g.total, 0
            if change > 0:
                self.grow(j, g, change)
            elif change < 0:
                change, stopped = self.shrink(j, g, -change, left)
                left -= stopped
            if change or stopped:
                self.fact("resize", job_id, g.number, g.total, change, stopped)
        self.transactions += left < most
        self.publish(at_ms, by)
        return any(g.total != total for g, total in asked.items())

    def grow(self, j: JobRow, g: Group, count: int) -> None:
        """Add tasks with the next indices."""
        g.waiting = span_add(g.waiting, (g.indices, g.indices + count - 1))
        g.unplaced, j.unplaced, j.returned = g.unplaced + count, j.unplaced + count, True
        g.total, g.indices = g.total + count, g.indices + count

    def shrink(self, j: JobRow, g: Group, count: int, most: int) -> tuple[int, int]:
        """Remove tasks; return minus the pending ones among them, and the number of running ones."""
        if count > g.unplaced and g.delayed:
            self.requeue(g, inf)
        waiting = min(count, g.unplaced)
        if waiting:
            removed, g.waiting = span_tail(g.waiting, waiting)
            if g.losses:
                self.forget_losses(g, removed)
            g.unplaced, j.unplaced, j.returned = g.unplaced - waiting, j.unplaced - waiting, True
        stopped = min(count - waiting, most)
        if stopped:
            self.stop_newest(g, stopped)
            g.stopped -= stopped
        g.total -= waiting + stopped
        return -waiting, stopped

    def stop_newest(self, g: Group, count: int) -> None:
        """Stop `count` running tasks, newest index first. Each run is ended once."""
        running = [
            (spans[i], spans[i + 1], placement)
            for placement, index in g.runs.items()
            if placement > 0
            for spans in (self.M[index].runs[placement][1],)
            for i in range(0, len(spans), 2)
        ]
        parts: dict[int, Spans] = {}
        for first, last, placement in sorted(running, reverse=True):
            n = min(count, last - first + 1)
            if n:
                parts[placement] = span_add(parts.get(placement, NONE), (last - n + 1, last))
            count -= n
        for placement, part in parts.items():
            self.end_tasks(self.M[g.runs[placement]], placement, part, How.STOPPED, "resize", self.stamp)


def plain(value: Any) -> Any:
    """Return a value as after encoding with MessagePack."""
    return msgpack.unpackb(msgpack.packb(value)) if value else {}


def _opaque(spec: JobSpec) -> dict[str, Any]:
    """Return a job's fields for schedulers and executors."""
    groups = spec.groups
    if not spec.extra and len(groups) == 1 and not groups[0].extra:
        return {}
    words = dict(spec.extra)
    for group in groups:
        if group.extra:
            words["groups"] = [dict(each.extra) for each in spec.groups]
            break
    return cast("dict[str, Any]", plain(words)) if words else {}


def _asked(spec: JobSpec) -> tuple[Any, ...]:
    groups = [
        (tuple(g.need), g.duration_ms, g.count, g.count, g.optional, -1 if g.once else g.budget) for g in spec.groups
    ]
    return spec.name, spec.kind, spec.precedence, spec.gang, groups, _opaque(spec)


def _essence(j: JobRow) -> tuple[Any, ...]:
    """Return the constant part of a job: everything but state, counts and ranges."""
    groups = [(g.amounts, g.duration, g.total, g.indices, g.optional, -1 if g.once else g.budget) for g in j.groups]
    return j.name, j.kind.name, j.precedence, j.gang, groups, j.spec
