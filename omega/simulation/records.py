"""What happened to each task of a run, in columns."""

from array import array
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from omega.cellstate import ranges
from omega.cellstate.model import Job, Run
from omega.cellstate.override import override
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Placed
from omega.schedulers.instruments import Instrument
from omega.schedulers.work import Work
from omega.workload.workload import Arrival, Microseconds

T = TypeVar("T", bound="np.integer[Any]")
RUNNING = -1
"""In `how`: the task still ran at the end of the run."""


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class TaskRecords:
    """Placements of tasks, one row each, in order of start.

    `jobs` are the residents and then the arrivals of the workload; `first_attempt` and `abandoned` have an entry for
    each of them: when its first attempt began (µs, -1: never; residents: 0), and when it was abandoned (µs, -1: not).
    A task that was evicted or lost and placed again has several rows. Times are microseconds since the beginning.
    """

    jobs: Sequence[Arrival]
    first_attempt: Microseconds
    abandoned: Microseconds
    job: NDArray[np.int32]
    """Place in `jobs`."""
    group: NDArray[np.int32]
    task: NDArray[np.int32]
    """Index of the task in its group."""
    machine: NDArray[np.int32]
    """Place in `Workload.machines`, or after them in order of arrival."""
    started: Microseconds
    ended: Microseconds
    """-1: it still ran at the end of the run."""
    how: NDArray[np.int8]
    """Value of `EndKind`, or `RUNNING`."""


@dataclass(eq=False, slots=True, kw_only=True)
class Recorder(Instrument):
    """Collects what happens to tasks and jobs during a run; times are microseconds.

    A row is a task of a placement, in columns: 37 bytes. Placements are numbered in the order of their starts.
    """

    first: dict[str, float] = field(default_factory=dict)
    """By job: when its first attempt began (seconds)."""
    given_up: dict[str, float] = field(default_factory=dict)
    _numbers: dict[str, int] = field(default_factory=dict)
    """By job: its number here, in the order of first starts."""
    _job: "array[int]" = field(default_factory=lambda: array("i"))
    _group: "array[int]" = field(default_factory=lambda: array("i"))
    _task: "array[int]" = field(default_factory=lambda: array("i"))
    _machine: "array[int]" = field(default_factory=lambda: array("i"))
    _started: "array[int]" = field(default_factory=lambda: array("q"))
    _ended: "array[int]" = field(default_factory=lambda: array("q"))
    _how: "array[int]" = field(default_factory=lambda: array("b"))
    _rows: "array[int]" = field(default_factory=lambda: array("i"))
    """By placement: its first row."""

    # Tasks

    def started(self, job: Job, placed: Placed, tasks: Sequence[int], now: int) -> None:
        """Record new placements of these tasks of a group."""
        machines, counts, rows, total = placed.machines, placed.counts, self._rows, len(tasks)
        at = len(self._job)
        for placement, count in zip(placed.placements, counts or repeat(1), strict=False):
            rows.extend([at] * (placement + 1 - len(rows)))  # numbers between belong to no task that was recorded
            at += count
        if counts is not None:
            machines = [machine for machine, count in zip(machines, counts, strict=True) for _ in range(count)]
        number = self._numbers.setdefault(job.id, len(self._numbers))
        self._job.extend([number] * total)
        self._group.extend([placed.group] * total)
        self._task.extend(tasks)
        self._machine.extend(machines)
        self._started.extend([now] * total)
        self._ended.extend([-1] * total)
        self._how.extend([RUNNING] * total)

    def ended(self, runs: Iterable[Placed | TaskEnd], now: int) -> None:
        """Record ends that executors report; of a task that lost its place before, that stands."""
        for run in runs:
            if not isinstance(run, TaskEnd):
                for placement in run.placements:
                    self._end(self._of(placement), EndKind.FINISHED, now)
            elif run.tasks == "*":
                self._end(self._of(run.placement), run.how, now)
            else:
                self._end(self._of(run.placement, set(ranges.indices(run.tasks))), run.how, now)

    def lost(self, runs: Iterable[Run], how: EndKind, now: int) -> None:
        """Record tasks that lose their places."""
        for run in runs:
            for row in self._of(run.placement, set(ranges.indices(run.tasks))):
                self._ended[row], self._how[row] = now, how

    def _of(self, placement: int, tasks: Collection[int] | None = None) -> Sequence[int]:
        """Return the rows of a placement, or of these tasks of it."""
        rows, last = self._rows, placement + 1 == len(self._rows)
        every = range(rows[placement], len(self._job) if last else rows[placement + 1])
        return every if tasks is None else [row for row in every if self._task[row] in tasks]

    def _end(self, rows: Iterable[int], how: EndKind, now: int) -> None:
        """Record that tasks ended which run."""
        for row in rows:
            if self._how[row] == RUNNING:
                self._ended[row], self._how[row] = now, how

    # Jobs

    @override
    def began(self, work: Work, now: float, waited: float) -> None:
        self.first.setdefault(work.id, now)

    @override
    def abandoned(self, work: Work, now: float) -> None:
        self.given_up[work.id] = now

    # The records

    def records(self, residents: Sequence[Arrival], arrivals: Sequence[Arrival]) -> TaskRecords:
        """Return all records, of a run of a workload with these jobs."""
        jobs = [*residents, *arrivals]
        places = {each.job.id: place for place, each in enumerate(jobs)}
        of_number = np.array([places[job] for job in self._numbers], dtype=np.int32)
        first = {**{each.job.id: 0.0 for each in residents}, **self.first}
        return TaskRecords(
            jobs=jobs, first_attempt=_times(jobs, first), abandoned=_times(jobs, self.given_up),
            job=of_number[_column(self._job, np.int32)], group=_column(self._group, np.int32),
            task=_column(self._task, np.int32), machine=_column(self._machine, np.int32),
            started=_column(self._started, np.int64), ended=_column(self._ended, np.int64),
            how=_column(self._how, np.int8),
        )  # fmt: skip


def _column(values: "array[int]", kind: type[T]) -> NDArray[T]:
    """Return a column without copying it."""
    return np.frombuffer(values, dtype=kind) if values else np.empty(0, dtype=kind)


def _times(jobs: Sequence[Arrival], seconds: dict[str, float]) -> Microseconds:
    return np.array([round(seconds.get(each.job.id, -1e-6) * 1e6) for each in jobs], dtype=np.int64)
