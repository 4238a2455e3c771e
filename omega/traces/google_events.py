"""Rows of Google's 2011 trace in columns: events of tasks, submissions of jobs, events of machines.

Times in the files are microseconds. Events before the trace begins are dated 0, events after its end 2^63 - 1; the
trace itself begins at 600 s. Columns are those of the trace's own schema.csv.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from omega.traces.csv_blocks import Block, Bools, Floats, Ints, settled
from omega.traces.google_parts import table_blocks
from omega.traces.trace import Defects

START_US = 600_000_000
"""When the trace begins on its own clock."""
NEVER_US = 2**63 - 1
"""Time of events after the end of the trace."""
SUBMIT, SCHEDULE, EVICT, FAIL, FINISH, KILL, LOST, UPDATE_PENDING, UPDATE_RUNNING = range(9)
ADD, REMOVE, UPDATE = range(3)
MOST_INDEX = 2**24 - 1
"""Largest index of a task in its job."""
AFTER_END, OUT_OF_ORDER, NO_PRIORITY, MISSING_INFO = "after-end", "out-of-order", "no-priority", "missing-info"

_TIME, _JOB = "a time in microseconds", "a job's number"
C = TypeVar("C")


@dataclass(frozen=True, eq=False, slots=True)
class TaskEvents:
    """Events of tasks in order of time, one entry each."""

    time: Ints
    job: NDArray[np.int32]
    """Place in `Jobs`."""
    index: NDArray[np.int32]
    event: NDArray[np.int8]
    machine: Ints
    """-1: none is named."""
    priority: NDArray[np.int32]
    scheduling_class: NDArray[np.int8]
    """-1: none is named."""
    cpu: Floats
    """Of the largest machine, as `memory`; NaN: none is named."""
    memory: Floats
    apart: Bools


@dataclass(frozen=True, eq=False, slots=True)
class Jobs:
    """Jobs, one entry each, in order of their first row."""

    number: Ints
    submitted: Ints
    """By job_events; -1: not there."""
    scheduling_class: NDArray[np.int8]
    """By job_events; -1: not there."""
    user: NDArray[np.str_]
    logical_name: NDArray[np.str_]


@dataclass(frozen=True, eq=False, slots=True)
class MachineEvents:
    """Events of machines in order of time, one entry each."""

    time: Ints
    machine: Ints
    event: NDArray[np.int8]
    platform: NDArray[np.str_]
    cpu: Floats
    memory: Floats


class JobTable:
    """Collects jobs while rows are read."""

    def __init__(self) -> None:
        self._places: dict[int, int] = {}
        self._rows: list[list[object]] = []

    def places(self, block: Block, numbers: Ints, user_column: int | None) -> NDArray[np.int32]:
        """Return the place of the job of each row; a job that is new gets the user of its first row, if it has one."""
        distinct, first, inverse = np.unique(numbers, return_index=True, return_inverse=True)
        found = np.empty(len(distinct), dtype=np.int32)
        for at, number in enumerate(distinct.tolist()):
            place = self._places.get(number)
            if place is None:
                place = self._places[number] = len(self._rows)
                user = "" if user_column is None else block.text(int(first[at]), user_column)
                self._rows.append([number, -1, -1, user, ""])
            found[at] = place
        return found[inverse.reshape(-1)]

    def submit(self, place: int, time: int, scheduling_class: int, user: str, logical_name: str) -> None:
        """Take a row of job_events: the first submission counts."""
        row = self._rows[place]
        if row[1] == -1:
            row[1:] = [time, scheduling_class, user or row[3], logical_name]

    def columns(self) -> Jobs:
        """Return all jobs."""
        number, submitted, classes, user, logical = zip(*self._rows, strict=True) if self._rows else ((),) * 5
        return Jobs(
            np.array(number, dtype=np.int64), np.array(submitted, dtype=np.int64), np.array(classes, dtype=np.int8),
            np.array(user, dtype=np.str_), np.array(logical, dtype=np.str_),
        )  # fmt: skip


def joined(kind: type[C], pieces: Sequence[C], order: Ints | None = None) -> C:
    """Return columns of pieces as one, in another order of rows if one is given."""
    names = [each.name for each in fields(kind)]  # type: ignore[arg-type]
    columns = (np.concatenate([getattr(piece, name) for piece in pieces]) for name in names)
    return kind(*(column if order is None else column[order] for column in columns))


def taken(columns: C, rows: Ints | Bools) -> C:
    """Return some rows of columns."""
    return type(columns)(**{each.name: getattr(columns, each.name)[rows] for each in fields(columns)})  # type: ignore[arg-type]


def in_time_order(kind: type[C], pieces: Sequence[C], defects: Defects, places: Iterable[str] = ()) -> C:
    """Return columns of pieces in order of time; rows that are earlier than the one before are counted."""
    whole = joined(kind, pieces)
    time = whole.time  # type: ignore[attr-defined]
    late = int((np.diff(time) < 0).sum())
    if not late:
        return whole
    defects.add(OUT_OF_ORDER, late, places)
    return taken(whole, np.argsort(time, kind="stable"))


def task_events(paths: Sequence[Path], jobs: JobTable, defects: Defects, *, skip: bool) -> Iterator[TaskEvents]:
    """Yield the rows of task_events, a block at a time."""
    for block in table_blocks(paths, "task_events", defects, skip=skip):
        time, number = block.naturals(0, _TIME), block.naturals(2, _JOB)
        index = block.naturals(3, "a task's index", most=MOST_INDEX)
        event = block.naturals(5, "an event of a task, 0 to 8", most=UPDATE_RUNNING)
        priority = block.naturals(8, "a priority", most=2**31 - 1, missing=-1)
        machine = block.naturals(4, "a machine's number", missing=-1)
        classes = block.naturals(7, "a scheduling class", most=100, missing=-1)
        missing = block.naturals(1, "a kind of missing info", missing=-1)
        cpu, memory = block.shares(9, "a share from 0 to 1"), block.shares(10, "a share from 0 to 1")
        rows = TaskEvents(
            time, jobs.places(block, number, 6), index.astype(np.int32), event.astype(np.int8), machine,
            np.maximum(priority, 0).astype(np.int32), classes.astype(np.int8), cpu, memory, block.flags(12),
        )  # fmt: skip
        good = settled(block, defects, skip=skip)
        kept = (time != NEVER_US) if good is None else good & (time != NEVER_US)
        defects.add(AFTER_END, int((time[good] if good is not None else time).__eq__(NEVER_US).sum()))
        _count(NO_PRIORITY, (priority < 0) & kept, block, defects)
        _count(MISSING_INFO, (missing >= 0) & kept, block, defects)
        yield rows if kept.all() else taken(rows, kept)


def _count(rule: str, rows: Bools, block: Block, defects: Defects) -> None:
    if rows.any():
        found = np.flatnonzero(rows)
        defects.add(rule, len(found), (f"{block.path}:{block.rows[at]}" for at in found[:5].tolist()))


def read_job_events(paths: Sequence[Path], jobs: JobTable, until_us: int, defects: Defects, *, skip: bool) -> None:
    """Read the submissions of job_events up to a time into `jobs`."""
    for block in table_blocks(paths, "job_events", defects, skip=skip):
        time, number = block.naturals(0, _TIME), block.naturals(2, _JOB)
        event = block.naturals(3, "an event of a job, 0 to 8", most=UPDATE_RUNNING)
        classes = block.naturals(5, "a scheduling class", most=100, missing=-1)
        good = settled(block, defects, skip=skip)
        wanted = (event == SUBMIT) & (time <= until_us)
        if good is not None:
            wanted &= good
        places = jobs.places(block, number, 4)
        for row in np.flatnonzero(wanted).tolist():
            place, scheduling_class = int(places[row]), int(classes[row])
            jobs.submit(place, int(time[row]), scheduling_class, block.text(row, 4), block.text(row, 7))
        if len(time) and time.min() > until_us:
            return


def machine_events(paths: Sequence[Path], defects: Defects, *, skip: bool) -> MachineEvents:
    """Return the rows of machine_events in order of time."""
    pieces = []
    for block in table_blocks(paths, "machine_events", defects, skip=skip):
        time, number = block.naturals(0, _TIME), block.naturals(1, "a machine's number")
        event = block.naturals(2, "an event of a machine, 0 to 2", most=UPDATE)
        cpu, memory = block.shares(4, "a share from 0 to 1"), block.shares(5, "a share from 0 to 1")
        platform = np.array([block.text(row, 3) for row in range(len(block))], dtype=np.str_)
        rows = MachineEvents(time, number, event.astype(np.int8), platform, cpu, memory)
        good = settled(block, defects, skip=skip)
        pieces.append(rows if good is None else taken(rows, good))
    nothing = np.zeros(0)
    pieces.append(
        MachineEvents(nothing.astype(np.int64), nothing.astype(np.int64), nothing.astype(np.int8),
                      np.zeros(0, dtype=np.str_), nothing, nothing)
    )  # fmt: skip
    return in_time_order(MachineEvents, pieces, defects)
