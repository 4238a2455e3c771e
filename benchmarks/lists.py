"""``omega bench lists``: time of the read models: pages of jobs and machines, the state of a cell.

A cell is filled with running and pending jobs and with machines. Each question is asked through `omega.Client`, in one
process and after one unmeasured call: what is measured is the answer, not the start of a command.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.computer import computer, spread
from benchmarks.launch import Document, launch, progress
from benchmarks.residents import Filler, chunks, join, queue_jobs
from benchmarks.store import Store, StoreSettings
from omega.cellstate.clock import now_ms
from omega.cellstate.digest.step import digest
from omega.cellstate.model import TaskGroup
from omega.client.client import Client

NEED = (500, 1_024)
PLACED_AT_ONCE = 500
"""Running jobs of one commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(StoreSettings):
    """Sizes of the cell, and number of measured calls of each question."""

    jobs: int = 10_000
    machines: int = 100_000
    page: int = 50
    calls: int = 7


def measure(settings: Settings) -> Document:
    """Fill a cell and ask each question `calls` times."""
    about = computer()
    with settings.measured_store() as store:
        cell = store.make_cell()
        join(cell, settings.machines, lease_ms=3_600_000)
        filler = Filler(cell, "lists")
        half = range(settings.jobs // 2)
        for numbers in chunks(half, PLACED_AT_ONCE):
            filler.place(NEED, [[(i % settings.machines, 1)] for i in numbers])
        filler.leave()
        queue_jobs(cell, "batch", settings.jobs - len(half), (TaskGroup(NEED, 10, 1_000),))
        while digest(cell, now_ms()):  # as housekeeping does: lists read the histories of jobs
            pass
        progress(f"lists: {settings.jobs:,} jobs, {settings.machines:,} machines")
        with Client(store.url, cell.name) as client:
            rows = [_timed(store, name, ask, settings.calls) for name, ask in _questions(client, settings.page).items()]
        chosen = settings.values("jobs", "machines", "page", "calls")
        return {"questions": rows, "store": store.describe(), "computer": about, "chosen": chosen}


def _questions(client: Client, page: int) -> dict[str, Callable[[], object]]:
    return {
        "first page of jobs": lambda: client.jobs(limit=page),
        "page of the oldest jobs": lambda: client.jobs(limit=page, before=page + 1),
        "first page of running jobs": lambda: client.jobs(state="running", limit=page),
        "all jobs": client.jobs,
        "first page of machines": lambda: client.machines(limit=page),
        "cell status": client.cell_status,
    }


def _timed(store: Store, question: str, ask: Callable[[], object], calls: int) -> dict[str, Any]:
    """Return the time of a question in milliseconds: on the clock, of the client's and of the server's processor."""
    ask()
    clock, own, server = list[float](), list[float](), list[float]()
    for _ in range(calls):
        began = time.perf_counter(), time.process_time(), store.cpu_seconds()
        ask()
        ended = time.perf_counter(), time.process_time(), store.cpu_seconds()
        for values, first, last in zip((clock, own, server), began, ended, strict=True):
            values.append(1_000 * (last - first))
    row = {
        "question": question,
        "milliseconds": round(median(clock), 1),
        "spread": spread(clock, 1),
        "client_cpu_ms": round(median(own), 1),
        "server_cpu_ms": round(median(server), 1),
    }
    progress(f"lists: {question}: {row['milliseconds']} ms")
    return row


if __name__ == "__main__":
    launch(Settings, measure)
