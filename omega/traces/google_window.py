"""Reads the tables of a directory with Google's 2011 trace, and reduces them to tasks, jobs and machines."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from omega.cellstate.errors import BadInput
from omega.traces.cache import Columns, cache_key, load, save
from omega.traces.csv_blocks import NO_ROWS
from omega.traces.google_cell import MACHINE_RULES, GoogleMachine, cell_of
from omega.traces.google_constraints import (
    NO_ATTRIBUTES,
    AttributeChange,
    Constraints,
    read_attributes,
    read_constraints,
)
from omega.traces.google_events import (
    OUT_OF_ORDER,
    START_US,
    SUBMIT,
    Jobs,
    JobTable,
    MachineEvents,
    TaskEvents,
    in_time_order,
    machine_events,
    read_job_events,
    taken,
    task_events,
)
from omega.traces.google_parts import NEEDED, OPTIONAL, PART_TWICE, begins_the_trace, parts
from omega.traces.google_tasks import Tasks, Window, tasks_of
from omega.traces.trace import Defects, TraceOptions

_DECIDES = ("tasks", "seconds", "follow_seconds", "start_seconds", "skip_bad_rows")
"""Options that decide what is parsed."""


@dataclass(frozen=True, eq=False, slots=True)
class GoogleTables:
    """What a directory says of a window: all that a workload is made of."""

    window: Window
    jobs: Jobs
    tasks: Tasks
    machines: MachineEvents
    rows: Mapping[str, int]
    """Number of events of tasks, by kind."""
    constraints: Constraints


@dataclass(slots=True)
class _Follower:
    """Finds the time at which reading stops: some seconds after the last wanted task arrived."""

    tasks: int | None
    seconds: float | None
    follow: float | None
    begin_us: int = -1
    known: set[int] = field(default_factory=set)
    arrived: int = 0

    def until(self, rows: TaskEvents) -> float:
        """Return the last time that is wanted, as far as these rows show."""
        if self.follow is None or (self.tasks is None and self.seconds is None):
            return np.inf
        times = [np.inf if self.seconds is None else self.begin_us + self.seconds * 1e6]
        if self.tasks is not None:
            times.append(self._full(rows))
        return float(min(times) + self.follow * 1e6)

    def _full(self, rows: TaskEvents) -> float:
        keys = (rows.job.astype(np.int64) << 24) | rows.index
        listed = zip(keys.tolist(), rows.time.tolist(), rows.event.tolist(), strict=True)
        for key, time, event in listed:
            if key in self.known:
                continue
            self.known.add(key)
            if event == SUBMIT and time >= self.begin_us:
                self.arrived += 1
                if self.arrived == self.tasks:
                    return float(time)
        return np.inf


def read_tables(directory: Path, options: TraceOptions, defects: Defects) -> GoogleTables:
    """Read the parts of a directory that are wanted. Raises BadInput (file, row)."""
    skip = options.skip_bad_rows
    paths = {table: parts(directory, table, defects, skip=skip) for table in NEEDED}
    for table in OPTIONAL if options.constraints == "trace" else ():
        if (directory / table).is_dir():
            paths[table] = parts(directory, table, defects, skip=skip)
    if options.cache is None:
        return _parsed(directory, paths, options, defects)
    wanted = {name: getattr(options, name) for name in _DECIDES}
    if options.follow_seconds is None:
        wanted["tasks"] = wanted["seconds"] = None  # all is read
    key = cache_key((path for of in paths.values() for path in of), wanted)
    if (found := load(options.cache, key, _restored)) is not None:
        tables, counts, places = found
        defects.counts, defects.places = counts, places
        return tables
    tables = _parsed(directory, paths, options, defects)
    columns, facts = _stored(tables)
    save(options.cache, key, columns, {**facts, "counts": defects.counts, "places": defects.places})
    return tables


def _parsed(
    directory: Path, paths: Mapping[str, Sequence[Path]], options: TraceOptions, defects: Defects
) -> GoogleTables:
    skip, jobs = options.skip_bad_rows, JobTable()
    machine_parts, job_parts, task_parts = (paths[table] for table in NEEDED)
    constraints = Constraints()
    pieces: list[TaskEvents] = []
    whole, start = begins_the_trace(task_parts[0]), round(1e6 * options.start_seconds)
    follower, until = _Follower(options.tasks, options.seconds, options.follow_seconds), np.inf
    for rows in task_events(task_parts, jobs, defects, skip=skip):
        if not len(rows.time):
            continue
        if follower.begin_us < 0:
            follower.begin_us = _begin(int(rows.time[0]), start, whole=whole)
        until = min(until, follower.until(rows))
        inside = rows.time <= until
        pieces.append(rows if inside.all() else taken(rows, inside))
        if not inside.all():
            break
    pieces = [each for each in pieces if len(each.time)]
    if not pieces:
        raise BadInput(f"trace {directory}: no event of a task in task_events; fetch its first parts")
    events = in_time_order(TaskEvents, pieces, defects)
    begin = _begin(int(events.time[0]), start, whole=whole)
    if begin > events.time[-1]:
        last = (int(events.time[-1]) - begin) / 1e6 + options.start_seconds
        raise BadInput(
            f"trace {directory}: begins {options.start_seconds:g} s after its first row; the last is at {last:g} s"
        )
    window = Window(begin, max(int(events.time[-1]), begin), snapshot=whole or int(events.time[0]) < START_US)
    read_job_events(job_parts, jobs, window.end_us, defects, skip=skip)
    if "task_constraints" in paths:
        _read_constraints(paths, jobs, window, constraints, defects, skip=skip)
    known = jobs.columns()
    counts = {str(event): count for event, count in enumerate(np.bincount(events.event).tolist()) if count}
    tasks = tasks_of(events, known, window, defects)
    return GoogleTables(window, known, tasks, machine_events(machine_parts, defects, skip=skip), counts, constraints)


def _read_constraints(
    paths: Mapping[str, Sequence[Path]], jobs: JobTable, window: Window, found: Constraints, defects: Defects, *,
    skip: bool,
) -> None:  # fmt: skip
    """Read the optional tables: constraints, and the attributes that they name."""
    read_constraints(paths["task_constraints"], jobs, window.end_us, found, defects, skip=skip)
    if "machine_attributes" not in paths:
        defects.add(NO_ATTRIBUTES, len(found.tasks))
        found.tasks, found.conditions, found.names = {}, [()], {}
        return
    read_attributes(paths["machine_attributes"], window.end_us, found, defects, skip=skip)


def first_machines(directory: Path) -> list[GoogleMachine]:
    """Return the machines that are up when the trace begins. Raises BadInput."""
    defects = Defects(dict.fromkeys((*MACHINE_RULES, OUT_OF_ORDER, PART_TWICE, NO_ROWS), ""))
    rows = machine_events(parts(directory, "machine_events", defects, skip=False), defects, skip=False)
    return list(cell_of(rows, Window(START_US, START_US, snapshot=True), defects).machines.values())


def _begin(first_us: int, start_us: int, *, whole: bool) -> int:
    """Return when the window begins: so long after the trace, or after the first row."""
    return (START_US if whole else max(first_us, START_US)) + start_us


_STORED = (("jobs", Jobs), ("tasks", Tasks), ("machines", MachineEvents))


def _stored(tables: GoogleTables) -> tuple[Columns, dict[str, Any]]:
    """Return tables as named columns and facts."""
    columns = {
        f"{name}.{each.name}": getattr(getattr(tables, name), each.name)
        for name, kind in _STORED
        for each in fields(kind)
    }
    of = tables.constraints
    columns["constraints"] = np.array([*of.tasks.items()], dtype=np.int64).reshape(-1, 2)
    more = {"changes": [astuple(change) for change in of.changes], "conditions": of.conditions, "names": of.names}
    return columns, {"window": asdict(tables.window), "rows": dict(tables.rows), "constraints": more}


def _restored(columns: Columns, facts: dict[str, Any]) -> tuple[GoogleTables, dict[str, int], dict[str, list[str]]]:
    """Return the tables that `_stored` stored, and the defects. Raises KeyError, ValueError or TypeError."""
    made: dict[str, Any] = {}
    for name, kind in _STORED:
        of = {each.name: columns[f"{name}.{each.name}"] for each in fields(kind)}
        if len({len(column) for column in of.values()}) > 1:
            raise ValueError(f"columns of {name} differ in length")
        made[name] = kind(**of)
    of = facts["constraints"]
    made["constraints"] = Constraints(
        [AttributeChange(*change) for change in of["changes"]],
        [tuple(condition) for condition in of["conditions"]],
        {key: place for key, place in columns["constraints"].tolist()},  # noqa: C416 - a dict of the columns' rows
        of["names"],
    )
    tables = GoogleTables(Window(**facts["window"]), rows=facts["rows"], **made)
    return tables, facts["counts"], facts["places"]
