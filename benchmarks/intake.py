"""``omega bench intake``: the server's cost of giving a scheduler the best jobs of a long queue.

A hundred thousand jobs of fifty users wait. A scheduler that owns some of the buckets asks for the next jobs of eight
lanes, again and again, each time behind what it got: with all jobs mixed evenly, and with the first ones of every lane
in the buckets of another member that stands still. The time is the server's own, from its slow log.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.computer import computer
from benchmarks.launch import Document, launch, progress
from benchmarks.residents import chunks
from benchmarks.store import Store, StoreSettings
from omega.cellstate.model import BUCKETS, JobSpec, TaskGroup, bucket_of
from omega.cellstate.redis import RedisCell
from omega.cellstate.transaction import Ask, Intake, Position
from omega.schedulers.queue.intake import LEAST_AT_HAND, MOST_ASKED
from omega.schedulers.sharing import owned


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(StoreSettings):
    """Length of the queue, owners of its jobs, and number of requests."""

    jobs: int = 100_000
    tasks: int = 10
    users: int = 50
    schedulers: int = 2
    most: int = 32
    calls: int = 1_000


def measure(settings: Settings) -> Document:
    """Measure both queues."""
    about = computer()
    with settings.measured_store() as store:
        queues = {}
        for name in ("even", "skewed"):
            cell = store.make_cell()
            began = time.perf_counter()
            for chunk in chunks(_jobs(settings, skewed=name == "skewed"), 1_000):
                cell.jobs.submit(chunk, 0, "bench")
            progress(f"intake: {settings.jobs:,} jobs, {name}, in {time.perf_counter() - began:.0f} s")
            queues[name] = _ask(settings, store, cell)
            progress(f"intake: {name}: p99 {queues[name]['p99_ms']} ms")
        return {
            "queues": queues,
            "store": store.describe(),
            "computer": about,
            "chosen": settings.values("jobs", "tasks", "users", "schedulers", "most", "calls"),
        }


def _members(settings: Settings) -> list[str]:
    return [f"batch/{i}" for i in range(settings.schedulers)]


def _jobs(settings: Settings, *, skewed: bool) -> Iterator[JobSpec]:
    """The jobs in the order of their submission: skewed, those of other members first."""
    group = TaskGroup((1_000, 1_024), settings.tasks, 1_000)
    mine = owned("batch/0", _members(settings))
    names = [f"job{i}" for i in range(settings.jobs)]
    if skewed:
        names.sort(key=lambda name: mine[bucket_of(name)] == "1")
    for i, name in enumerate(names):
        yield JobSpec(name, name, "batch", (group,), spec={"user": f"user{i % settings.users}"})


def _ask(settings: Settings, store: Store, cell: RedisCell) -> dict[str, Any]:
    """Ask for the best jobs of eight lanes in turn; returns the server's time for each call, in milliseconds."""
    client, mine = store.client, owned("batch/0", _members(settings))
    client.config_set("slowlog-log-slower-than", 0)
    client.config_set("slowlog-max-len", 4)
    numbers = sorted(cell.schedulers.lanes())
    after = dict.fromkeys(numbers, 0)
    position, quota = cell.schedulers.sync(Position()).position, max(LEAST_AT_HAND, -(-settings.most // 8))
    milliseconds, given = list[float](), 0
    for call in range(settings.calls):
        chosen = [numbers[(call * MOST_ASKED + i) % len(numbers)] for i in range(MOST_ASKED)]
        asks = tuple(Ask(number, after[number], quota) for number in dict.fromkeys(chosen))
        reply = cell.schedulers.sync(position, Intake("batch", asks, settings.most, mine))
        given += len(reply.jobs)
        for each in reply.jobs:
            after[each.job.lane] = each.arrival
        if len(reply.jobs) < settings.most:
            after = dict.fromkeys(numbers, 0)  # all was read: from the beginning
        milliseconds.append(_last_call(client.slowlog_get(4)))
    return {
        "p50_ms": _at(milliseconds, 0.5),
        "p99_ms": _at(milliseconds, 0.99),
        "most_ms": _at(milliseconds, 1.0),
        "jobs_per_call": round(given / settings.calls, 1),
        "buckets": mine.count("1"),
        "of": BUCKETS,
    }


def _last_call(entries: Sequence[Any]) -> float:
    """How long the last script ran on the server."""
    return float(next(entry["duration"] for entry in entries if entry["command"].startswith(b"EVALSHA"))) / 1000


def _at(values: Sequence[float], share: float) -> float:
    return round(sorted(values)[min(len(values) - 1, int(share * len(values)))], 3)


if __name__ == "__main__":
    launch(Settings, measure)
