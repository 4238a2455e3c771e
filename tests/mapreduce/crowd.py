"""Workers for the tests of MapReduce: placed in a cell of a real server, run in threads or as processes."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from uuid import uuid4

from omega.cellstate.errors import OmegaError
from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.server import connect
from omega.cellstate.shards import Worker
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.live.mapreduce import ShardWorker
from omega.mapreduce.plan import MapReducePlan
from omega.schedulers.sizing import PLAN
from tests.contract.conftest import Member, requeue_lost
from tests.mapreduce.words import ADD, EACH, Command

TIMEOUT_SECONDS = 60.0
_numbers = count(1)


def until(true: Callable[[], object], what: str) -> None:
    """Return once `true()` is; fails with `what` when that takes a minute."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


@dataclass
class Crowd:
    """One MapReduce job in a cell of two machines, and its workers by task."""

    url: str
    folder: Path
    files: Sequence[Path] = ()
    numbers: str = "-"
    map: Command = field(default_factory=lambda: EACH)
    reduce: Command = field(default_factory=lambda: ADD)
    shard: int = 300_000
    reduces: int = 3
    workers: int = 1
    environment: dict[str, str] = field(default_factory=dict)
    beside: "Crowd | None" = None
    """Another job, in whose cell this one is."""
    scratch: Path | None = None

    def __post_init__(self) -> None:
        """Submit the job and place its workers."""
        if self.beside is None:
            self.cell = RedisCell.create(connect(self.url), f"mr-{uuid4().hex[:8]}", url=self.url)
            self.cell.executors.register_agent("m0", "n", 600_000, 0)
            self.cell.machines.join("agent/m0", [MachineSpec(f"m{i}", (100_000, 100_000)) for i in range(2)], 0)
        else:
            self.cell = self.beside.cell
        self.job = f"job{next(_numbers)}"
        files = [(str(path), path.stat().st_size) for path in self.files]
        self.plan = MapReducePlan(
            self.map,
            self.reduce,
            self.reduces,
            self.shard,
            str(self.output),
            str(self.scratch or self.folder / "scratch"),
            files,
            self.numbers,
        )
        group = TaskGroup((1000, 100), self.workers)
        name = self.job if self.beside else "words"
        spec = JobSpec(self.job, name, "mapreduce", (group,), spec={PLAN: self.plan.write()})
        self.cell.jobs.submit([spec], 0, "ada")
        self.member: Member = Member(self.cell, "mapreduce/0") if self.beside is None else self.beside.member
        self.said: list[str] = []
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.place()

    @property
    def output(self) -> Path:
        """Where the answer goes."""
        return self.folder / "out"

    def close(self) -> None:
        """Leave nothing behind."""
        for process in self.processes.values():
            kill(process)
        if self.beside is None:
            self.cell.delete()
            self.cell.close()

    # Placements

    def place(self) -> None:
        """Place the pending tasks, half on each machine."""
        requeue_lost(self.cell)
        job = self.cell.jobs.get(self.job)
        assert job
        left = job.unplaced
        claims = [(machine, each) for machine, each in ((0, left // 2), (1, left - left // 2)) if each]
        assert self.member.place(self.job, *claims).accepted

    def worker(self, task: int) -> Worker:
        """Where a task is placed."""
        from omega.cellstate import ranges

        for run in self.cell.machines.runs([0, 1]):
            if not run.leaving and run.job == self.job and task in ranges.indices(run.tasks):
                return Worker(run.machine, run.placement, task)
        raise AssertionError(f"task {task} is not placed")

    def end(self, task: int, how: EndKind = EndKind.EVICTED) -> None:
        """End a task; an evicted one is pending again."""
        machine, placement, _ = self.worker(task)
        assert self.cell.executors.end([TaskEnd(machine, placement, how, str(task))], 1, "e0") == [1]

    # Running them

    def here(self, task: int = 0, *, surplus: bool = False, hasten: bool = False) -> ShardWorker:
        """A worker for this process; `said` keeps what it reports. With `hasten` pauses take no time, but count."""
        environment = {**os.environ, **self.environment, "OMEGA_TASK": str(task)}
        own = RedisCell.connect(self.url, self.cell.name)
        return ShardWorker(
            own,
            self.job,
            "words",
            self.plan,
            self.worker(task),
            environment,
            time.monotonic,
            _hastened(own) if hasten else time.sleep,
            self.said.append,
            surplus=surplus,
        )

    def thread(self, task: int, *, hasten: bool = False) -> "Running":
        """A worker in a thread."""
        return Running(self.here(task, hasten=hasten))

    def start(self, task: int) -> "subprocess.Popen[bytes]":
        """Start a worker as an agent would: a process group of its own."""
        machine, placement, _ = self.worker(task)
        said = {"JOB": self.job, "MACHINE": f"m{machine}", "PLACEMENT": placement, "TASK": task, "STORE": self.url}
        surroundings = {f"OMEGA_{name}": str(value) for name, value in {**said, "CELL": self.cell.name}.items()}
        process = subprocess.Popen(
            [sys.executable, "-m", "omega.cli.main", "mapreduce", "worker"],
            stdout=subprocess.DEVNULL,
            env={**os.environ, **self.environment, **surroundings},
            start_new_session=True,
        )
        self.processes[task] = process
        return process

    def finish(self) -> None:
        """Wait until every process has ended well."""
        for task, process in self.processes.items():
            assert process.wait(TIMEOUT_SECONDS) == 0, f"worker {task}"


def _hastened(cell: RedisCell) -> Callable[[float], None]:
    """A pause that puts the clock of the store forward, as its caller reads it, instead of waiting."""
    real, passed = cell.store_ms, [0.0]

    def pause(seconds: float) -> None:
        passed[0] += 20 * seconds
        time.sleep(seconds / 20)

    cell.store_ms = lambda: real() + int(passed[0] * 1000)  # type: ignore[method-assign]
    return pause


class Running:
    """A worker at work in a thread, and how that ended."""

    def __init__(self, worker: ShardWorker) -> None:
        self.worker, self.error = worker, OmegaError()
        self.done = -1
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.done = self.worker.run()
        except OmegaError as error:
            self.error = error

    def join(self) -> int:
        """Wait for its end; returns the shards it did, -1 when it could not go on."""
        self.thread.join(TIMEOUT_SECONDS)
        assert not self.thread.is_alive()
        self.worker.cell.close()
        return self.done


def kill(process: "subprocess.Popen[bytes]") -> None:
    """End a worker and its commands at once."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
