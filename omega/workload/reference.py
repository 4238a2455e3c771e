"""Workloads as comma-separated values: a row a job, as in the cases made for comparing simulators.

Columns: job_id, workload (Prefill, Batch, Service), submit_s, num_tasks, task_duration_s, cpus_per_task,
mem_gb_per_task. Prefill is there when the run begins. Sizes are exact: cpus are cores, memory is GiB.
The rows of each workload are in order of submission; the workloads may follow one another.
"""

import csv
from collections.abc import Callable, Sequence
from math import isfinite
from pathlib import Path
from typing import TypeVar

from omega.cellstate.errors import BadInput
from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.cellstate.resources import LARGEST, Resources
from omega.workload.workload import Arrival, Workload

COLUMNS = ("job_id", "workload", "submit_s", "num_tasks", "task_duration_s", "cpus_per_task", "mem_gb_per_task")
PREFILL = "Prefill"
KINDS = {PREFILL: "prefill", "Batch": "batch", "Service": "service"}
T = TypeVar("T")


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= LARGEST:
        raise ValueError("want a whole number from 1 on")
    return int(text)


def _amount(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError("want a number") from None
    if not isfinite(value) or not 0 <= value <= LARGEST / 1024:
        raise ValueError("want a number from 0 on")
    return value


def _kind(text: str) -> str:
    if text not in KINDS:
        raise ValueError(f"want {', '.join(KINDS)}")
    return KINDS[text]


class _Row:
    """A row of the file; every complaint names file, line and column."""

    def __init__(self, path: Path, line: int, words: Sequence[str]) -> None:
        self.where, self.words = f"{path}:{line}", words
        if len(words) != len(COLUMNS):
            raise BadInput(f"{self.where}: {len(words)} columns where there are {len(COLUMNS)}: {','.join(COLUMNS)}")

    def read(self, column: int, parse: Callable[[str], T]) -> T:
        try:
            return parse(self.words[column])
        except ValueError as error:
            raise self.wrong(column, str(error)) from None

    def wrong(self, column: int, what: str) -> BadInput:
        return BadInput(f"{self.where}: column {column + 1} ({COLUMNS[column]}): {self.words[column]!r}; {what}")

    def job(self) -> Arrival:
        kind = self.read(1, _kind)
        at, count, seconds = self.read(2, _amount), self.read(3, _count), self.read(4, _amount)
        need = round(self.read(5, _amount) * 1000), round(self.read(6, _amount) * 1024)
        group = TaskGroup(need, count, round(seconds * 1000))
        job_id = self.words[0]
        try:
            spec = JobSpec(job_id, f"{kind}/{job_id}", kind, (group,))
        except BadInput as error:
            raise self.wrong(0, str(error)) from None
        return Arrival(at, spec)


def read_reference(path: Path | str, machines: int, capacity: Resources) -> Workload:
    """Read the jobs in `path` for a cell of so many equal machines (millicores, MiB).

    Raises BadInput with file, line and column.
    """
    path = Path(path)
    if machines < 1:
        raise BadInput(f"workload {path}: a cell of {machines} machines; want at least 1")
    residents: list[Arrival] = []
    arrivals: list[Arrival] = []
    known: set[str] = set()
    last = dict.fromkeys(KINDS.values(), 0.0)
    for row in _rows(path):
        arrival = row.job()
        if arrival.job.id in known:
            raise row.wrong(0, "there is a job of this id above")
        known.add(arrival.job.id)
        if arrival.job.kind == KINDS[PREFILL]:
            if arrival.at_seconds:
                raise row.wrong(2, "prefill is there from 0 on")
            residents.append(arrival)
            continue
        before = last[arrival.job.kind]
        if arrival.at_seconds < before:
            raise row.wrong(2, f"before the {row.words[1]} job above ({before:g}); sort the rows by submit_s")
        last[arrival.job.kind] = arrival.at_seconds
        arrivals.append(arrival)
    if not arrivals:
        raise BadInput(f"workload {path}: no job arrives; want rows of Batch or Service")
    arrivals.sort(key=lambda arrival: arrival.at_seconds)
    span = f"{len(arrivals):,} jobs within {arrivals[-1].at_seconds:,.0f} s"
    about = f"{path.name}: {span}, {len(residents):,} there at the beginning"
    return Workload([MachineSpec(f"m{i}", capacity) for i in range(machines)], residents, arrivals, about)


def _rows(path: Path) -> list[_Row]:
    line = 0
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            reader = csv.reader(lines, strict=True)
            rows = []
            for line, words in enumerate(reader, start=1):
                if line == 1:
                    if tuple(words) != COLUMNS:
                        raise BadInput(f"{path}:1: the first line is not {','.join(COLUMNS)}")
                elif words:
                    rows.append(_Row(path, line, words))
    except FileNotFoundError:
        raise BadInput(f"workload {path}: no such file") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(f"{path}:{line + 1}: cannot be read ({error})") from None
    if not line:
        raise BadInput(f"{path}:1: empty; want a line of {','.join(COLUMNS)}")
    return rows
