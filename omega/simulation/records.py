"""What happened to each task of a run, in columns."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from omega.cellstate import ranges
from omega.cellstate.model import Job, Run
from omega.cellstate.override import override
from omega.cellstate.task_ends import EndKind, TaskEnd
from omega.cellstate.transaction import Placed
from omega.schedulers.instruments import Instrument
from omega.schedulers.work import Work
from omega.simulation.simple_jobs import SimpleJob
from omega.workload.workload import Arrival, Microseconds

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


Started = tuple[str, int, Sequence[int], Sequence[int], Sequence[int], Sequence[int] | None, int]
"""Job, group, tasks, machines, placements, tasks of each placement, time."""
ALL = -1


@dataclass(eq=False, slots=True)
class Recorder(Instrument):
    """Collects what happens to tasks and jobs during a run; times are microseconds."""

    starts: list[Started] = field(default_factory=list)
    ends: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    """By placement and task (`ALL` of them): when it ended, and how."""
    first: dict[str, float] = field(default_factory=dict)
    """By job: when its first attempt began (seconds)."""
    given_up: dict[str, float] = field(default_factory=dict)

    # Tasks

    def started(self, job: Job, placed: Placed | SimpleJob, tasks: Sequence[int], now: int) -> None:
        """Record new placements of these tasks of a group."""
        where = placed.machines, placed.placements, placed.counts
        self.starts.append((job.id, placed.group, tasks, *where, now))

    def ended(self, runs: Iterable[Placed | SimpleJob | TaskEnd], now: int) -> None:
        """Record ends that executors report; of a task that lost its place before, that stands."""
        for run in runs:
            if not isinstance(run, TaskEnd):
                self.ends.update(((placement, ALL), (now, EndKind.FINISHED)) for placement in run.placements)
            elif run.tasks == "*":
                self.ends.setdefault((run.placement, ALL), (now, run.how))
            else:
                for task in ranges.indices(run.tasks):
                    self.ends.setdefault((run.placement, task), (now, run.how))

    def lost(self, runs: Iterable[Run], how: EndKind, now: int) -> None:
        """Record tasks that lose their places."""
        for run in runs:
            self.ends.update(((run.placement, task), (now, how)) for task in ranges.indices(run.tasks))

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
        rows = [
            (places[job], group, task, machine, now, *self._end_of(placement, task))
            for job, group, tasks, machines, placements, counts, now in self.starts
            for task, machine, placement in zip(tasks, *_each(machines, placements, counts), strict=True)
        ]
        columns = np.array(rows, dtype=np.int64).reshape(-1, 7).T
        job, group, task, machine, started, ended, how = columns
        first = {**{each.job.id: 0.0 for each in residents}, **self.first}
        narrow = {"job": job, "group": group, "task": task, "machine": machine}
        return TaskRecords(
            jobs=jobs, first_attempt=_times(jobs, first), abandoned=_times(jobs, self.given_up),
            started=started.copy(), ended=ended.copy(), how=how.astype(np.int8),
            **{name: column.astype(np.int32) for name, column in narrow.items()},
        )  # fmt: skip

    def _end_of(self, placement: int, task: int) -> tuple[int, int]:
        return self.ends.get((placement, task)) or self.ends.get((placement, ALL)) or (-1, RUNNING)


def _each(
    machines: Sequence[int], placements: Sequence[int], counts: Sequence[int] | None
) -> tuple[Sequence[int], Sequence[int]]:
    """Return machine and placement of each task."""
    if counts is None:
        return machines, placements
    return (
        [machine for machine, count in zip(machines, counts, strict=True) for _ in repeat(None, count)],
        [placement for placement, count in zip(placements, counts, strict=True) for _ in repeat(None, count)],
    )


def _times(jobs: Sequence[Arrival], seconds: dict[str, float]) -> Microseconds:
    return np.array([round(seconds.get(each.job.id, -1e-6) * 1e6) for each in jobs], dtype=np.int64)
