"""What one cell holds, and how long each call occupies the server there: ``python -m benchmarks.scale``.

Fills a cell with 100,000 machines and one job of a million tasks, each a run of its own (the dearest form), beside jobs
of ten tasks, lets a scheduler place jobs in it and reads its memory, then makes each kind of call several times and
reads how long the server took from its slow log.
"""

import argparse
import json
import random
import sys
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from statistics import median
from typing import Any

from benchmarks.computer import computer
from benchmarks.launch import progress
from benchmarks.memory import MIB, scheduler_bytes
from benchmarks.residents import chunks
from benchmarks.store import Store, measured_store
from omega.cellstate.backup import read_backup
from omega.cellstate.model import MOST_CLAIMS, Gang, JobSpec, MachineSpec, MachineState, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import CommitRequest, Membership
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Detection, Mode, Position, Transaction
from omega.cellstate.verify import verify

CAPACITY, NEED = (64_000, 262_144), (10, 32)
LEASE_MS = 24 * 3600 * 1000
LIMIT_MS = 100
"""No call occupies the server for longer (semantics 11)."""
NUMBERS = count(1)


def transaction_of(job: str, machines: Sequence[int], mode: Mode) -> Transaction:
    """Claim a task on each of these machines."""
    return Transaction(job, tuple(Claim(machine, 0, 1) for machine in machines), mode, Detection.FINE)


class LoadedCell:
    """The cell, a scheduler, and the calls in the server's slow log."""

    def __init__(self, store: Store, cell: RedisCell, member: Membership) -> None:
        """Measure on `cell`."""
        self.store, self.cell, self.member = store, cell, member
        self.client: Any = store.client
        self.position = Position()
        self.rows: list[dict[str, object]] = []

    def commit(self, job: str, machines: Sequence[int], mode: Mode = Mode.INCREMENTAL) -> int:
        """Place a task on each of these machines."""
        number = next(NUMBERS)
        reply = self.cell.schedulers.commit(
            CommitRequest(self.member, number, [transaction_of(job, machines, mode)], self.position, number)
        )
        self.position = reply.position
        return reply.outcomes[0].placed

    def time(self, what: str, times: int, call: Callable[[int], object]) -> None:
        """Make a call some times; note the longest command of each, and what the server used for all of the call."""
        wall, used, name = list[float](), list[float](), ""
        for i in range(times):
            self.client.slowlog_reset()
            before = self.store.cpu_seconds()
            call(i)
            used.append((self.store.cpu_seconds() - before) * 1000)
            slowest = max(self.client.slowlog_get(1000), key=lambda entry: int(entry["duration"]))
            wall.append(slowest["duration"] / 1000)
            name = slowest["command"].split(b" ")[0].decode()
        row = {"call": what, "longest_ms": round(median(wall), 2), "longest": name, "cpu_ms": round(median(used), 2)}
        self.rows.append(row)
        progress(json.dumps(row))


def fill(store: Store, machines: int, tasks: int) -> LoadedCell:
    """Make the cell with its machines and running tasks."""
    cell = store.make_cell()
    cell.executors.register("bench", "bench", LEASE_MS, 0)
    for numbers in chunks(range(machines), 1000):
        cell.machines.join("bench", [MachineSpec(f"m{i}", CAPACITY) for i in numbers], 0)
    loaded = LoadedCell(store, cell, cell.schedulers.register("filler/0", "bench", LEASE_MS, 0))
    cell.jobs.submit([JobSpec("large", "large", "batch", (TaskGroup(NEED, tasks),))], 0, "bench")
    for numbers in chunks((i % machines for i in range(tasks)), 2000):
        if loaded.commit("large", numbers) != len(numbers):
            raise RuntimeError("a commit of the filling did not place all of its claims")
        while cell.executors.receive(1):
            pass
    progress(f"{machines:,} machines, {tasks:,} tasks, {store.memory_bytes() / 1e6:.0f} MB")
    return loaded


def measure(loaded: LoadedCell, machines: int, times: int) -> None:
    """Make each kind of call."""
    cell, rng, at = loaded.cell, random.Random("scale"), 1
    loaded.client.config_set("slowlog-log-slower-than", 0)
    loaded.client.config_set("slowlog-max-len", 1000)

    def small(tasks: int, gang: Gang = Gang.NO) -> str:
        number = next(NUMBERS)
        cell.jobs.submit(
            [JobSpec(f"s{number}", f"s{number}", "batch", (TaskGroup(NEED, tasks),), gang=gang)], 1, "bench"
        )
        return f"s{number}"

    def ends(runs: int, how: EndKind = EndKind.FINISHED) -> list[TaskEnd]:
        some = cell.machines.runs(rng.sample(range(machines), runs))
        first = {run.machine: run.placement for run in some if run.job == "large" and not run.leaving}
        reason = "drain" if how is EndKind.EVICTED else ""
        return [TaskEnd(machine, placement, how, "*", reason) for machine, placement in first.items()]

    def place(gangs: Sequence[tuple[str, list[int]]], i: int) -> None:
        loaded.commit(gangs[i][0], gangs[i][1], Mode.GANG)

    def end(calls: Sequence[list[TaskEnd]], i: int) -> None:
        cell.executors.end(calls[i], at, "bench")

    def simple(name: str) -> JobSpec:
        return JobSpec(name, name, "other", (TaskGroup(NEED, 10),))

    lists = [[simple(f"x{i}-{k}") for k in range(1000)] for i in range(times)]
    loaded.time("submit 1,000 jobs", times, lambda i: cell.jobs.submit(lists[i], at, "bench"))
    for claims in (10, 100, 1_000, 2_000, MOST_CLAIMS):
        gangs = [(small(claims, Gang.YES), rng.sample(range(machines), claims)) for _ in range(times)]
        loaded.time(f"gang of {claims:,}", times, partial(place, gangs))
    for number in (1, 325, 2_000):
        calls = [ends(number) for _ in range(times)]
        loaded.time(f"end {number:,} of the large job", times, partial(end, calls))
    jobs = [small(10) for _ in range(times)]
    for job in jobs:
        loaded.commit(job, range(10))
    first = {run.job: TaskEnd(run.machine, run.placement, EndKind.FINISHED) for run in cell.machines.runs(range(10))}
    loaded.time("end 1 of a job of 10", times, lambda i: cell.executors.end([first[jobs[i]]], at, "bench"))
    evictions = [ends(1_000, EndKind.EVICTED) for _ in range(times)]
    loaded.time("evict 1,000 of the large job", times, lambda i: cell.executors.end(evictions[i], at, "bench"))
    chosen = [rng.sample(range(machines), 1000) for _ in range(times)]
    loaded.time("place 1,000 of the large job", times, lambda i: loaded.commit("large", chosen[i]))
    found = cell.jobs.get("large")
    total = found.groups[0].total if found else 0
    loaded.time("resize, 10,000 fewer", 1, lambda _: cell.jobs.resize("large", {0: total - 10_000}, at, "ada"))
    loaded.time("machine down", times, lambda i: cell.machines.set_state(50 + i, MachineState.DOWN, at, "ada"))
    loaded.time("machine gone", times, lambda i: cell.machines.set_state(90 + i, MachineState.GONE, at, "ada"))
    loaded.time("full read", 1, lambda _: cell.schedulers.sync(Position()))
    loaded.time("snapshot after one commit", times, lambda _: cell.log.changed_records(cell.counters()["version"] - 1))
    loaded.time("job in full", 1, lambda _: cell.jobs.get("large"))
    loaded.time("page of jobs", 1, lambda _: cell.jobs.page(50))
    loaded.time("backup", 1, lambda _: read_backup(cell, 1))
    cell.jobs.stop("large", at, "ada")
    loaded.time("housekeeping of a stopped job", times, lambda _: cell.jobs.housekeep(at, "batch/0"))
    loaded.time("cell verify", 1, lambda _: verify(cell))


def main() -> None:
    """Measure and print a document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machines", type=int, default=100_000)
    parser.add_argument("--tasks", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=5)
    asked = parser.parse_args()
    about = computer()
    with measured_store(None) as store:
        loaded = fill(store, asked.machines, asked.tasks)
        memory, scheduler = store.memory_bytes(), scheduler_bytes(store, loaded.cell)
        measure(loaded, asked.machines, asked.times)
        over = [row["call"] for row in loaded.rows if float(str(row["cpu_ms"])) > LIMIT_MS]
        document = {
            "machines": asked.machines,
            "tasks": asked.tasks,
            "memory_bytes": memory,
            "scheduler_mib": round(scheduler / MIB, 1),
            "calls": loaded.rows,
            "over_limit": over,
            "store": store.describe(),
            "computer": about,
        }
        json.dump(document, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
