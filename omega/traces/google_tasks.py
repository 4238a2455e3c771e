"""What happened to each task of Google's 2011 trace, in columns: its state when the window begins, and its run.

Only the first run that finished, failed or was killed counts: evicted and lost runs start again from nothing, and a run
after a failure is the same work again.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from omega.traces.csv_blocks import Bools, Floats, Ints
from omega.traces.google_events import (
    EVICT,
    FAIL,
    FINISH,
    KILL,
    LOST,
    SCHEDULE,
    SUBMIT,
    UPDATE_RUNNING,
    Jobs,
    TaskEvents,
)  # fmt: skip
from omega.traces.trace import Defects

ARRIVES, RUNS, WAITS, GONE = range(4)
"""States of a task when the window begins: not yet submitted, running, pending, ended for good."""
NO_SUBMISSION, EARLY_SCHEDULE, NO_RUN, ONLY_END = "no-submission", "early-schedule", "no-run", "only-end"


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Tasks:
    """Tasks in order of job and index, one entry each; times are microseconds since the window's beginning."""

    job: NDArray[np.int32]
    index: NDArray[np.int32]
    state: NDArray[np.int8]
    submitted: Ints
    """-1: before the window."""
    machine: Ints
    """Number of the machine of a running task; -1: none."""
    priority: NDArray[np.int32]
    scheduling_class: NDArray[np.int8]
    cpu: Floats
    """Request when the window begins, or at the submission; of the largest machine, as the following ones."""
    memory: Floats
    first_cpu: Floats
    """Request of the task's first row."""
    first_memory: Floats
    apart: Bools
    ran: Ints
    """Length of the run that counts, from the beginning for running tasks; -1: not seen to end."""
    seen: Ints
    """Length of the longest other run; 0: none was seen."""
    waited: Ints
    """From the submission to the first start; -1: unknown."""


@dataclass(frozen=True, slots=True)
class Window:
    """The period of the parts that are read, on the trace's clock."""

    begin_us: int
    end_us: int
    snapshot: bool
    """Whether rows dated before the beginning list what was there, as in the first part."""


def tasks_of(events: TaskEvents, jobs: Jobs, window: Window, defects: Defects) -> Tasks:
    """Return the tasks of events that are in order of time."""
    key = (events.job.astype(np.int64) << 24) | events.index
    order = np.argsort(key, kind="stable")
    grouped = key[order]
    first = np.flatnonzero(np.diff(grouped, prepend=-1))
    head = order[first]
    rows = _Rows(events, order, first, np.repeat(np.arange(len(first)), np.diff(first, append=len(order))))
    state, deciding = _states(rows, window)
    machine = events.machine[deciding]
    submitted, missing = _submissions(rows, state, jobs, window, defects)
    ran, seen, waited = _runs(rows, state, np.where(missing, machine, -1), submitted, window, defects)
    shifted = np.where(state == ARRIVES, submitted - window.begin_us, -1)
    return Tasks(
        job=events.job[head], index=events.index[head], state=state,
        submitted=np.where(state == ARRIVES, np.maximum(shifted, 0), -1),
        machine=np.where(state == RUNS, machine, -1),
        priority=events.priority[head], scheduling_class=events.scheduling_class[head],
        cpu=events.cpu[deciding], memory=events.memory[deciding],
        first_cpu=events.cpu[head], first_memory=events.memory[head],
        apart=events.apart[head], ran=ran, seen=seen, waited=waited,
    )  # fmt: skip


@dataclass(frozen=True, eq=False, slots=True)
class _Rows:
    """Events in order of task and time: `order` are their places, `first` the place of each task's first in it."""

    events: TaskEvents
    order: Ints
    first: Ints
    task: Ints

    @property
    def event(self) -> NDArray[np.int8]:
        """Return the events in this order."""
        return self.events.event[self.order]

    @property
    def time(self) -> Ints:
        """Return the times in this order."""
        return self.events.time[self.order]

    @property
    def count(self) -> int:
        """Number of tasks."""
        return len(self.first)


def _states(rows: _Rows, window: Window) -> tuple[NDArray[np.int8], Ints]:
    """Return the state of each task when the window begins, and the place of the event that decides it.

    The last row before the beginning decides; without one, what the first row shows: a task that ends on a machine was
    running, one that starts was pending.
    """
    event, time, first = rows.event, rows.time, rows.first
    before = np.add.reduceat((time < window.begin_us).astype(np.int64), first) if rows.count else first
    at = first + np.maximum(before - 1, 0)
    deciding = rows.order[at]
    what, machine = event[at], rows.events.machine[deciding]
    ends = (what >= EVICT) & (what <= LOST)
    follows = np.minimum(first + 1, max(len(event) - 1, 0))
    swapped = (what == SCHEDULE) & (event[follows] == SUBMIT) & (rows.task[follows] == np.arange(rows.count))
    old = np.select(
        [(what == SCHEDULE) | (what == UPDATE_RUNNING), ends], [np.int8(RUNS), np.int8(GONE)], np.int8(WAITS)
    )
    new = np.select(
        [(what == SUBMIT) | swapped, (what == UPDATE_RUNNING) | (ends & (machine >= 0))],
        [np.int8(ARRIVES), np.int8(RUNS)],
        np.int8(WAITS),
    )
    return np.where(before > 0, old, new).astype(np.int8), deciding


def _submissions(
    rows: _Rows, state: NDArray[np.int8], jobs: Jobs, window: Window, defects: Defects
) -> tuple[Ints, Bools]:
    """Return when each task that arrives is submitted, on the trace's clock, and which have no row of that.

    Changes `state` of those. A task without a submission arrives with its job. If its job was there before, so was the
    task, but not in the first part, whose snapshot has every earlier task: there it arrives with its first row, unless
    that is its end.
    """
    event, time, first, events = rows.event, rows.time, rows.first, rows.events
    late = np.flatnonzero((event == SUBMIT) & (time >= window.begin_us))
    submitted = np.full(rows.count, -1, dtype=np.int64)
    submitted[rows.task[late[::-1]]] = time[late[::-1]]  # the first one of each task is written last
    job = events.job[rows.order[first]]
    begins = np.where(jobs.submitted >= window.begin_us, jobs.submitted, -1)
    _without_job_rows(jobs, job, state, submitted, begins)
    seen = time[first] >= window.begin_us
    arrives = seen & (state != ARRIVES) & (state != GONE) & ((begins[job] >= 0) | window.snapshot)
    submitted[arrives] = np.where(begins[job] >= 0, begins[job], time[first])[arrives]
    state[arrives] = ARRIVES
    lost = arrives & (begins[job] < 0) & (event[first] >= EVICT) & (event[first] <= LOST)
    state[lost], arrives = GONE, arrives & ~lost
    defects.add(NO_SUBMISSION, int(arrives.sum()))
    again = (state == GONE) & (submitted >= 0) & ~lost
    state[again] = ARRIVES
    defects.add(ONLY_END, int(lost.sum()))
    defects.add(EARLY_SCHEDULE, int(((state == ARRIVES) & (event[first] == SCHEDULE) & ~arrives & ~again).sum()))
    return submitted, arrives


def _without_job_rows(
    jobs: Jobs, job: NDArray[np.int32], state: NDArray[np.int8], submitted: Ints, begins: Ints
) -> None:
    """Let jobs without a row in job_events begin with their first task, if all of its known tasks arrive."""
    unknown = jobs.submitted < 0
    if not unknown.any():
        return
    earliest = np.full(len(unknown), np.iinfo(np.int64).max)
    arrives = state == ARRIVES
    np.minimum.at(earliest, job[arrives], submitted[arrives])
    lives = np.zeros(len(unknown), dtype=bool)
    lives[job[state == RUNS]] = True
    begins[unknown] = np.where((earliest < np.iinfo(np.int64).max) & ~lives, earliest, -1)[unknown]


def _runs(
    rows: _Rows, state: NDArray[np.int8], machine: Ints, submitted: Ints, window: Window, defects: Defects
) -> tuple[Ints, Ints, Ints]:
    """Return the length of each task's run that counts, of its longest other run, and its wait.

    `machine`: of the first row of a task without a submission; if that row is an end, it ran from its arrival on.
    """
    kinds = rows.event
    chosen = np.flatnonzero((kinds >= SCHEDULE) & (kinds <= LOST))
    event, task = kinds[chosen], rows.task[chosen]
    time = np.maximum(rows.time[chosen], window.begin_us)
    leads = np.diff(task, prepend=-1) != 0
    head = kinds[rows.first]
    ended = (state == ARRIVES) & (machine >= 0) & (head >= EVICT) & (head <= LOST)
    runs_on = np.where(state == RUNS, window.begin_us, np.where(ended, submitted, -1))
    start = np.where(~leads & (np.roll(event, 1) == SCHEDULE), np.roll(time, 1), -1)
    start = np.where(leads & (event != SCHEDULE), runs_on[task], start)
    ends = (event != SCHEDULE) & (start >= 0)
    length = np.where(ends, np.maximum(time - start, 0), 0)
    counts = np.flatnonzero(ends & (event >= FAIL) & (event <= KILL))
    ran = np.full(rows.count, -1, dtype=np.int64)
    ran[task[counts[::-1]]] = length[counts[::-1]]
    seen = np.zeros(rows.count, dtype=np.int64)
    np.maximum.at(seen, task[ends], length[ends])
    last = np.diff(task, append=-1) != 0
    opened = last & (event == SCHEDULE)
    np.maximum.at(seen, task[opened], window.end_us - time[opened])
    silent = np.ones(rows.count, dtype=bool)
    silent[task] = False
    seen[silent & (state == RUNS)] = window.end_us - window.begin_us
    waited = np.full(rows.count, -1, dtype=np.int64)
    starts = np.flatnonzero(event == SCHEDULE)[::-1]
    waited[task[starts]] = time[starts] - submitted[task[starts]]
    waited[(state != ARRIVES) | (waited < 0)] = -1
    defects.add(NO_RUN, int((leads & (event == FINISH) & (start < 0) & (state[task] != GONE)).sum()))
    return ran, seen, waited
