"""Copies of slow tasks (semantics 41): a scheduler requests them for slow tasks of the jobs that it placed."""

from collections import Counter
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
from omega.schedulers.speculation import Running, Speculation, cell_budget
from omega.schedulers.work import Work

MOST_CHUNKS = 256
"""Chunks of results of a job that one look reads."""
MOST_ASKED = 500
"""Slow tasks of a job of which one call requests copies."""
MOST_COPIES = 3
"""Copies that a scheduler requests of one run: where the copies of a task fail, so would the next ones."""


@dataclass(slots=True)
class Copies(Instrument):
    """Jobs whose tasks may get copies, with their rules; the loop adds them, the heartbeat looks at them."""

    _rules: dict[str, Speculation] = field(default_factory=dict)
    _requested: dict[str, Counter[tuple[int, int]]] = field(default_factory=dict)
    """The number of copies that it requested of runs of a job, by placement and task."""
    _owned: str = ""
    """The buckets of jobs that were its own at the last look (`schedulers/sharing.py`)."""

    @override
    def began_all(self, works: Sequence[Work], now: float) -> None:
        for job in (work.job for work in works if len(work.job.groups) > 1):
            rules = Speculation.of(job.spec) if any(group.copies for group in job.groups) else None
            if rules is not None:
                self._rules[job.id] = rules

    def _divide(self, cell: SchedulerStore, owned: str, now: float, by: str) -> None:
        """Take over the jobs of the buckets in `owned`, and leave those of other buckets to their schedulers."""
        for job_id in list(self._rules):
            if owned[bucket_of(job_id)] != "1":
                self._forget(job_id)
        listed = cell.copied_jobs(by.partition("/")[0])
        new = [each for each in listed if owned[bucket_of(each)] == "1" and each not in self._rules]
        for job_id, spec in (cell.specs(new) if new else {}).items():
            rules = Speculation.of(spec)
            if rules is None:
                _leave(cell, job_id, now, by)
            else:
                self._rules[job_id] = rules
        self._owned = owned

    def request(self, cell: SchedulerStore, owned: str, machines: int, now: float, by: str) -> int:
        """Request copies of slow tasks; return their number. `owned`: its buckets; `machines`: those of the cell."""
        if owned != self._owned:
            self._divide(cell, owned, now, by)
        known = list(self._rules.items())
        jobs = cell.jobs_by_id([job_id for job_id, _ in known]) if known else {}
        asked = 0
        for job_id, rules in known:
            job = jobs.get(job_id)
            if job is None or job.state > JobState.HELD:
                self._forget(job_id)
                _leave(cell, job_id, now, by)
                continue
            requested = self._requested.setdefault(job_id, Counter())
            slow = (each for group in _copied(job) for each in _slow(cell, job, group, rules, now))
            originals = [each for each in slow if requested[each[1:]] < MOST_COPIES][:MOST_ASKED]
            if originals:
                total = sum(group.total for group in job.groups if not group.copies)
                budget = Budget(rules.budget(total), cell_budget(machines))
                added = cell.speculate(job_id, originals, budget, int(now * 1000), by)
                requested.update(each[1:] for each in added)
                asked += len(added)
        return asked

    def _forget(self, job_id: str) -> None:
        self._rules.pop(job_id, None)
        self._requested.pop(job_id, None)


def _leave(cell: SchedulerStore, job_id: str, now: float, by: str) -> None:
    """Remove a job from the list of those whose tasks may have copies, if it ended."""
    cell.speculate(job_id, [], Budget(0, 0), int(now * 1000), by)


def _copied(job: Job) -> Iterator[int]:
    """Yield the groups that have a group for copies and running tasks."""
    for number, group in enumerate(job.groups[1:]):
        if group.copies and job.groups[number].placed > group.total:
            yield number


def _slow(cell: SchedulerStore, job: Job, number: int, rules: Speculation, now: float) -> Iterator[Original]:
    """Yield the slow tasks of a group without a copy by their results, first those that run on the longest."""
    copied = {task for loss in job.groups[number + 1].losses for task in ranges.indices(loss.tasks)}
    began: dict[tuple[int, int], float] = {}
    finished: list[float] = []
    for task, result in _results(cell, job, number):
        start, end = result.times
        if result.state == FINISHED:
            finished.append((end - start) / 1000)
        elif result.state == RUNNING:
            began[result.machine, task] = now - start / 1000
    parts = _progress(cell, job.id, number, {machine for machine, _ in began})
    running = [Running(elapsed, where, parts.get(where)) for where, elapsed in began.items()]
    slow = [each.task for each in rules.slow(running, finished, job.groups[number].total) if each.task[1] not in copied]
    slow = slow[:MOST_ASKED]
    runs = cell.runs(sorted({machine for machine, _ in slow}))
    placed = {
        (run.machine, task): run.placement
        for run in runs if run.job == job.id and run.group == number and not run.leaving
        for task in ranges.indices(run.tasks)
    }  # fmt: skip
    for machine, task in slow:
        if (machine, task) in placed:
            yield Original(machine, placed[machine, task], task)


def _progress(cell: SchedulerStore, job_id: str, number: int, machines: set[int]) -> dict[tuple[int, int], float]:
    """Return the part that tasks of a group have done, by machine and task, also of those that began as copies."""
    known = cell.reported_progress(job_id, sorted(machines)) if machines else {}
    return {
        (machine, task): percent / 100
        for machine, tasks in known.items() for group, task, percent in tasks if group in (number, number + 1)
    }  # fmt: skip


def _results(cell: SchedulerStore, job: Job, number: int) -> Iterator[tuple[int, TaskResult]]:
    listed: dict[int, set[int]] = readable(listed_chunks, cell.result_records([job.id]).get(job.id, b""), {})
    chunks = {field_of(job.id, number, chunk): chunk for chunk in sorted(listed.get(number, ()))[:MOST_CHUNKS]}
    for name, record in cell.result_records(list(chunks)).items():
        results: list[TaskResult] = readable(lambda text: unpack_results(text, job.submitted_ms), record, [])
        yield from enumerate(results, chunks[name] * CHUNK)
