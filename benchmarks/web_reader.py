"""The process of ``omega bench web`` that mirrors a cell: prints what it used, a line of JSON after each command.

Commands on stdin: ``load``, ``documents CALLS``, ``follow SECONDS``.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from benchmarks.computer import now_ms, resident_bytes, spread
from omega.cellstate.store import connect_cell
from omega.queries.mirror import CellMirror, JobFilter
from omega.queries.mirror.mirrors import PERIOD_SECONDS

MIB = 1 << 20


def main() -> None:
    """Mirror the cell that the arguments name, and answer commands until stdin ends."""
    url, name = sys.argv[1:]
    mirror = CellMirror(connect_cell(url, name, timeout=60.0), "bench")
    for line in sys.stdin:
        word, _, number = line.strip().partition(" ")
        found = {"load": load, "documents": documents, "follow": follow}[word](mirror, float(number or 0))
        print(json.dumps(found), flush=True)


def load(mirror: CellMirror, _: float) -> dict[str, Any]:
    """Read the cell for the first time."""
    before, began, own = resident_bytes(os.getpid()), time.perf_counter(), time.process_time()
    mirror.read(now_ms())
    first = time.perf_counter() - began
    while mirror.loading[0] < mirror.loading[1]:
        mirror.read(now_ms())
    mirror.read(now_ms())
    return {
        "first_reading_seconds": round(first, 3),
        "seconds": round(time.perf_counter() - began, 2),
        "cpu_seconds": round(time.process_time() - own, 2),
        "resident_mib_before": round(before / MIB, 1),
        "resident_mib": round(resident_bytes(os.getpid()) / MIB, 1),
    }


def documents(mirror: CellMirror, calls: float) -> dict[str, Any]:
    """Time the documents: processor time in milliseconds, the first after a reading and the median of others."""
    rows = {}
    for name, ask in _questions(mirror).items():
        mirror.read(now_ms())
        used = [_timed(mirror, ask) for _ in range(max(2, int(calls)))]
        rows[name] = {"first_ms": round(used[0], 2), "ms": round(median(used[1:]), 2), "spread": spread(used[1:], 2)}
    return {"documents": rows, "resident_mib": round(resident_bytes(os.getpid()) / MIB, 1)}


def _timed(mirror: CellMirror, ask: Callable[[], object]) -> float:
    began = time.thread_time()
    with mirror.lock:
        ask()
    return 1_000 * (time.thread_time() - began)


def _questions(mirror: CellMirror) -> dict[str, Callable[[], object]]:
    one = mirror.jobs(limit=1)["jobs"][0]
    following = mirror.jobs(sort="-submitted", limit=50)["next"]
    by_name = mirror.jobs(sort="name", limit=50)["next"]
    pending = JobFilter(state="pending")
    return {
        "50 newest jobs": lambda: mirror.jobs(limit=50),
        "next 50 jobs": lambda: mirror.jobs(sort="-submitted", limit=50, cursor=following),
        "50 pending jobs of a user by tasks": lambda: mirror.jobs(
            JobFilter(state="pending", user="user7"), sort="-tasks", limit=50
        ),
        "50 jobs with a name": lambda: mirror.jobs(JobFilter(name="77"), sort="-submitted", limit=50),
        "next 50 jobs by name": lambda: mirror.jobs(sort="name", limit=50, cursor=by_name),
        "50 pending jobs with a reason": lambda: mirror.jobs(
            JobFilter(state="pending", reason="TOO_LARGE"), sort="-submitted", limit=50
        ),
        "number of pending jobs": lambda: mirror.jobs(pending, sort="-submitted", limit=1)["total"],
        "a job's row": lambda: mirror.job_row(one["id"]),
        "a job by name": lambda: mirror.find_job(one["name"]),
        "reasons": mirror.reasons,
        "room": mirror.room,
        "cell status": mirror.cell_status,
        "schedulers": mirror.schedulers,
        "pools": mirror.pools,
        "50 machines": lambda: mirror.machines(limit=50),
        "machine columns": lambda: mirror.machine_columns(["rack"]),
        "50 events": lambda: mirror.events(limit=50),
        "50 conflicts": lambda: mirror.events(kinds=["conflict"], limit=50),
        "history": mirror.history,
        "conflicts": mirror.conflicts,
    }


def follow(mirror: CellMirror, seconds: float) -> dict[str, Any]:
    """Read as the reader of `Mirrors` does; return the processor time and the readings."""
    began, own, readings, version = time.perf_counter(), time.process_time(), list[float](), mirror.index.version
    while time.perf_counter() - began < seconds:
        started = time.perf_counter()
        mirror.read(now_ms())
        mirror.reasons()
        readings.append(1_000 * (time.perf_counter() - started))
        time.sleep(max(PERIOD_SECONDS - readings[-1] / 1_000, readings[-1] / 1_000))
    lasted = time.perf_counter() - began
    return {
        "cores": round((time.process_time() - own) / lasted, 4),
        "readings_per_second": round(len(readings) / lasted, 2),
        "reading_ms": round(median(readings), 1),
        "reading_spread": spread(readings, 1),
        "versions_per_second": round((mirror.index.version - version) / lasted, 1),
        "resident_mib": round(resident_bytes(os.getpid()) / MIB, 1),
    }


if __name__ == "__main__":
    main()
