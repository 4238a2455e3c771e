"""The process of ``omega bench web`` that mirrors a cell: prints what it used, a line of JSON after each command.

Commands on stdin: ``load``, ``documents CALLS``, ``pages CALLS``, ``follow SECONDS``.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from benchmarks.computer import resident_bytes, spread
from omega.cellstate.clock import now_ms
from omega.cellstate.errors import StoreError
from omega.cellstate.store import connect_cell
from omega.queries.mirror import CellMirror, JobFilter
from omega.queries.mirror.mirrors import give_back_memory

MIB = 1 << 20


def main() -> None:
    """Mirror the cell that the arguments name, and answer commands until stdin ends."""
    url, name = sys.argv[1:]
    mirror = CellMirror(connect_cell(url, name, timeout=60.0), "bench")
    for line in sys.stdin:
        word, _, number = line.strip().partition(" ")
        found = {"load": load, "documents": documents, "pages": pages, "read": read}[word](mirror, float(number or 0))
        print(json.dumps(found), flush=True)


def load(mirror: CellMirror, _: float) -> dict[str, Any]:
    """Read the cell for the first time."""
    before, began, own = resident_bytes(os.getpid()), time.perf_counter(), time.process_time()
    mirror.read(now_ms())
    first = time.perf_counter() - began
    while mirror.loading[0] < mirror.loading[1]:
        mirror.read(now_ms())
    mirror.read(now_ms())
    give_back_memory()
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


PAGES = ("", "jobs", "jobs?limit=200", "jobs?state=pending&sort=name", "machines", "machines?group=&level=0",
         "schedulers", "pools", "plan", "events")  # a table # fmt: skip


def pages(mirror: CellMirror, calls: float) -> dict[str, Any]:
    """Request pages of the console; processor time in milliseconds as in `documents`, and their size in kB."""
    return asyncio.run(_pages(mirror, max(2, int(calls))))


async def _pages(mirror: CellMirror, calls: int) -> dict[str, Any]:
    from omega.web.access.admissions import Access
    from omega.web.access.tokens import Tokens, digest
    from omega.web.access.visitors import Visitor
    from omega.web.app import create_app
    from omega.web.service import Service

    service = Service(mirror.held.url)
    service.mirrors = _OneMirror(mirror)  # type: ignore[assignment]
    app = create_app(service, Access(Tokens(start={digest("bench"): Visitor("bench", "reader")})))
    rows = {}
    for path in PAGES:
        used, sizes = [], [0]
        for _ in range(calls):
            began = time.thread_time()
            status, sizes[0] = await _requested(app, f"/cells/{mirror.held.name}/{path}")
            used.append(1_000 * (time.thread_time() - began))
            if status != 200:
                raise StoreError(f"page {path!r}: status {status}")
        size = round(sizes[0] / 1_000, 1)
        rows[path or "cell"] = {"first_ms": round(used[0], 2), "ms": round(median(used[1:]), 2), "kb": size}
    return {"pages": rows}


class _OneMirror:
    """`Mirrors` of one cell, which nobody reads meanwhile."""

    shown_url = "bench"

    def __init__(self, mirror: CellMirror) -> None:
        self.mirror = mirror

    async def cell(self, _: str) -> CellMirror:
        return self.mirror


async def _requested(app: Any, address: str) -> tuple[int, int]:
    """Return the status and the number of bytes of a page."""
    path, _, query = address.partition("?")
    headers = [(b"host", b"127.0.0.1:7070"), (b"authorization", b"Bearer bench"), (b"accept", b"text/html")]
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
        "path": path, "raw_path": path.encode(), "root_path": "", "query_string": query.encode(), "headers": headers,
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 7070),
    }  # fmt: skip
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent[0]["status"], sum(len(message.get("body", b"")) for message in sent)


def read(mirror: CellMirror, _: float) -> dict[str, Any]:
    """Read once, as the reader of `Mirrors` does twice a second, and take the reasons."""
    own, version = time.process_time(), mirror.index.version
    mirror.read(now_ms())
    mirror.reasons()
    return {
        "cpu_ms": 1_000 * (time.process_time() - own),
        "versions": mirror.index.version - version,
        "resident_mib": round(resident_bytes(os.getpid()) / MIB, 1),
    }


if __name__ == "__main__":
    main()
