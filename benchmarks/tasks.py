"""``omega bench tasks``: what it costs to run tasks on this computer, beside HyperQueue where that is installed.

One scheduler and one agent are processes. Tasks of `true` are measured by their rate, their processor time by kind of
process, and the time from the end of one to the start of the next; sleeping tasks by memory and processor time.
"""

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.computer import computer, cpu_seconds, middle, wait_calm
from benchmarks.launch import Document, launch, progress
from benchmarks.store import Store, StoreSettings
from omega.cellstate.errors import StoreError
from omega.cellstate.model import JobSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.client.client import Client
from omega.live.agent.places import AgentPlaces
from omega.live.agent.process_tree import below, processes
from omega.live.processes.supervisor import ProcessSupervisor
from omega.queries.job_state import ended

AGENT = "tasks"
WARM = 20
DEADLINE_SECONDS = 600.0
SETTLE_SECONDS = 5.0
"""Time between the start of the last sleeping task and the measurement."""
POLL_SECONDS = 0.05
HYPERQUEUE_SECONDS = 300.0
FOREVER = "86400"
KERNEL_STACK_KIB = 16

HYPERQUEUE = """
import json, sys, time
from hyperqueue import Job, LocalCluster
from hyperqueue.cluster import WorkerConfig
tasks, cores = int(sys.argv[1]), int(sys.argv[2])
with LocalCluster() as cluster:
    cluster.start_worker(WorkerConfig(cores=cores))
    client = cluster.client()
    def run(number):
        job = Job()
        for _ in range(number):
            job.program(["true"])
        began = time.monotonic()
        client.wait_for_jobs([client.submit(job)])
        return number / (time.monotonic() - began)
    run(20)
    print(json.dumps(run(tasks)))
"""
"""Runs tasks of `true`, one core each, on a server and a worker of its own; prints the tasks per second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(StoreSettings):
    """Numbers of tasks and processes; 0 leaves a part out."""

    small: int = 1_000
    """Tasks of 20 millicores."""
    whole: int = 500
    """Tasks of one core, of which as many run at once as the computer has cores."""
    foreign: int = 2_000
    """Sleeping processes that are no tasks, beside which the tasks of 20 millicores run again."""
    sleeping: int = 1_000
    sleep_seconds: float = 20.0
    """Measured time of the sleeping tasks."""
    calm_seconds: float = 10.0


def measure(settings: Settings) -> Document:
    """Return rates, processor times and memory."""
    about, runs, asleep = computer(), list[dict[str, Any]](), None
    with settings.measured_store() as store:
        cell = store.make_cell()
        own = {"OMEGA_STATE": str(store.directory / "state")}
        with ProcessSupervisor(store.url, store.cell, store.directory / "logs", settings=own, bound=True) as group:
            for member in ("batch/0", f"agent/{AGENT}"):
                group.start(member)
            group.wait_ready(cell)
            with Client(store=store.url, cell=store.cell) as client:
                at = Bench(store, cell, client, group)
                at.run("warm", WARM, 20)
                wait_calm(settings.calm_seconds)
                if settings.small:
                    runs.append(at.run("cpu 20m", settings.small, 20))
                if settings.whole:
                    runs.append(at.run("cpu 1", settings.whole, 1_000))
                if settings.foreign:
                    with foreign_processes(settings.foreign):
                        runs.append(at.run(f"cpu 20m beside {settings.foreign:,}", settings.small, 20))
                if settings.sleeping:
                    asleep = at.sleep(settings.sleeping, settings.sleep_seconds)
        described = store.describe()
        cell.close()
    return {
        "runs": runs,
        "sleeping": asleep,
        "hyperqueue_per_second": hyperqueue(settings.small) if settings.small else None,
        "store": described,
        "computer": about,
        "chosen": settings.values("small", "whole", "foreign", "sleeping"),
    }


@dataclass(slots=True)
class Bench:
    """A cell with one agent, and the processes that are measured."""

    store: Store
    cell: RedisCell
    client: Client
    group: ProcessSupervisor

    def run(self, name: str, tasks: int, millicores: int) -> dict[str, Any]:
        """Run tasks of `true` as one job; return tasks per second and milliseconds of each."""
        progress(f"tasks: {tasks} of {name}")
        used, began = self._cpu(), time.monotonic()
        job = self._submit(tasks, millicores, ["true"])
        while (record := self.cell.jobs.get(job)) is None or not ended(record):
            if time.monotonic() - began > DEADLINE_SECONDS:
                raise StoreError(f"{tasks} tasks did not end in {DEADLINE_SECONDS:g} s")
            time.sleep(POLL_SECONDS)
        seconds = time.monotonic() - began
        cpu = {kind: round(1000 * (spent - used[kind]) / tasks, 2) for kind, spent in self._cpu().items()}
        slots = min(tasks, (os.cpu_count() or 1) * 1000 // millicores)
        return {
            "name": name,
            "tasks": tasks,
            "per_second": round(tasks / seconds, 1),
            "cpu_ms": cpu,
            "end_to_start_p50_ms": round(1000 * middle(self._gaps(job, slots)), 1),
        }

    def sleep(self, tasks: int, seconds: float) -> dict[str, Any]:
        """Let tasks sleep; return what they, their supervisors and the guard cost then."""
        progress(f"tasks: {tasks} that sleep")
        began = time.monotonic()
        job = self._submit(tasks, max(1, (os.cpu_count() or 1) * 1000 // tasks), ["sleep", FOREVER])
        while len(list(self._places.tasks.glob(f"{job}.*/running"))) < tasks:
            if time.monotonic() - began > DEADLINE_SECONDS:
                raise StoreError(f"{tasks} tasks did not start in {DEADLINE_SECONDS:g} s")
            time.sleep(0.5)
        started = time.monotonic() - began
        time.sleep(SETTLE_SECONDS)
        used, at = self._cpu(), time.monotonic()
        time.sleep(seconds)
        spent = time.monotonic() - at
        share = {kind: round(100 * (each - used[kind]) / spent, 2) for kind, each in self._cpu().items()}
        mib = self._memory() >> 20
        restarted = self._restarted(seconds)
        self.client.stop(job)
        return {
            "tasks": tasks,
            "started_seconds": round(started, 1),
            "mib": mib,
            "core_percent": share,
            "guard_percent_after_restart": restarted,
        }

    def _restarted(self, seconds: float) -> float:
        """Kill the agent and start it again; return the part of a core in percent that its guard takes then."""
        member = f"agent/{AGENT}"
        self.group.members[member].kill()
        self.group.members[member].wait()
        self.group.start(member)
        self.group.wait_ready(self.cell)
        time.sleep(SETTLE_SECONDS)
        used, at = self._cpu()["guard"], time.monotonic()
        time.sleep(seconds)
        return round(100 * (self._cpu()["guard"] - used) / (time.monotonic() - at), 2)

    def _memory(self) -> int:
        """Return the bytes of the guard and all below it: supervisors and commands."""
        table, agent = processes(), self.group.members[f"agent/{AGENT}"].pid
        return sum(map(memory_bytes, below([agent], table)))

    @property
    def _places(self) -> AgentPlaces:
        return AgentPlaces(self.store.directory / "state", self.store.cell, AGENT)

    def _submit(self, tasks: int, millicores: int, command: list[str]) -> str:
        job = f"t{time.monotonic_ns():x}"
        self.client.submit(JobSpec(job, job, "batch", (TaskGroup((millicores, 1), tasks, spec={"command": command}),)))
        return job

    def _gaps(self, job: str, slots: int) -> list[float]:
        """Return the seconds from each end to the start that took its room: the `slots`-th start after it."""
        starts, ends = list[float](), list[float]()
        for place in self._places.tasks.glob(f"{job}.*"):
            starts.append((place / "running").stat().st_mtime)
            ends.append((place / "result").stat().st_mtime)
        return [start - end for start, end in zip(sorted(starts)[slots:], sorted(ends), strict=False)]

    def _cpu(self) -> dict[str, float]:
        """Return the processor seconds so far by kind of process; commands count with their supervisors."""
        pids = {member.partition("/")[0]: process.pid for member, process in self.group.members.items()}
        table = processes()
        used = {kind: cpu_seconds(pid) for kind, pid in pids.items()} | {"store": self.store.cpu_seconds()}
        guards = {pid for pid, each in table.items() if each.parent == pids["agent"]}
        used["guard"] = sum(cpu_seconds(pid) for pid in guards)
        tasks = sum(cpu_seconds(pid, children=True) for pid in below(guards, table))
        reaped = sum(cpu_seconds(pid, children=True) - cpu_seconds(pid) for pid in guards)
        return used | {"supervisors and commands": tasks + reaped}


@contextmanager
def foreign_processes(number: int) -> Iterator[None]:
    """Let so many processes sleep during the block."""
    started = [subprocess.Popen(["sleep", FOREVER]) for _ in range(number)]
    try:
        yield
    finally:
        for each in started:
            each.kill()
        for each in started:
            each.wait()


def memory_bytes(pid: int) -> int:
    """Return what a process takes: its part of each page, page tables and kernel stack; 0 where it cannot be read."""
    try:
        place = Path("/proc") / str(pid)
        text = (place / "smaps_rollup").read_text() + (place / "status").read_text()
    except OSError:
        return 0
    kib = {line.split(":")[0]: line.split()[1] for line in text.splitlines() if line.endswith("kB")}
    return (int(kib.get("Pss", 0)) + int(kib.get("VmPTE", 0)) + KERNEL_STACK_KIB) << 10


def hyperqueue(tasks: int) -> float | None:
    """Return HyperQueue's tasks of `true` per second on this computer; None where it is not installed."""
    if importlib.util.find_spec("hyperqueue") is None:
        return None
    progress(f"tasks: {tasks} of HyperQueue")
    words = [sys.executable, "-c", HYPERQUEUE, str(tasks), str(os.cpu_count())]
    said = subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, check=False, text=True, timeout=HYPERQUEUE_SECONDS
    )
    if said.returncode:
        raise StoreError(f"HyperQueue: {said.stderr.strip().splitlines()[-1:]}")
    return round(float(json.loads(said.stdout.splitlines()[-1])), 1)


if __name__ == "__main__":
    launch(Settings, measure)
