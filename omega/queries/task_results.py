"""The tasks of a job by their index: state, exit status, machine, times; equal neighbours together."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from omega.cellstate import ranges
from omega.cellstate.digest import results as digest_results
from omega.cellstate.digest.history import WITH_REASON, History
from omega.cellstate.digest.hours import readable
from omega.cellstate.digest.results import JobResults, TaskResult, field_of
from omega.cellstate.events import Fail, Submit, TaskEvent, job_of, reason_of
from omega.queries.job_history import JobLog, job_log, unread_json, unread_versions
from omega.queries.job_state import group_names, own_losses
from omega.queries.task_names import TaskNames

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell, Digest
    from omega.cellstate.model import Job

STATES = (
    "pending", "running", "stopping", "finished", "failed", "stopped", "evicted", "lost", "retried", "removed",
    "unknown",
)  # fmt: skip
"""States of tasks. Stopping ones were stopped, and their processes have not ended. Evicted, lost and retried ones are
pending again, delayed, or not placed again. Removed ones were surplus workers that ended otherwise than by finishing:
they are none of the job's tasks any more. No result is kept of unknown ones."""
_DROPS = ("failed", "evicted", "lost", "retried")
"""Ends by which a task of an optional group leaves the total of a live job (semantics 4)."""
_EXIT = re.compile(r"exit (\d+)", re.ASCII)


class TaskRow(NamedTuple):
    """Tasks of a group that follow one another and are alike; `tasks` as ranges, `times` of start and end in ms."""

    group: int
    tasks: str
    state: str
    reason: str = ""
    machine: int | None = None
    times: tuple[int | None, int | None] = (None, None)
    restarts: int = 0

    def elapsed_ms(self, now_ms: int) -> int | None:
        """Return how long their last attempt took, that of running and stopping ones until now; None without one."""
        start, end = self.times
        return None if start is None else max(0, (now_ms if end is None else end) - start)

    @property
    def exit_status(self) -> int | None:
        """The exit status of their command; None when it did not exit."""
        if self.state == "finished":
            return 0
        found = _EXIT.fullmatch(self.reason)
        return int(found[1]) if found else None


@dataclass(frozen=True)
class JobTasks:
    """The tasks of a job."""

    job: "Job"
    rows: Sequence[TaskRow]
    unread: tuple[int, int] | None = None
    """First and last version of the log that neither the results have nor were read here."""

    def of(self, state: str | None) -> "JobTasks":
        """Return those in a state (None: all)."""
        return replace(self, rows=[row for row in self.rows if state in (None, row.state)])

    @cached_property
    def names(self) -> TaskNames:
        """The names of the tasks."""
        return TaskNames.of(self.job)

    def document(self, cell: "Cell", limit: int | None, now_ms: int) -> dict[str, Any]:
        """Return the first `limit` rows and the number of all as plain values."""
        rows = self.as_json(self.machine_names(cell, limit), limit, now_ms)
        about = {"cell": cell.name, "job": self.job.id, "name": self.job.name, "rows": len(self.rows)}
        about["unread"] = unread_json(self.unread)
        return about | {"tasks": rows}

    def as_json(self, names: Mapping[int, str], limit: int | None, now_ms: int) -> list[dict[str, Any]]:
        """Return the first `limit` rows as plain values; `names` are those of machines by index."""
        called = group_names(self.job)
        return [
            {
                **self.names.as_json(row.group, row.tasks),
                "group": called[row.group],
                "tasks": row.tasks,
                "state": row.state,
                "exit_status": row.exit_status,
                "reason": row.reason or None,
                "machine": None if row.machine is None else names.get(row.machine, str(row.machine)),
                "started_ms": row.times[0],
                "ended_ms": row.times[1],
                "elapsed_ms": row.elapsed_ms(now_ms),
                "restarts": row.restarts,
            }
            for row in self.rows[:limit]
        ]

    def machine_names(self, cell: "Cell", limit: int | None = None) -> dict[int, str]:
        """Return the names of the machines of the first `limit` rows, by index."""
        indices = sorted({row.machine for row in self.rows[:limit] if row.machine is not None})
        return {index: name for index, (name, _) in zip(indices, cell.machines.described(indices), strict=True) if name}


def job_tasks(cell: "Cell", job: "Job", log: JobLog | None = None) -> JobTasks:
    """Return the tasks of a job; `log` is what is kept of its past, if it was read."""
    results, history, unread = _results(cell, job, log=log)
    found = (row for number in range(len(job.groups)) for row in _rows(job, number, results, history))
    rows = [_removed(row) if _is_dropped(job, row) else row for row in found]
    hidden = ("unknown", "finished")  # a copy that finished is the task
    shown = [row for row in rows if row.state not in hidden or not job.groups[row.group].copies]
    shown = [row for row in shown if row.state != "unknown" or not _is_taken_over(job, row.group)]
    return JobTasks(job, list(_with_restarts(_with_stopping(shown, _leaving(cell, job)), job)), unread)


def _leaving(cell: "Cell", job: "Job") -> dict[tuple[int, int], str]:
    """Return the tasks whose processes the store waits for, by group and machine."""
    machines = sorted({machine for group in job.groups for _, machine, leaving in group.runs if leaving})
    found: dict[tuple[int, int], str] = {}
    for run in cell.machines.runs(machines) if machines else ():
        if run.leaving and run.job == job.id:
            key = run.group, run.machine
            found[key] = ranges.add(found.get(key, ranges.EMPTY), run.tasks)
    return found


def _with_stopping(rows: Sequence[TaskRow], leaving: Mapping[tuple[int, int], str]) -> Iterator[TaskRow]:
    for row in rows:
        going = leaving.get((row.group, -1 if row.machine is None else row.machine), ranges.EMPTY)
        for part, stops in _parted(row, going if row.state == "stopped" else ranges.EMPTY):
            yield part._replace(state="stopping", times=(row.times[0], None)) if stops else part


def _with_restarts(rows: Iterator[TaskRow], job: "Job") -> Iterator[TaskRow]:
    """Yield the rows, divided by how often their tasks were placed again."""
    alike: dict[tuple[int, int], str] = {}
    for group, loss in own_losses(job):
        key = group, loss.restarts
        alike[key] = ranges.add(alike.get(key, ranges.EMPTY), loss.tasks)
    for row in rows:
        parts = [row]
        for (group, restarts), tasks in alike.items():
            if group == row.group:
                parted = [_parted(part, tasks if not part.restarts else ranges.EMPTY) for part in parts]
                parts = [part._replace(restarts=restarts) if its else part for each in parted for part, its in each]
        yield from parts


def _parted(row: TaskRow, tasks: str) -> list[tuple[TaskRow, bool]]:
    """Return a row divided into tasks that follow one another, in order, and whether each is among `tasks`."""
    inside, rest = ranges.split(row.tasks, tasks) if tasks != ranges.EMPTY else (ranges.EMPTY, row.tasks)
    if inside == ranges.EMPTY:
        return [(row, False)]
    parts = [(each, True) for each in _spans(inside)] + [(each, False) for each in _spans(rest)]
    parts.sort(key=lambda part: int(part[0].partition("-")[0]))
    return [(row._replace(tasks=each), its) for each, its in parts]


def _spans(tasks: str) -> list[str]:
    return [_text(first, last + 1) for first, last in ranges.spans(tasks)]


def _is_dropped(job: "Job", row: TaskRow) -> bool:
    """Return whether tasks were removed from the total; those of a job that had ended already count as failed."""
    group = job.groups[row.group]
    return group.optional and not group.copies and row.state in _DROPS and not group.failed


def _is_taken_over(job: "Job", group: int) -> bool:
    """Return whether tasks of a group without a result may be in others: those of an array that was updated."""
    groups = job.spec.get("groups") or ()
    return "targets" in job.spec and group < len(groups) and groups[group].get("array") is not None


def _removed(row: TaskRow) -> TaskRow:
    return row._replace(state="removed", reason=row.reason or row.state)


def group_of_output(cell: "Cell", job: "Job", group: int, task: int) -> int:
    """Return the group under which the output of a task is: that of its copy once the copy continued as the task."""
    if group + 1 == len(job.groups) or not job.groups[group + 1].copies:
        return group
    chunk, at = divmod(task, digest_results.CHUNK)
    results, _, _ = _results(cell, job, chunk)
    own, copy = ((results.chunks.get((number, chunk)) or [])[at : at + 1] for number in (group, group + 1))
    took_over = copy and copy[0].state == digest_results.FINISHED
    return group + 1 if took_over and own and own[0].times[0] == copy[0].times[0] else group


def last_machine(cell: "Cell", job: "Job", group: int, task: int) -> int | None:
    """Return the index of the machine that a task of a group (as placed) runs on, or ran on last, as far as known."""
    chunk, at = divmod(task, digest_results.CHUNK)
    found = (_results(cell, job, chunk)[0].chunks.get((group, chunk)) or [])[at : at + 1]
    return found[0].machine if found and found[0].state != digest_results.NONE else None


def _results(
    cell: "Cell", job: "Job", chunk: int | None = None, log: JobLog | None = None
) -> tuple[JobResults, History, tuple[int, int] | None]:
    """Read the results of a job (with `chunk`: of these tasks of each group), and entries of the log after them.

    The third value is the part of the log that was not read.
    """
    position, known, read = log or job_log(cell, job)
    history, results = known or History.of(job), _stored(cell.digest, job, chunk)
    at, submitted = position.version, False
    for fact in read.facts:
        said = fact.event
        if job_of(said) != job.id:
            continue
        submitted |= isinstance(said, Submit)
        if isinstance(said, TaskEvent | Fail):
            reason = reason_of(said) if said.word in WITH_REASON else ""
            results.add(said, fact.at_ms, history.reason(reason) if reason else 0)
    return results, history, None if submitted else unread_versions(at, read)


def _stored(digest: "Digest", job: "Job", only: int | None) -> JobResults:
    """Read the results of a job, of all chunks or of one."""
    results = JobResults()
    listed = digest.result_records([job.id]).get(job.id, b"").decode()
    places = [
        (int(group), chunk)
        for group, _, chunks in (piece.partition(":") for piece in listed.split(";") if piece)
        for chunk in ranges.indices(chunks)
        if only in (None, chunk)
    ]
    read = partial(digest_results.unpack_results, base_ms=job.submitted_ms)
    records = digest.result_records([field_of(job.id, *place) for place in places])
    for place in places:
        record = records.get(field_of(job.id, *place))
        if record:
            results.chunks[place] = readable(read, record, [])
    return results


def _rows(job: "Job", number: int, results: JobResults, history: History) -> Iterator[TaskRow]:
    """Yield the tasks of a group in order of their index."""
    group = job.groups[number]
    waiting = group.waiting
    for loss in group.losses:
        waiting = ranges.add(waiting, loss.tasks) if loss.due_ms else waiting
    spans = ranges.spans(waiting)
    at = 0
    for chunk in sorted(chunk for of, chunk in results.chunks if of == number):
        first = chunk * digest_results.CHUNK
        yield from _without(number, at, first, spans)
        found = results.chunks[number, chunk][: max(0, group.indices - first)]
        at = first
        for alike, tasks in groupby(enumerate(found, first), lambda pair: (pair[1], _waits(pair[0], spans))):
            result, waits = alike
            size = sum(1 for _ in tasks)
            yield _row(number, _text(at, at + size), result, history, waits=waits)
            at += size
    yield from _without(number, at, group.indices, spans)


def _waits(task: int, spans: ranges.Spans) -> bool:
    at = bisect_right(spans, task, key=itemgetter(0)) - 1
    return at >= 0 and task <= spans[at][1]


def _without(number: int, first: int, end: int, spans: ranges.Spans) -> Iterator[TaskRow]:
    """Yield tasks without a result: those that wait, and those of which nothing is kept."""
    at = first
    for low, high in [*spans, (end, end)]:
        if at < min(low, end):
            yield TaskRow(number, _text(at, min(low, end)), "unknown")
        if max(low, at) < min(high + 1, end):
            yield TaskRow(number, _text(max(low, at), min(high + 1, end)), "pending")
        at = max(at, min(high + 1, end))


def _row(number: int, tasks: str, result: TaskResult, history: History, *, waits: bool) -> TaskRow:
    if result.state == digest_results.NONE:
        return TaskRow(number, tasks, "pending" if waits else "unknown")
    word = digest_results.STATES[result.state]
    reason = history.reasons[result.reason - 1] if 0 < result.reason <= len(history.reasons) else ""
    start, end = result.times
    times = start, None if result.state == digest_results.RUNNING else end
    return TaskRow(number, tasks, "pending" if waits else word, word if waits else reason, result.machine, times)


def _text(first: int, end: int) -> str:
    return str(first) if end == first + 1 else f"{first}-{end - 1}"
