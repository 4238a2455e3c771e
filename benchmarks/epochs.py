"""Cost of publishing an epoch, to the attempts of the scheduler that publishes it and to the server.

The publisher runs as in a scheduler process, beside a thread that stands for the attempt loop.
"""

import threading
import time
from dataclasses import dataclass, field
from random import Random
from statistics import median
from typing import Any

import anyio

from benchmarks.launch import Document, progress
from benchmarks.residents import SUBMITTED_AT_ONCE, chunks, join
from benchmarks.store import Saved, Store
from omega.cellstate.array_snapshot import ArraySnapshot
from omega.cellstate.clock import now_ms
from omega.cellstate.model import JobSpec, TaskGroup
from omega.cellstate.pools import Pool, Pools
from omega.cellstate.redis import RedisCell
from omega.schedulers.process.epochs import PERIOD_MS, EpochReader

CASES = ((60, 10_000), (1_000, 10_000))
"""Pools and jobs."""
MACHINES = 1_000
EPOCHS = 3
MEMBER = "batch/0"
_BREATH = 0.0005
"""Seconds between two steps of the loop, as an attempt waits for the store: the rest of the computer is not slowed."""


@dataclass
class Loop:
    """Stands for the attempt loop: counts its own processor time and the longest time between two of its steps."""

    cpu_seconds: float = 0.0
    longest_pause: float = 0.0
    _ended: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Compute until the end, as an attempt does."""
        last = time.perf_counter()
        while not self._ended.is_set():
            sum(range(200))
            time.sleep(_BREATH)
            now = time.perf_counter()
            self.longest_pause = max(self.longest_pause, now - last)
            last, self.cpu_seconds = now, time.thread_time()

    def end(self) -> None:
        """End the thread after its present step."""
        self._ended.set()


def measure_epochs(store: Store, empty: Saved) -> list[Document]:
    """Publish epochs of cells with pools; milliseconds are medians over the epochs of a cell."""
    found = list[Document]()
    for pools, jobs in CASES:
        empty.restore()
        cell = store.open_cell()
        _fill(cell, pools, jobs)
        found.append({"pools": pools, "jobs": jobs, **_measured(store, cell)})
        cell.close()
        progress(f"place: epochs of {pools:,} pools and {jobs:,} jobs measured")
    return found


def _fill(cell: RedisCell, pools: int, jobs: int) -> None:
    rng = Random("epochs")
    join(cell, MACHINES, lease_ms=3_600_000)
    inner = [Pool(f"d{number}") for number in range(max(1, round(pools**0.5)))]
    leaves = [Pool(f"p{number}", rng.choice(inner).name) for number in range(pools - len(inner))]
    below = {pool.parent for pool in leaves}
    cell.pools.set(Pools((*(pool for pool in inner if pool.name in below), *leaves)), 0, now_ms(), "bench")
    specs = (
        JobSpec(f"j{number}", f"j{number}", "batch", (TaskGroup((rng.randint(1, 40) * 100, rng.randint(1, 16) * 256),
                rng.randint(1, 60), 60_000),), spec={"pool": rng.choice(leaves).name})
        for number in range(jobs)
    )  # fmt: skip
    for chunk in chunks(specs, SUBMITTED_AT_ONCE):
        cell.jobs.submit(chunk, now_ms(), "bench")


def _measured(store: Store, cell: RedisCell) -> Document:
    reading = []
    snapshot = ArraySnapshot(len(cell.dimensions))
    snapshot.apply(cell.pools.demands(snapshot.position)[0])
    for _ in range(EPOCHS):
        began = _server_ms(store)
        cell.pools.demands(snapshot.position)
        reading.append(_server_ms(store) - began)
    loop = Loop()
    thread = threading.Thread(target=loop.run, daemon=True)
    thread.start()
    try:
        rounds = anyio.run(_publish, store, cell, loop)
    finally:
        loop.end()
        thread.join()
    return {
        "reading_server_ms": round(median(reading), 1),
        "server_ms": round(median(one[0] for one in rounds), 1),
        "own_cpu_ms": round(median(one[1] for one in rounds), 1),
        "longest_pause_ms": round(median(one[2] for one in rounds), 1),
        "longest_pause_without_ms": round(median(one[3] for one in rounds), 1),
    }


async def _publish(store: Store, cell: RedisCell, loop: Loop) -> list[tuple[float, float, float, float]]:
    """Publish some epochs after a first one, which starts the worker process.

    Of each: milliseconds of the server, of this process beside the loop, of the loop's longest pause, and of its
    longest pause while nothing is published for as long.
    """
    reader, snapshot = EpochReader(store.url, cell.name, MEMBER), ArraySnapshot(len(cell.dimensions))
    found = []
    for number in range(EPOCHS + 1):
        spec = JobSpec(f"x{number}", f"x{number}", "batch", (TaskGroup((100, 256), 1, 60_000),), spec={"pool": "p0"})
        cell.jobs.submit([spec], now_ms(), "bench")
        before, mark = cell.pools.epoch_mark().number, None
        while mark is None or mark == before:
            server, own, began = _server_ms(store), _own_seconds(loop), time.perf_counter()
            loop.longest_pause = 0.0
            await reader.step(snapshot, [MEMBER])
            server, own, pause = _server_ms(store) - server, _own_seconds(loop) - own, loop.longest_pause
            mark = cell.pools.epoch_mark().number
            if mark == before:
                await anyio.sleep(PERIOD_MS / 20_000)
        took, loop.longest_pause = time.perf_counter() - began, 0.0
        await anyio.sleep(took)
        found.append((server, own * 1000, pause * 1000, loop.longest_pause * 1000))
    reader.close()
    return found[1:]


def _own_seconds(loop: Loop) -> float:
    return time.process_time() - loop.cpu_seconds


def _server_ms(store: Store) -> float:
    """Time that the server has spent on commands."""
    stats: Any = store.client.info("commandstats")
    return float(sum(each["usec"] for name, each in stats.items() if name != "cmdstat_info")) / 1000
