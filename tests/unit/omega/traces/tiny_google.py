"""A hand-made trace in the published format: rows are given, files are written."""

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omega.traces import Trace, TraceOptions, read_trace

START = 600_000_000
SECOND = 1_000_000

Row = Sequence[object]


def task(
    time: int,
    job: int,
    index: int,
    event: int,
    *,
    priority: int = 0,
    scheduling_class: int = 0,
    cpu: object = 0.25,
    memory: object = 0.125,
    apart: int = 0,
) -> Row:
    return (time, "", job, index, "", event, f"user-{job}", scheduling_class, priority, cpu, memory, 0.001, apart)


def on(machine: int, row: Row) -> Row:
    return (*row[:4], machine, *row[5:])


def job(time: int, number: int, event: int = 0, scheduling_class: int = 0) -> Row:
    return (time, "", number, event, f"user-{number}", scheduling_class, f"name-{number}", f"logical-{number}")


def write(path: Path, rows: Sequence[Row]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(",".join(map(str, row)) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))  # the same rows are the same file whenever it is written


MACHINES: list[Row] = [
    (0, 5, 0, "platform-a", 0.5, 0.25),
    (0, 6, 0, "platform-a", 0.5, 0.25),
    (0, 7, 0, "", 1, 1),
    (START, 8, 0, "platform-a", 1, 1),  # joins later: not part of the workload
]


def write_trace(
    directory: Path, jobs: Sequence[Row], *task_parts: Sequence[Row], machines: Sequence[Row] = MACHINES
) -> None:
    write(directory / "machine_events" / "part-00000-of-00001.csv.gz", machines)
    """Write a directory; job_events has a row of another job when none is given."""
    write(directory / "job_events" / "part-00000-of-00500.csv.gz", jobs or [job(0, 10**9, event=4)])
    for number, rows in enumerate(task_parts):
        write(directory / "task_events" / f"part-{number:05}-of-00500.csv.gz", rows)


def at(seconds: float) -> int:
    """Return a time on the trace's clock."""
    return START + round(seconds * SECOND)


def traced(directory: Path, **options: Any) -> Trace:
    return read_trace(directory, TraceOptions(largest_cpu=8_000, largest_memory=1_024, **options))


def counts(trace: Trace) -> dict[str, int]:
    """Return the defects by rule, without jobs that lack a row in job_events: most tests write none."""
    return {defect.rule: defect.count for defect in trace.defects if defect.rule != "no-job-row"}
