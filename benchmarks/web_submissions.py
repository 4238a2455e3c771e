"""Submissions by HTTP: jobs per second one by one and in lists, and what a job costs ``omega serve``."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from benchmarks.computer import InstructionCounts, computer, cpu_seconds
from benchmarks.launch import Document, launch, progress
from benchmarks.residents import BENCH_EXECUTOR, CAPACITY
from benchmarks.store import Store, StoreSettings
from omega.cellstate.clock import now_ms
from omega.cellstate.errors import StoreError
from omega.cellstate.model import MachineSpec

LEASE_MS = 24 * 3_600_000
STARTING_SECONDS = 30.0
MACHINES = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(StoreSettings):
    """Connections that submit at the same time; submissions and lists a second; seconds; jobs of a list."""

    connections: int = 32
    rate: int = 1_000
    list_rate: int = 10
    seconds: float = 10.0
    jobs: int = 500


def measure(settings: Settings) -> Document:
    """Submit single jobs, then lists of jobs, each for some seconds."""
    about = computer()
    with settings.measured_store() as store:
        cell = store.make_cell()
        cell.executors.register(BENCH_EXECUTOR, "bench", LEASE_MS, now_ms())
        cell.machines.join(BENCH_EXECUTOR, [MachineSpec(f"m{i}", CAPACITY, {}) for i in range(MACHINES)], now_ms())
        cell.schedulers.register("batch/0", "bench", LEASE_MS, now_ms())
        with served(store) as (port, token, pid):
            results = {}
            for name, rate, jobs in (("single", settings.rate, 1), ("lists", settings.list_rate, settings.jobs)):
                load = Load(port, token, store.cell, jobs)
                asyncio.run(load.run(settings.connections, rate, 1.0))  # it imports, and loads scripts
                counts = InstructionCounts({"serve": pid})
                cpu, server = cpu_seconds(pid), store.cpu_seconds()
                took = asyncio.run(load.run(settings.connections, rate, settings.seconds))
                results[name] = load.report(took, cpu_seconds(pid) - cpu, store.cpu_seconds() - server)
                if made := counts.stop().get("serve"):
                    results[name]["instructions_per_job"] = round(made / max(1, len(load.waits) * jobs))
                progress(f"web-submissions: {name}: {results[name]}")
    chosen = settings.values("connections", "rate", "list_rate", "seconds", "jobs")
    return {**results, "computer": about, "chosen": chosen}


@contextmanager
def served(store: Store) -> Iterator[tuple[int, str, int]]:
    """Run ``omega serve`` on a free port; yield the port, a token and the process id."""
    command = [
        sys.executable,
        "-m",
        "omega.cli.main",
        "--store",
        store.url,
        "--json",
        "serve",
        "--listen",
        "127.0.0.1:0",
    ]
    command += ["--token-file", str(store.directory / "token")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            said = json.loads(process.stdout.readline() if process.stdout else "{}")
            port = int(said["url"].rpartition(":")[2].strip("/"))
            yield port, (store.directory / "token").read_text("ascii").split()[-1], process.pid
        finally:
            process.terminate()


class Load:
    """Connections that submit jobs of one form, with names of their own."""

    def __init__(self, port: int, token: str, cell: str, jobs: int) -> None:
        """Submit `jobs` jobs at a time."""
        self._port, self._jobs, self._number = port, jobs, 0
        self._head = (
            f"POST /v1/jobs?cell={cell} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n"
            "Content-Type: application/json\r\nContent-Length: "
        )
        self._began = now_ms()
        self.waits: list[float] = []

    def _request(self) -> bytes:
        jobs = []
        for _ in range(self._jobs):
            self._number += 1
            tasks = [{"count": 2, "resources": {"cpu": 1, "memory": "256Mi"}, "command": ["sh", "-c", "exit 0"]}]
            jobs.append({"name": f"job-{self._began}-{self._number}", "tasks": tasks})
        body = json.dumps(jobs if self._jobs > 1 else jobs[0]).encode()
        return f"{self._head}{len(body)}\r\n\r\n".encode() + body

    async def run(self, connections: int, rate: int, seconds: float) -> float:
        """Submit at a rate for some seconds; return how long it took."""
        self.waits.clear()
        began = time.perf_counter()
        due = iter(range(round(rate * seconds)))

        async def one() -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            for number in due:
                request = self._request()
                await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
                sent = time.perf_counter()
                writer.write(request)
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                answer = await reader.readexactly(length)
                if b" 201 " not in head[:20]:
                    raise StoreError(f"omega serve: {answer.decode()[:300]}")
                self.waits.append(time.perf_counter() - sent)
            writer.close()

        await asyncio.gather(*(one() for _ in range(connections)))
        return time.perf_counter() - began

    def report(self, took: float, cpu: float, store_cpu: float) -> dict[str, Any]:
        """Return the figures of a run of `took` seconds, in which the server used `cpu` seconds of a processor."""
        waits, jobs = sorted(self.waits), len(self.waits) * self._jobs
        return {
            "submissions_per_second": round(len(waits) / took, 1),
            "jobs_per_second": round(jobs / took, 1),
            "wait_ms": {
                "p50": round(1e3 * waits[len(waits) // 2], 2),
                "p99": round(1e3 * waits[len(waits) * 99 // 100], 2),
            },
            "cpu_ms_per_job": round(1e3 * cpu / jobs, 4),
            "cores": round(cpu / took, 3),
            "store_cpu_ms_per_job": round(1e3 * store_cpu / jobs, 4),
        }


if __name__ == "__main__":
    launch(Settings, measure)
