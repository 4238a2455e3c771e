"""The placements of a replay in columns, with the needs of their tasks, and what became of each job."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.tasks import EndKind
from omega.replay.machines import SECOND, Machines, machines_of
from omega.simulation.records import RUNNING, TaskRecords
from omega.workload.workload import JobEvent, Microseconds, Workload

_GROUP_BITS, _TASK_BITS = 10, 24
"""A job has at most 500 groups, which are fewer than 2^10."""
BLOCK = 1 << 16
"""Placements in a block."""
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
class Block:
    """Neighbouring placements, with what is derived for them."""

    job: NDArray[np.int32]
    machine: NDArray[np.int32]
    started: Microseconds
    until: Microseconds
    """End of the placement; the end of the run when the task still ran then."""
    need: NDArray[np.int64]
    """Request of one task, a column for each dimension."""
    how: NDArray[np.int8]


@dataclass(frozen=True, eq=False, slots=True)
class Repeats:
    """The placements of the tasks that were placed more than once, in order of start: mostly none."""

    row: NDArray[np.int64]
    attempt: NDArray[np.int64]
    """Earlier placements of the same task."""
    before: NDArray[np.int64]
    """Row of the placement before of the same task; -1: none."""
    last: NDArray[np.bool_]
    """Whether it is the last one of its task."""


@dataclass(frozen=True, eq=False, slots=True)
class Columns:
    """A run in columns: `records`, a row for each placement.

    What else is needed of a placement is derived, block by block: a run of many tasks has no further column of them.
    """

    workload: Workload
    records: TaskRecords
    horizon: int
    """Length of the run (µs)."""
    machines: Machines
    needs: NDArray[np.int64]
    """Request of one task of each group of each job, a column for each dimension."""
    first: NDArray[np.int64]
    """Where the groups of each job begin in `needs`."""
    repeats: Repeats
    jobs: Jobs

    def __len__(self) -> int:
        """Return the number of placements."""
        return len(self.records.job)

    def blocks(self) -> Iterator[Block]:
        """Yield the placements in blocks."""
        records = self.records
        for begin in range(0, len(self), BLOCK):
            which = slice(begin, begin + BLOCK)
            job, ended = records.job[which], records.ended[which]
            yield Block(
                job, records.machine[which], records.started[which], np.where(ended < 0, self.horizon, ended),
                self.needs[self.first[job] + records.group[which]], records.how[which],
            )  # fmt: skip

    @property
    def until(self) -> Microseconds:
        """Make the column of the ends of all placements, as in `Block`."""
        return np.where(self.records.ended < 0, self.horizon, self.records.ended)

    @property
    def need(self) -> NDArray[np.int64]:
        """Make the columns of the requests of all placements."""
        group: NDArray[np.int64] = self.first[self.records.job] + self.records.group
        return np.take(self.needs, group, axis=0)

    @property
    def attempt(self) -> NDArray[np.int64]:
        """Make the column of the numbers of earlier placements of the same task."""
        attempt = np.zeros(len(self), np.int64)
        attempt[self.repeats.row] = self.repeats.attempt
        return attempt


def columns_of(workload: Workload, records: TaskRecords, horizon: int) -> Columns:
    """Return the columns of a run of `horizon` microseconds."""
    counts = np.array([len(each.job.groups) for each in records.jobs], np.int64)
    first = np.concatenate(([0], np.cumsum(counts)))[:-1]
    needs = np.array([group.need for each in records.jobs for group in each.job.groups], np.int64)
    needs = needs.reshape(-1, len(workload.dimensions))
    repeats = _repeats(records)
    jobs = _jobs(workload, records, repeats, horizon)
    return Columns(workload, records, horizon, machines_of(workload, horizon), needs, first, repeats, jobs)


def _repeats(records: TaskRecords) -> Repeats:
    """Find the tasks with several placements: of a job without an end after which a task is placed again, none."""
    again = np.zeros(len(records.jobs), np.bool_)
    for begin in range(0, len(records.job), BLOCK):
        which = slice(begin, begin + BLOCK)
        again[records.job[which][records.how[which] > EndKind.FAILED]] = True
    if not again.any():
        none = np.zeros(0, np.int64)
        return Repeats(none, none, none, np.zeros(0, np.bool_))
    rows = np.flatnonzero(again[records.job])
    key = (records.job[rows].astype(np.int64) << (_GROUP_BITS + _TASK_BITS)) | (
        records.group[rows].astype(np.int64) << _TASK_BITS
    ) | records.task[rows]  # fmt: skip
    order = np.argsort(key, kind="stable")
    rows, key = rows[order], key[order]
    begins = np.flatnonzero(np.diff(key, prepend=-1))
    sizes = np.diff(begins, append=len(key))
    attempt = np.arange(len(key)) - np.repeat(begins, sizes)
    before = np.where(attempt > 0, np.roll(rows, 1), -1)
    last = attempt == np.repeat(sizes, sizes) - 1
    kept = np.flatnonzero(np.repeat(sizes, sizes) > 1)
    kept = kept[np.argsort(rows[kept])]
    return Repeats(rows[kept], attempt[kept], before[kept], last[kept])


def _jobs(workload: Workload, records: TaskRecords, repeats: Repeats, horizon: int) -> Jobs:
    count, residents = len(records.jobs), len(workload.residents)
    submitted = np.rint(np.array([each.at_seconds for each in records.jobs]) * SECOND).astype(np.int64)
    tasks = np.array([each.job.total for each in records.jobs], np.int64)
    resident = np.arange(count) < residents
    first_start, end = np.full(count, NEVER, np.int64), np.full(count, NEVER, np.int64)
    started = np.zeros(count, np.int64)
    of = {how: np.zeros(count, np.int64) for how in _COUNTED}
    """Placements that ended so, by job."""
    for begin in range(0, len(records.job), BLOCK):
        which = slice(begin, begin + BLOCK)
        job, hows = records.job[which], records.how[which]
        np.add.at(started, job, 1)
        for how, ended in of.items():
            np.add.at(ended, job[hows == how], 1)
        np.maximum.at(end, job, records.ended[which])
        found, at = np.unique(job, return_index=True)  # rows are in order of start
        new = first_start[found] < 0
        first_start[found[new]] = records.started[which][at[new]]
    # Of a task, only its last placement counts.
    earlier = repeats.row[~repeats.last]
    np.subtract.at(started, records.job[earlier], 1)
    for how in (EndKind.FINISHED, EndKind.FAILED):
        np.subtract.at(of[how], records.job[earlier[records.how[earlier] == how]], 1)
    finished, failed = of[EndKind.FINISHED], of[EndKind.FAILED]
    state = np.where(of[RUNNING] > 0, State.RUNNING, State.PENDING).astype(np.int8)
    state[(finished + failed >= tasks) & (failed > 0)] = State.FAILED
    state[(finished >= tasks) & (tasks > 0)] = State.FINISHED
    for place, what in _last_changes(workload, records, horizon).items():
        if state[place] not in (State.FINISHED, State.FAILED) and what in _CHANGED:
            state[place] = _CHANGED[what] if what == "stop" or state[place] == State.PENDING else state[place]
    state[records.abandoned >= 0] = State.ABANDONED
    state[submitted >= horizon] = State.ABSENT
    end[state != State.FINISHED] = NEVER
    return Jobs(
        submitted=submitted, resident=resident, first_start=first_start, end=end, tasks=tasks, started=started,
        finished=finished, evicted=of[EndKind.EVICTED], lost=of[EndKind.LOST], state=state,
    )  # fmt: skip


_COUNTED = (RUNNING, EndKind.FINISHED, EndKind.FAILED, EndKind.EVICTED, EndKind.LOST)
_CHANGED = {"stop": State.STOPPED, "hold": State.HELD}


def _last_changes(workload: Workload, records: TaskRecords, horizon: int) -> dict[int, str]:
    """Return the last change of each job that a person changed before the end of the run, by the job's place."""
    changes = [each for each in workload.events if isinstance(each, JobEvent) and each.at_seconds * SECOND < horizon]
    if not changes:
        return {}
    places = {each.job.id: place for place, each in enumerate(records.jobs)}
    return {places[each.job]: each.what for each in changes if each.job in places}
