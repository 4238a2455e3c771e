"""``omega bench web``: what pages and the HTTP API cost: the mirror of a large cell, its documents, its reads.

A cell is filled with machines and jobs. A process of its own mirrors it, so that its memory is that of the mirror. Then
the cell changes at a fixed rate, with and without the mirror: the difference is what the mirror costs the store.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from secrets import randbelow, token_hex
from typing import Any

from benchmarks.computer import computer, middle, now_ms, spread
from benchmarks.launch import Document, launch, progress
from benchmarks.residents import BENCH_EXECUTOR, CAPACITY, Filler, chunks
from benchmarks.store import Store, StoreSettings
from omega.cellstate.errors import StoreError
from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.cellstate.ports import StoredCell
from omega.cellstate.replies import CommitRequest
from omega.cellstate.task_ends import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Position, Transaction

NEED, LARGE = (500, 1_024), (17_000, 1_024)
TASKS = 4
"""Tasks of a running job, each on another machine."""
JOBS_PER_CALL = 500
RACK = 40
USERS = 50
LEASE_MS = 24 * 3_600_000
OF_A_CYCLE = 3
"""Versions of a job that the changer submits, places and ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(StoreSettings):
    """Size of the cell; changes a second, for how many seconds and how often; calls of each document."""

    machines: int = 100_000
    jobs: int = 100_000
    changes: int = 1_000
    seconds: float = 20.0
    pairs: int = 3
    calls: int = 9


def measure(settings: Settings) -> Document:
    """Fill a cell and measure its mirror."""
    about = computer()
    with settings.measured_store() as store:
        cell = store.make_cell()
        fill(cell, settings.machines, settings.jobs)
        changer = Changer(cell, settings.machines)
        with reader(store) as ask:
            loaded = ask("load")
            progress(f"web: mirror of {loaded['resident_mib']} MiB in {loaded['seconds']} s")
            documents = ask(f"documents {settings.calls}") | ask(f"pages {settings.calls}")
            before = store.cpu_seconds()
            quiet = ask(f"follow {settings.seconds}")
            quiet["store_cores"] = round((store.cpu_seconds() - before) / settings.seconds, 4)
            pairs = [_pair(store, changer, ask, settings) for _ in range(settings.pairs)]
        cell.close()
        busy = pairs[-1][1] | {"store_cores": middle([pair[0] for pair in pairs])}
        chosen = settings.values("machines", "jobs", "changes", "seconds", "pairs", "calls")
        return {
            "load": loaded, **documents, "quiet": quiet, "busy": busy,
            "store_spread": spread([each[0] for each in pairs], 4),
            "store": store.describe(), "computer": about, "chosen": chosen,
        }  # fmt: skip


def _pair(store: Store, changer: "Changer", ask: "Asker", settings: Settings) -> tuple[float, dict[str, Any]]:
    """Change the cell without and with the mirror: return cores of the store that the mirror costs, and its figures.

    A rate that was not reached with the mirror would make it cheap: what a change costs without it is taken off.
    """
    without = changer.change(store, settings.changes, settings.seconds)
    ask.send(f"follow {settings.seconds}")
    beside = changer.change(store, settings.changes, settings.seconds)
    figures = ask.answer()
    cost = without["store_cores"] / max(1, without["changes_per_second"])
    more = round(beside["store_cores"] - cost * beside["changes_per_second"], 4)
    progress(f"web: {beside['changes_per_second']:.0f} changes/s: the mirror costs the store {more} cores")
    return more, figures


def fill(cell: StoredCell, machines: int, jobs: int) -> None:
    """Add machines with attributes, and jobs: half of them run, of half no task fits a machine."""
    cell.register_executor(BENCH_EXECUTOR, "bench", LEASE_MS, now_ms())
    specs = (MachineSpec(f"m{i}", CAPACITY, {"rack": f"r{i // RACK}", "zone": f"z{i % 3}"}) for i in range(machines))
    for some in chunks(specs, 10_000):
        cell.join(BENCH_EXECUTOR, some, now_ms())
    filler, running = Filler(cell, "web", own_ids=True), jobs // 2
    places = ([((TASKS * job + task) % machines, 1) for task in range(TASKS)] for job in range(running))
    for number, call in enumerate(chunks(places, JOBS_PER_CALL), 1):
        filler.place(NEED, call)
        while cell.receive(1):
            pass
        if not number % 25:
            progress(f"web: {filler.tasks:,} tasks run")
    filler.leave()
    cell.register_scheduler("batch/0", "bench", LEASE_MS, now_ms())
    waiting = (
        JobSpec(
            f"{i:012x}", f"job{i}", "batch", (TaskGroup(LARGE, 1 + i % 10, 1_000),), spec={"user": f"user{i % USERS}"}
        )
        for i in range(jobs - running)
    )
    for chunk in chunks(waiting, JOBS_PER_CALL):
        cell.submit(chunk, now_ms(), "bench")
    progress(f"web: {machines:,} machines, {jobs:,} jobs")


class Changer:
    """Changes a cell one version a call: submits a job, places it, ends its task."""

    def __init__(self, cell: StoredCell, machines: int) -> None:
        """Register a scheduler."""
        self._cell, self._machines, self._number = cell, machines, 0
        self._position = cell.sync(Position()).position
        self._placement = cell.counters()["placements"]
        self._membership = cell.register_scheduler(f"changing/{randbelow(10**6)}", token_hex(4), LEASE_MS, now_ms())

    def change(self, store: Store, rate: int, seconds: float) -> dict[str, float]:
        """Make `rate` changes a second; return the rate reached and the cores of the store."""
        before, began, made = store.cpu_seconds(), time.perf_counter(), 0
        while (spent := time.perf_counter() - began) < seconds:
            if made > rate * spent:
                time.sleep(0.002)
                continue
            self._cycle()
            made += OF_A_CYCLE
        lasted = time.perf_counter() - began
        return {
            "changes_per_second": made / lasted,
            "store_cores": (store.cpu_seconds() - before) / lasted,
        }

    def _cycle(self) -> None:
        self._number += 1
        name, machine = f"change-{self._membership.incarnation}-{self._number}", self._number % self._machines
        cell = self._cell
        cell.submit([JobSpec(name, name, "changing", (TaskGroup((1, 1), 1, 1_000),))], now_ms(), "bench")
        transaction = Transaction(name, (Claim(machine, 0, 1),))
        request = CommitRequest(self._membership, self._number, [transaction], self._position, now_ms(), executors=(1,))
        reply = cell.commit(request)
        self._position = reply.position
        if not reply.outcomes[0].accepted:
            raise StoreError(f"cell {cell.name}: a change was refused; is it a cell of its own?")
        self._placement += 1
        if not sum(cell.end([TaskEnd(machine, self._placement, EndKind.FINISHED)], now_ms(), BENCH_EXECUTOR)):
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
