"""Follow jobs after their submission: events as lines on stdout, progress bars on stderr."""

import re
import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from omega.cellstate import ranges
from omega.cellstate.errors import Refused
from omega.cellstate.pages import own_groups
from omega.cli import render
from omega.cli.app import App
from omega.cli.job.progress_text import ProgressText
from omega.client.waits import submitted_again
from omega.live.waiting import OTHERWISE, exit_status, patiently, watch
from omega.queries import units
from omega.queries.event_list import JobTail
from omega.queries.events import events, extent, since_time
from omega.queries.job_state import counts, ended, job_counts, state, tally
from omega.queries.mapreduce import progress
from omega.queries.room import Room

if TYPE_CHECKING:
    from rich.progress import Progress

    from omega.cellstate.model import GroupStatus, Job
    from omega.cellstate.redis import RedisCell
    from omega.client.lost_jobs import Submissions

MOST_BEHIND = 5_000
"""Maximum number of unread versions of the log; a reader further behind skips them and prints fewer details."""
EXPLAIN_MS = 2_000
"""Time in milliseconds that a job is pending before its reason is printed, and the interval of further checks."""
MOST_ROWS = 20
ENDS = ("total", "finished", "failed", "stopped")


def follow_all(
    app: App, cell: "RedisCell", ids: Sequence[str], warnings: Sequence[str], submitted: "Submissions", *,
    of_tasks: bool = False,
) -> int:  # fmt: skip
    """Follow jobs to their end; returns the exit code of their result, or of their first failed task.

    Those of the submitted jobs that the store lost are submitted again.
    """
    with render.progress(quiet=app.as_json) as bars:
        watcher = _One(app, cell, ids[0], bars) if len(ids) == 1 else _Many(bars)
        try:
            jobs = _watch(app, cell, ids, watcher, submitted)
        except KeyboardInterrupt:
            bars.stop()
            continues = f"the job continues, see omega job status {ids[0]}" if len(ids) == 1 else "the jobs continue"
            render.note(f"detached; {continues}")
            raise
    if app.as_json:
        answers = [as_json(job, "unchanged" if job.id not in ids else "submitted") for job in jobs]
        render.document({"cell": cell.name, "jobs": answers, "warnings": list(warnings)})
    elif len(jobs) > 1:
        _table(cell, jobs)
    elif isinstance(watcher, _One) and (hint := watcher.hint()):
        render.note(hint)
    return exit_code(cell, jobs[0]) if of_tasks else exit_status(jobs)


def _watch(
    app: App, cell: "RedisCell", ids: Sequence[str], watcher: "_One | _Many", submitted: "Submissions"
) -> "list[Job]":
    """Watch jobs until they have ended; submit those again that the store lost in a failover."""
    while True:
        try:
            return watch(cell, ids, watcher.see)
        except Refused:
            lost = patiently(lambda: submitted_again(submitted, cell, app.now_ms, app.by))
            if not lost:
                for job_id in ids:
                    submitted.check(cell, job_id)
                raise
            names = units.listing([spec.name for spec in lost], MOST_ROWS)
            render.note(f"the store lost {units.count(len(lost), 'job')}, submitted again by the same id: {names}")


def as_json(job: "Job", status: str) -> dict[str, Any]:
    """Return a followed job as plain values."""
    numbers = job_counts(job)
    return {
        "id": job.id,
        "name": job.name,
        "status": status,
        "tasks": numbers["total"],
        "state": state(job),
        "counts": numbers,
        "modify_index": job.modified,
    }


class _TaskBars:
    """Bars of placed and of ended tasks."""

    def __init__(self, bars: "Progress") -> None:
        self.bars = bars
        self.placed, self.ended = (bars.add_task(name, total=None, more="tasks") for name in ("placed", "ended"))

    def show(self, groups: "Sequence[GroupStatus]") -> None:
        numbers = counts(groups)
        self.bars.update(self.placed, total=numbers["total"], completed=numbers["total"] - numbers["pending"])
        self.bars.update(self.ended, total=numbers["total"], completed=sum(numbers[name] for name in ENDS[1:]))


class _One:
    """Follows one job with its events."""

    def __init__(self, app: App, cell: "RedisCell", job_id: str, bars: "Progress") -> None:
        self.app, self.cell, self.bars = app, cell, bars
        self.lines: ProgressText | None = None
        self.tail: JobTail | None = None
        self.explain_ms = app.now_ms() + EXPLAIN_MS
        self.job_id = job_id
        self.tasks = _TaskBars(bars)
        self.phases = [bars.add_task(name, total=None, more="shards", visible=False) for name in ("map", "reduce")]

    def see(self, jobs: "Sequence[Job]") -> None:
        job = jobs[0]
        if self.lines is None:
            self.lines = ProgressText(job)
            self.tail = JobTail(self.cell, job.id, job.submitted_ms, MOST_BEHIND)
        for event in self.tail.read() if self.tail else ():
            self.lines.add_event(event)
        texts = self.lines.update(job, self.app.now_ms()) + self._explain(self.lines, job)
        self.tasks.show(own_groups(job))
        if shards := progress(self.cell, job):
            for bar, count in zip(self.phases, shards[:2], strict=True):
                self.bars.update(bar, total=count.total, completed=count.done, visible=True)
        if not self.app.as_json:
            for text in texts:
                render.line_above(self.bars, text)

    def hint(self) -> str:
        """Return the command that prints the output of a failed task; empty when none failed."""
        return self.lines.hint() if self.lines is not None else ""

    def _explain(self, lines: ProgressText, job: "Job") -> list[str]:
        """Return a line with the reason of a pending job, computed at most once per `EXPLAIN_MS`."""
        now_ms = self.app.now_ms()
        if job.pending and now_ms < self.explain_ms:
            return []
        self.explain_ms = now_ms + EXPLAIN_MS
        return lines.pending(Room(self.cell).reason(job), now_ms) if job.pending else []


class _Many:
    """Follows several jobs by their counts of tasks."""

    def __init__(self, bars: "Progress") -> None:
        self.bars = bars
        self.jobs = bars.add_task("jobs ended", total=None, more="jobs")
        self.tasks = _TaskBars(bars)

    def see(self, jobs: "Sequence[Job]") -> None:
        self.bars.update(self.jobs, total=len(jobs), completed=sum(ended(job) for job in jobs))
        self.tasks.show([group for job in jobs for group in own_groups(job)])


def _table(cell: "RedisCell", jobs: "Sequence[Job]") -> None:
    """Print the result of each job, or the number of jobs by result when there are more than `MOST_ROWS`."""
    if len(jobs) > MOST_ROWS:
        said = ", ".join(f"{number:,} {word}" for word, number in tally(map(state, jobs)).items() if number)
        render.line(f"{units.count(len(jobs), 'job')} ended: {said}")
        return
    room = Room(cell)
    rows = []
    for job in jobs:
        numbers = job_counts(job)
        rows.append((job.id, job.name, state(job), room.reason(job), *(numbers[name] for name in ENDS)))
    render.table(("id", "name", "state", "reason", *(f">{name}" for name in ENDS)), rows)


_EXIT = re.compile(r"exit (\d+)", re.ASCII)
_KILLED = re.compile(r"killed by (?:signal (\d+)|(SIG\w+))", re.ASCII)
_CODES = {
    "command not found: ": 127,
    "not executable: ": 126,
    "cannot run ": 126,
    "time limit ": 124,
    "out of memory ": 137,
}


def code_of(reason: str) -> int:
    """Return the exit code that the reason of a failed task stands for, as in shells; never 0.

    128 plus the signal's number for a signal, 127 for an unknown command, 126 for one that cannot be run, 124 for a
    time limit (as ``timeout``). A task without an exit code (stopped, abandoned, lost) counts as 1.
    """
    if match := _EXIT.match(reason):
        return min(int(match[1]), 255) or OTHERWISE
    if match := _KILLED.match(reason):
        number = int(match[1]) if match[1] else getattr(signal, match[2], 0)
        return 128 + int(number) if 0 < number < 128 else OTHERWISE
    return next((code for start, code in _CODES.items() if reason.startswith(start)), OTHERWISE)


def exit_code(cell: "RedisCell", job: "Job") -> int:
    """Return 0 when all of a job finished, else the code of the first task, by group and index, that failed."""
    if state(job) != "failed":
        return exit_status([job])
    kept = extent(cell)
    failed = (
        ((event.more["group"], ranges.indices(event.more["tasks"])[0]), event.more.get("reason", ""))
        for event in events(cell, since_time(cell, job.submitted_ms, kept), kept.newest)
        if event.job == job.id and event.kind == "failed"
    )
    first = min(failed, default=None)
    return OTHERWISE if first is None else code_of(first[1])
