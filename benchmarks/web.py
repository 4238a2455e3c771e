"""``omega bench web``: what pages and the HTTP API cost: the mirror of a large cell, its documents, its reads.

A cell is filled with machines and jobs. A process of its own mirrors it, so that its memory is that of the mirror. Then
the cell changes as much as in half a second, and the mirror reads once: as often as its reader does. At last ``omega
serve`` answers requests for pages of the cell.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from secrets import randbelow, token_hex
from statistics import median
from typing import Any

from benchmarks import web_hostile
from benchmarks.computer import computer, cpu_seconds, resident_bytes, spread
from benchmarks.launch import Document, launch, progress
from benchmarks.residents import BENCH_EXECUTOR, CAPACITY, Filler, chunks
from benchmarks.store import Store, StoreSettings
from benchmarks.web_reader import MIB, PAGES
from benchmarks.web_submissions import served
from omega.cellstate.clock import now_ms
from omega.cellstate.errors import StoreError
from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import CommitRequest
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Position, Transaction

NEED, LARGE = (500, 1_024), (17_000, 1_024)
TASKS = 4
"""Tasks of a running job, each on another machine."""
JOBS_PER_CALL = 500
RACK = 40
USERS = 50
OK, UNAVAILABLE = 200, 503
LEASE_MS = 24 * 3_600_000
PER_SECOND = 2
"""Readings of a mirror per second, at most."""
OF_A_CYCLE = 3
"""Versions of a job that the changer submits, places and ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(StoreSettings):
    """Size of the cell; changes a second; measured readings; calls of each document."""

    machines: int = 100_000
    jobs: int = 100_000
    changes: int = 1_000
    rounds: int = 15
    calls: int = 9
    requests: int = 40
    hostile: bool = False
    """Measure only for how long bodies of hostile clients keep the server from answering."""


def measure(settings: Settings) -> Document:
    """Fill a cell and measure its mirror."""
    about = computer()
    with settings.measured_store() as store:
        cell = store.make_cell()
        if settings.hostile:
            return {**web_hostile.measure(store), "computer": about, "chosen": settings.values("hostile")}
        fill(cell, settings.machines, settings.jobs)
        changer = Changer(cell, settings.machines)
        with reader(store) as ask:
            loaded = ask("load")
            progress(f"web: mirror of {loaded['resident_mib']} MiB in {loaded['seconds']} s")
            documents = ask(f"documents {settings.calls}")
            quiet = _readings(store, ask, settings.rounds)
            busy = _readings(store, ask, settings.rounds, lambda: changer.change(settings.changes // PER_SECOND))
        pages = _pages(store, cell, settings.requests)
        cell.close()
        chosen = settings.values("machines", "jobs", "changes", "rounds", "calls", "requests")
        return {
            "load": loaded, **documents, "quiet": quiet, "busy": busy, "serve": pages, "store": store.describe(),
            "computer": about, "chosen": chosen,
        }  # fmt: skip


def _pages(store: Store, cell: RedisCell, requests: int) -> dict[str, Any]:
    """Request each page of ``omega serve`` so many times; processor time of a page, and memory of the process."""
    running, pending = cell.jobs.ids_by_name(["train-00001-000", "job1"]).values()
    paths = {page or "cell": page for page in PAGES}
    paths |= {"running job": f"jobs/{running}", "pending job": f"jobs/{pending}"}
    rows = {}
    with served(store) as (port, token, pid), closing(HTTPConnection("127.0.0.1", port, timeout=120)) as client:

        def ask(path: str) -> tuple[int, int]:
            client.request("GET", path, headers={"Authorization": f"Bearer {token}", "Accept": "text/html"})
            answer = client.getresponse()
            return answer.status, len(answer.read())

        before = resident_bytes(pid)
        while ask(f"/v1/jobs?cell={cell.name}&limit=1")[0] == UNAVAILABLE:
            progress("web: omega serve loads the cell")
        for name, page in paths.items():
            used, status, size = 0.0, *ask(path := f"/cells/{cell.name}/{page}")
            for _ in range(requests):
                began = cpu_seconds(pid)
                status, size = ask(path)
                used += cpu_seconds(pid) - began
            if status != OK:
                raise StoreError(f"page {path}: status {status}")
            rows[name] = {"ms": round(1_000 * used / requests, 2), "kb": round(size / 1_000, 1)}
        return {"pages": rows, "resident_mib_before": before // MIB, "resident_mib": resident_bytes(pid) // MIB}


def _readings(
    store: Store, ask: "Asker", rounds: int, change: Callable[[], None] = lambda: None
) -> dict[str, Any]:  # fmt: skip
    """Let the mirror read once after each call of `change`; return what readings cost it and the store.

    Processor time counts, so that other load of the computer does not; cores are those of `PER_SECOND` readings.
    """
    own, server, versions = list[float](), list[float](), 0
    for _ in range(rounds):
        change()
        before = store.cpu_seconds()
        answer = ask("read")
        server.append(1_000 * (store.cpu_seconds() - before))
        own.append(answer["cpu_ms"])
        versions += answer["versions"]
    return {
        "versions_per_reading": versions / rounds,
        "reading_cpu_ms": round(median(own), 2),
        "reading_spread": spread(own, 2),
        "store_cpu_ms": round(median(server), 2),
        "store_spread": spread(server, 2),
        "cores": round(PER_SECOND * median(own) / 1_000, 4),
        "store_cores": round(PER_SECOND * median(server) / 1_000, 4),
        "resident_mib": answer["resident_mib"],
    }


def fill(cell: RedisCell, machines: int, jobs: int) -> None:
    """Add machines with attributes, and jobs: half of them run, of half no task fits a machine."""
    cell.executors.register(BENCH_EXECUTOR, "bench", LEASE_MS, now_ms())
    specs = (MachineSpec(f"m{i}", CAPACITY, {"rack": f"r{i // RACK}", "zone": f"z{i % 3}"}) for i in range(machines))
    for some in chunks(specs, 10_000):
        cell.machines.join(BENCH_EXECUTOR, some, now_ms())
    filler, running = Filler(cell, "web", own_ids=True), jobs // 2
    places = ([((TASKS * job + task) % machines, 1) for task in range(TASKS)] for job in range(running))
    for number, call in enumerate(chunks(places, JOBS_PER_CALL), 1):
        filler.place(NEED, call)
        while cell.executors.receive(1):
            pass
        if not number % 25:
            progress(f"web: {filler.tasks:,} tasks run")
    filler.leave()
    cell.schedulers.register("batch/0", "bench", LEASE_MS, now_ms())
    waiting = (
        JobSpec(
            f"{i:012x}", f"job{i}", "batch", (TaskGroup(LARGE, 1 + i % 10, 1_000),), spec={"user": f"user{i % USERS}"}
        )
        for i in range(jobs - running)
    )
    for chunk in chunks(waiting, JOBS_PER_CALL):
        cell.jobs.submit(chunk, now_ms(), "bench")
    progress(f"web: {machines:,} machines, {jobs:,} jobs")


class Changer:
    """Changes a cell one version a call: submits a job, places it, ends its task."""

    def __init__(self, cell: RedisCell, machines: int) -> None:
        """Register a scheduler."""
        self._cell, self._machines, self._number = cell, machines, 0
        self._position = cell.schedulers.sync(Position()).position
        self._placement = cell.counters()["placements"]
        self._membership = cell.schedulers.register(f"changing/{randbelow(10**6)}", token_hex(4), LEASE_MS, now_ms())

    def change(self, versions: int) -> None:
        """Make so many versions, or a few more."""
        for _ in range(-(-versions // OF_A_CYCLE)):
            self._cycle()

    def _cycle(self) -> None:
        self._number += 1
        name, machine = f"change-{self._membership.incarnation}-{self._number}", self._number % self._machines
        cell = self._cell
        cell.jobs.submit([JobSpec(name, name, "changing", (TaskGroup((1, 1), 1, 1_000),))], now_ms(), "bench")
        transaction = Transaction(name, (Claim(machine, 0, 1),))
        request = CommitRequest(self._membership, self._number, [transaction], self._position, now_ms(), executors=(1,))
        reply = cell.schedulers.commit(request)
        self._position = reply.position
        if not reply.outcomes[0].accepted:
            raise StoreError(f"cell {cell.name}: a change was refused; is it a cell of its own?")
        self._placement += 1
        if not sum(cell.executors.end([TaskEnd(machine, self._placement, EndKind.FINISHED)], now_ms(), BENCH_EXECUTOR)):
            raise StoreError(f"cell {cell.name}: a task was not there; is it a cell of its own?")


class Asker:
    """Sends commands to the process that mirrors the cell, and reads its answers."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def __call__(self, command: str) -> dict[str, Any]:
        """Send a command and return its answer."""
        self.send(command)
        return self.answer()

    def send(self, command: str) -> None:
        """Send a command."""
        print(command, file=self._process.stdin, flush=True)

    def answer(self) -> dict[str, Any]:
        """Return the next answer. Raises StoreError when the process ended."""
        line = self._process.stdout.readline() if self._process.stdout else ""
        if not line:
            raise StoreError("the process that mirrors the cell ended; its error is above")
        found: dict[str, Any] = json.loads(line)
        return found


@contextmanager
def reader(store: Store) -> Iterator[Asker]:
    """Yield a process that mirrors the cell of the measurement."""
    command = [sys.executable, "-m", "benchmarks.web_reader", store.url, store.cell]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8") as process:
        try:
            yield Asker(process)
        finally:
            process.kill()


if __name__ == "__main__":
    launch(Settings, measure)
