"""Copies of slow tasks (semantics 41): a scheduler requests them for slow tasks of the jobs that it placed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from omega.cellstate import ranges
from omega.cellstate.digest.hours import readable
from omega.cellstate.digest.results import (
    CHUNK,
    FINISHED,
    RUNNING,
    TaskResult,
    field_of,
    listed_chunks,
    unpack_results,
)
from omega.cellstate.model import Job, JobState, bucket_of
from omega.cellstate.override import override
from omega.cellstate.ports import SchedulerStore
from omega.cellstate.replies import Budget, Original
from omega.schedulers.instruments import Instrument
from omega.schedulers.speculation import Speculation, cell_budget
from omega.schedulers.work import Work

NEWEST = 1_000
"""Jobs that a scheduler looks through when the division of jobs changes: others placed some that are its own now."""
MOST_CHUNKS = 256
"""Chunks of results of a job that one look reads."""
MOST_ASKED = 500
"""Slow tasks of a job of which one call requests copies."""


@dataclass(slots=True)
class Copies(Instrument):
    """Jobs whose tasks may get copies, with their rules; the loop adds them, the heartbeat looks at them."""

    _rules: dict[str, Speculation] = field(default_factory=dict)
    _owned: str = ""
    """The buckets of jobs that were its own at the last look (`schedulers/sharing.py`)."""

    @override
    def began_all(self, works: Sequence[Work], now: float) -> None:
        for work in works:
            if len(work.job.groups) > 1:
                self._note(work.job)

    def _note(self, job: Job) -> None:
        if job.id not in self._rules and any(group.copies for group in job.groups):
            rules = Speculation.of(job.spec)
            if rules is not None:
                self._rules[job.id] = rules

    def _divide(self, cell: SchedulerStore, kind: str, owned: str) -> None:
        """Take over the newest jobs of the buckets in `owned`, and leave those of other buckets to their schedulers.

        Older jobs that this scheduler placed remain.
        """
        for listed in cell.job_page(NEWEST).jobs:
            if listed.kind == kind and owned[bucket_of(listed.id)] != "1":
                self._rules.pop(listed.id, None)
            elif listed.kind == kind and listed.state <= JobState.HELD:
                self._note(listed)
        self._owned = owned

    def request(self, cell: SchedulerStore, owned: str, machines: int, now: float, by: str) -> int:
        """Request copies of slow tasks; return their number. `owned`: its buckets; `machines`: those of the cell."""
        if owned != self._owned:
            self._divide(cell, by.partition("/")[0], owned)
        known = list(self._rules.items())
        jobs = cell.jobs_by_id([job_id for job_id, _ in known]) if known else {}
        asked = 0
        for job_id, rules in known:
            job = jobs.get(job_id)
            if job is None or job.state > JobState.HELD:
                self._rules.pop(job_id, None)
                continue
            originals = [each for group in _copied(job) for each in _slow(cell, job, group, rules, now)][:MOST_ASKED]
            if originals:
                total = sum(group.total for group in job.groups if not group.copies)
                budget = Budget(rules.budget(total), cell_budget(machines))
                asked += cell.speculate(job_id, originals, budget, int(now * 1000), by)
        return asked


def _copied(job: Job) -> Iterator[int]:
    """Yield the groups that have a group for copies and running tasks."""
    for number, group in enumerate(job.groups[1:]):
        if group.copies and job.groups[number].placed > group.total:
            yield number


def _slow(cell: SchedulerStore, job: Job, number: int, rules: Speculation, now: float) -> Iterator[Original]:
    """Yield the slow tasks of a group without a copy by their results, the slowest first."""
    copied = {task for loss in job.groups[number + 1].losses for task in ranges.indices(loss.tasks)}
    running: list[tuple[float, tuple[int, int]]] = []
    finished: list[float] = []
    for task, result in _results(cell, job, number):
        start, end = result.times
        if result.state == FINISHED:
            finished.append((end - start) / 1000)
        elif result.state == RUNNING and task not in copied:
            running.append((now - start / 1000, (task, result.machine)))
    slow = rules.slow(running, finished, job.groups[number].total)[:MOST_ASKED]
    runs = cell.runs(sorted({machine for _, (_, machine) in slow}))
    placed = {
        (run.machine, task): run.placement
        for run in runs if run.job == job.id and run.group == number and not run.leaving
        for task in ranges.indices(run.tasks)
    }  # fmt: skip
    for _, (task, machine) in slow:
        if (machine, task) in placed:
            yield Original(machine, placed[machine, task], task)


def _results(cell: SchedulerStore, job: Job, number: int) -> Iterator[tuple[int, TaskResult]]:
    listed: dict[int, set[int]] = readable(listed_chunks, cell.result_records([job.id]).get(job.id, b""), {})
    chunks = {field_of(job.id, number, chunk): chunk for chunk in sorted(listed.get(number, ()))[:MOST_CHUNKS]}
    for name, record in cell.result_records(list(chunks)).items():
        results: list[TaskResult] = readable(lambda text: unpack_results(text, job.submitted_ms), record, [])
        yield from enumerate(results, chunks[name] * CHUNK)
