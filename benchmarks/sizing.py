"""How much memory and disk of the store an operator plans for: ``python -m benchmarks.sizing``.

Fills a cell step by step and reads what each step added, the log apart: machines with attributes; jobs of a command
with one task each, while they are pending, while they run and when they have ended; lines of the log. The file of
writes is rewritten by the server from time to time; what the steps add to it is the traffic between two rewrites.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from benchmarks.residents import BENCH_EXECUTOR, CAPACITY, LEASE_MS, chunks
from benchmarks.store import Store, measured_store
from omega.cellstate.clock import now_ms
from omega.cellstate.errors import StoreError
from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import CommitRequest
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Position, Transaction
from omega.submission import new_id

WARM = 20
COMMAND = {"name": "train", "command": ["python3", "train.py", "--epochs", "10"], "time_limit": 3_600_000}
NUMBERS = count(1)


@dataclass
class Meter:
    """Reads what a step adds: bytes of memory without the log, bytes of the log, bytes of the file of writes."""

    store: Store
    rows: dict[str, dict[str, float]] = field(default_factory=dict)
    _before: tuple[int, int, int] = (0, 0, 0)

    def begin(self) -> None:
        """Remember where a step begins."""
        self._before = self._now()

    def end(self, what: str, number: int) -> None:
        """Note what a step added for each of so many things, and begin the next one."""
        grown = [round((now - before) / number, 1) for now, before in zip(self._now(), self._before, strict=True)]
        self.rows[what] = dict(zip(("memory", "log", "file"), grown, strict=True))
        self.begin()

    def _now(self) -> tuple[int, int, int]:
        client: Any = self.store.client
        log = int(client.memory_usage(self.store.prefix + "log", samples=0) or 0)
        written = int(client.info("persistence").get("aof_current_size", 0))
        return self.store.memory_bytes() - log, log, written


class SizedCell:
    """A cell that is filled with jobs of one task, each on a machine of its own."""

    def __init__(self, store: Store, at_once: int) -> None:
        """Make the cell with its machines' executor and a scheduler. `at_once`: jobs per call, thus per version."""
        self.at_once = at_once
        self.cell: RedisCell = store.make_cell()
        self.cell.executors.register(BENCH_EXECUTOR, "bench", LEASE_MS, now_ms())
        self.member = self.cell.schedulers.register("batch/0", "bench", LEASE_MS, now_ms())
        self.position = self.cell.schedulers.sync(Position()).position

    def join(self, number: int) -> None:
        """Add machines with two attributes."""
        names = (f"m{next(NUMBERS)}.cell.example" for _ in range(number))
        racks = ({"zone": f"zone-{place % 3}", "rack": f"rack-{place % 40}"} for place in range(number))
        specs = [MachineSpec(name, CAPACITY, rack) for name, rack in zip(names, racks, strict=True)]
        self.cell.machines.join(BENCH_EXECUTOR, specs, now_ms())

    def submit(self, number: int) -> list[str]:
        """Submit jobs with ids and names as those of ``omega job submit``; return the ids."""
        group = TaskGroup((1_000, 2_048), 1, spec=COMMAND)
        specs = [
            JobSpec(new_id(), f"train-{next(NUMBERS):09}", "batch", (group,), spec={"simulate": True})
            for _ in range(number)
        ]
        for part in chunks(specs, self.at_once):
            self.cell.jobs.submit(part, now_ms(), "ada")
        return [each.id for each in specs]

    def place(self, jobs: Sequence[str], first: int) -> None:
        """Place the task of each job on the next machine from index `first` on. Raises StoreError."""
        claimed = (Transaction(job, (Claim(first + i, 0, 1),)) for i, job in enumerate(jobs))
        for part in chunks(claimed, self.at_once):
            request = CommitRequest(self.member, next(NUMBERS), part, self.position, now_ms(), executors=(1,))
            reply = self.cell.schedulers.commit(request)
            self.position = reply.position
            self.cell.executors.receive(1)
            if not all(outcome.accepted for outcome in reply.outcomes):
                raise StoreError("a task was not placed")

    def end(self, machines: range) -> None:
        """Let the tasks on these machines finish."""
        for part in chunks(self.cell.machines.runs(machines), self.at_once):
            ends = [TaskEnd(run.machine, run.placement, EndKind.FINISHED) for run in part]
            self.cell.executors.end(ends, now_ms(), BENCH_EXECUTOR)


def measure(store: Store, number: int, at_once: int) -> dict[str, dict[str, float]]:
    """Fill a cell with machines and jobs, let these run and end; return bytes per machine, job and version."""
    meter, sized = Meter(store), SizedCell(store, at_once)
    sized.join(WARM)
    sized.place(sized.submit(WARM), 0)
    sized.end(range(WARM))  # the server has all scripts now
    meter.begin()
    sized.join(number)
    meter.end("machine", number)
    jobs = sized.submit(number)
    meter.end("job, pending", number)
    sized.place(jobs, WARM)
    meter.end("job, when its task runs", number)
    sized.end(range(WARM, WARM + number))
    meter.end("job, when it has ended", number)
    client: Any = store.client
    log = client.memory_usage(store.prefix + "log", samples=0) / client.xlen(store.prefix + "log")
    meter.rows["version in the log"] = {"memory": round(log, 1)}
    return meter.rows


def main() -> None:
    """Measure and print a document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=9_000, help="machines, and jobs; more jobs are not kept")
    parser.add_argument("--at-once", type=int, default=20, help="jobs per call, and so per version of the cell")
    asked = parser.parse_args()
    with measured_store(None, append_only=True) as store:
        json.dump(
            {"bytes": measure(store, asked.number, asked.at_once), "store": store.describe()}, sys.stdout, indent=1
        )


if __name__ == "__main__":
    main()
