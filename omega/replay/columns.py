"""The placements of a replay in columns, with the needs of their tasks, and what became of each job."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.task_ends import EndKind
from omega.replay.machines import SECOND, Machines, machines_of
from omega.simulation.records import RUNNING, TaskRecords
from omega.workload.workload import JobEvent, Microseconds, Workload

_GROUP_BITS, _TASK_BITS = 10, 24
"""A job has at most 500 groups, which are fewer than 2^10."""
NEVER = -1
"""In columns of times: it did not happen."""


class State(IntEnum):
    """State of a job at the end of the run; `ABSENT`: it would have arrived later."""

    PENDING = 0
    RUNNING = 1
    FINISHED = 2
    FAILED = 3
    STOPPED = 4
    ABANDONED = 5
    HELD = 6
    ABSENT = 7


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Jobs:
    """Outcomes of jobs, an entry for each job of the records. Times are microseconds; -1: it did not happen."""

    submitted: Microseconds
    resident: NDArray[np.bool_]
    first_start: Microseconds
    """Start of its first task."""
    end: Microseconds
    """End of its last task, of a finished job."""
    tasks: NDArray[np.int64]
    started: NDArray[np.int64]
    """Tasks that were placed at least once."""
    finished: NDArray[np.int64]
    """Tasks that finished."""
    evicted: NDArray[np.int64]
    """Placements that ended by eviction."""
    lost: NDArray[np.int64]
    """Placements that ended with their machine."""
    state: NDArray[np.int8]
    """Values of `State`."""


@dataclass(frozen=True, eq=False, slots=True)
class Columns:
    """A run in columns: `records` with what else is needed of each placement, one row each."""

    workload: Workload
    records: TaskRecords
    horizon: int
    """Length of the run (µs)."""
    machines: Machines
    until: Microseconds
    """End of the placement; the end of the run when the task still ran then."""
    need: NDArray[np.int64]
    """Request of one task, a column for each dimension."""
    task: NDArray[np.int64]
    """Number of the task: equal for the placements of one task."""
    attempt: NDArray[np.int64]
    """Earlier placements of the same task."""
    jobs: Jobs

    @property
    def last(self) -> NDArray[np.bool_]:
        """Return whether each placement is the last one of its task."""
        rows = len(self.task)
        last = np.zeros(rows, np.bool_)
        last[rows - 1 - np.unique(self.task[::-1], return_index=True)[1]] = True
        return last


def columns_of(workload: Workload, records: TaskRecords, horizon: int) -> Columns:
    """Return the columns of a run of `horizon` microseconds."""
    until = np.where(records.ended < 0, horizon, records.ended)
    counts = np.array([len(each.job.groups) for each in records.jobs], np.int64)
    first = np.concatenate(([0], np.cumsum(counts)))[:-1]
    needs = np.array([group.need for each in records.jobs for group in each.job.groups], np.int64)
    needs = needs.reshape(-1, len(workload.dimensions))
    need = needs[first[records.job] + records.group] if len(records.job) else needs[:0]
    key = (records.job.astype(np.int64) << (_GROUP_BITS + _TASK_BITS)) | (
        records.group.astype(np.int64) << _TASK_BITS
    ) | records.task  # fmt: skip
    task = np.unique(key, return_inverse=True)[1].reshape(-1).astype(np.int64)
    jobs = _jobs(workload, records, task, horizon)
    machines = machines_of(workload, horizon)
    return Columns(workload, records, horizon, machines, until, need, task, _attempts(task), jobs)


def _attempts(task: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each row how many rows before it are of the same task."""
    order = np.argsort(task, kind="stable")
    sizes = np.bincount(task) if len(task) else np.zeros(0, np.int64)
    within = np.arange(len(task)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    attempts = np.empty(len(task), np.int64)
    attempts[order] = within
    return attempts


def _jobs(workload: Workload, records: TaskRecords, task: NDArray[np.int64], horizon: int) -> Jobs:
    count, residents = len(records.jobs), len(workload.residents)
    submitted = np.rint(np.array([each.at_seconds for each in records.jobs]) * SECOND).astype(np.int64)
    tasks = np.array([each.job.total for each in records.jobs], np.int64)
    resident = np.arange(count) < residents

    def rows(which: NDArray[np.bool_]) -> NDArray[np.int64]:
        return np.bincount(records.job[which], minlength=count)

    def of_tasks(which: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Count tasks, not placements."""
        at = np.unique(task[which], return_index=True)[1]
        return np.bincount(records.job[which][at], minlength=count)

    started, finished = of_tasks(np.ones(len(task), np.bool_)), of_tasks(records.how == EndKind.FINISHED)
    first_start = np.full(count, NEVER, np.int64)
    job, at = np.unique(records.job, return_index=True)  # rows are in order of start
    first_start[job] = records.started[at]
    end = np.full(count, NEVER, np.int64)
    np.maximum.at(end, records.job, records.ended)
    state = np.where(rows(records.how == RUNNING) > 0, State.RUNNING, State.PENDING).astype(np.int8)
    state[_over(records, task, tasks)] = State.FAILED
    state[(finished >= tasks) & (tasks > 0)] = State.FINISHED
    for place, what in _last_changes(workload, records, horizon).items():
        if state[place] not in (State.FINISHED, State.FAILED) and what in _CHANGED:
            state[place] = _CHANGED[what] if what == "stop" or state[place] == State.PENDING else state[place]
    state[records.abandoned >= 0] = State.ABANDONED
    state[submitted >= horizon] = State.ABSENT
    end[state != State.FINISHED] = NEVER
    return Jobs(
        submitted=submitted, resident=resident, first_start=first_start, end=end, tasks=tasks, started=started,
        finished=finished, evicted=rows(records.how == EndKind.EVICTED), lost=rows(records.how == EndKind.LOST),
        state=state,
    )  # fmt: skip


_CHANGED = {"stop": State.STOPPED, "hold": State.HELD}


def _over(records: TaskRecords, task: NDArray[np.int64], tasks: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return the jobs of which every task ended for good, at least one of them by failing."""
    at = np.unique(task[::-1], return_index=True)[1]
    job, how = records.job[::-1][at], records.how[::-1][at]
    ended = np.bincount(job[(how == EndKind.FINISHED) | (how == EndKind.FAILED)], minlength=len(tasks))
    failed = np.bincount(job[how == EndKind.FAILED], minlength=len(tasks))
    return (ended >= tasks) & (failed > 0)


def _last_changes(workload: Workload, records: TaskRecords, horizon: int) -> dict[int, str]:
    """Return the last change of each job that a person changed before the end of the run, by the job's place."""
    changes = [each for each in workload.events if isinstance(each, JobEvent) and each.at_seconds * SECOND < horizon]
    if not changes:
        return {}
    places = {each.job.id: place for place, each in enumerate(records.jobs)}
    return {places[each.job]: each.what for each in changes if each.job in places}
