"""Copies of slow tasks (semantics 41): a scheduler requests them for slow tasks of the jobs that it placed."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from omega.cellstate import ranges
from omega.cellstate.cell import Cell, Digest, Jobs
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
from omega.cellstate.replies import Budget, Original
from omega.schedulers.speculation import Running, Speculation, cell_budget

MOST_CHUNKS = 256
"""Chunks of results of a job that one look reads."""
MOST_ASKED = 500
"""Slow tasks of a job of which one call requests copies."""
MOST_COPIES = 3
"""Copies that a scheduler requests of one run: where the copies of a task fail, so would the next ones."""


@dataclass(slots=True)
class Copies:
    """The jobs of a scheduler's buckets whose tasks may get copies; the heartbeat looks at them."""

    _rules: dict[str, tuple[int, Speculation | None]] = field(default_factory=dict)
    """The modify index of each job, and its rules by the specification that it had then; None: no copies."""
    _requested: dict[str, Counter[tuple[int, int]]] = field(default_factory=dict)
    """The number of copies that it requested of runs of a job, by placement and task."""

    def request(self, cell: Cell, owned: str, machines: int, now: float, by: str) -> int:
        """Request copies of slow tasks; return their number. `owned`: its buckets; `machines`: those of the cell."""
        mine = [each for each in cell.jobs.copied(by.partition("/")[0]) if owned[bucket_of(each)] == "1"]
        jobs = cell.jobs.by_id(mine) if mine else {}
        live = {job_id: job for job_id, job in jobs.items() if job.state <= JobState.HELD}
        for job_id in mine:
            if job_id not in live:
                _leave(cell.jobs, job_id, now, by)
        self._learn(cell.jobs, live)
        asked = 0
        for job_id, job in live.items():
            _, rules = self._rules[job_id]
            if rules is None:
                continue
            requested = self._requested.setdefault(job_id, Counter())
            slow = (each for group in _copied(job) for each in _slow(cell, job, group, rules, now))
            originals = [each for each in slow if requested[each[1:]] < MOST_COPIES][:MOST_ASKED]
            if originals:
                total = sum(group.total for group in job.groups if not group.copies)
                budget = Budget(rules.budget(total), cell_budget(machines))
                added = cell.jobs.speculate(job_id, originals, budget, int(now * 1000), by)
                requested.update(each[1:] for each in added)
                asked += len(added)
        return asked

    def _learn(self, jobs: Jobs, live: Mapping[str, Job]) -> None:
        """Read the rules of jobs that are new here or that a user changed, and forget other jobs."""
        self._rules = {job_id: rules for job_id, rules in self._rules.items() if job_id in live}
        self._requested = {job_id: runs for job_id, runs in self._requested.items() if job_id in live}
        new = [job_id for job_id, job in live.items() if self._rules.get(job_id, (-1,))[0] != job.modified]
        for job_id, spec in (jobs.specs(new) if new else {}).items():
            self._rules[job_id] = live[job_id].modified, Speculation.of(spec)


def _leave(jobs: Jobs, job_id: str, now: float, by: str) -> None:
    """Remove a job from the list of those whose tasks may have copies, if it ended."""
    jobs.speculate(job_id, [], Budget(0, 0), int(now * 1000), by)


def _copied(job: Job) -> Iterator[int]:
    """Yield the groups that have a group for copies and running tasks."""
    for number, group in enumerate(job.groups[1:]):
        if group.copies and job.groups[number].placed > group.total:
            yield number


def _slow(cell: Cell, job: Job, number: int, rules: Speculation, now: float) -> Iterator[Original]:
    """Yield the slow tasks of a group without a copy by their results, first those that run on the longest."""
    copied = {task for loss in job.groups[number + 1].losses for task in ranges.indices(loss.tasks)}
    began: dict[tuple[int, int], float] = {}
    finished: list[float] = []
    for task, result in _results(cell.digest, job, number):
        start, end = result.times
        if result.state == FINISHED:
            finished.append((end - start) / 1000)
        elif result.state == RUNNING:
            began[result.machine, task] = now - start / 1000
    parts = _progress(cell, job.id, number, {machine for machine, _ in began})
    running = [Running(elapsed, where, parts.get(where)) for where, elapsed in began.items()]
    slow = [each.task for each in rules.slow(running, finished, job.groups[number].total) if each.task[1] not in copied]
    slow = slow[:MOST_ASKED]
    runs = cell.machines.runs(sorted({machine for machine, _ in slow}))
    placed = {
        (run.machine, task): run.placement
        for run in runs if run.job == job.id and run.group == number and not run.leaving
        for task in ranges.indices(run.tasks)
    }  # fmt: skip
    for machine, task in slow:
        if (machine, task) in placed:
            yield Original(machine, placed[machine, task], task)


def _progress(cell: Cell, job_id: str, number: int, machines: set[int]) -> dict[tuple[int, int], float]:
    """Return the part that tasks of a group have done, by machine and task, also of those that began as copies."""
    known = cell.tasks.reported_progress(job_id, sorted(machines)) if machines else {}
    return {
        (machine, task): percent / 100
        for machine, tasks in known.items() for group, task, percent in tasks if group in (number, number + 1)
    }  # fmt: skip


def _results(digest: Digest, job: Job, number: int) -> Iterator[tuple[int, TaskResult]]:
    listed: dict[int, set[int]] = readable(listed_chunks, digest.result_records([job.id]).get(job.id, b""), {})
    chunks = {field_of(job.id, number, chunk): chunk for chunk in sorted(listed.get(number, ()))[:MOST_CHUNKS]}
    for name, record in digest.result_records(list(chunks)).items():
        results: list[TaskResult] = readable(lambda text: unpack_results(text, job.submitted_ms), record, [])
        yield from enumerate(results, chunks[name] * CHUNK)
