"""``omega bench blocked``: what jobs that fit nowhere cost those that do (semantics 19).

Pairs of runs of real batch schedulers on a busy cell, one of each pair beside blocked jobs that were submitted
first; and how many attempts one freed machine costs beside thousands of them.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.computer import computer, middle, spread, wait_calm
from benchmarks.contest import Contest, PreparedCell, QueueEmpty, run_contest
from benchmarks.launch import Document, launch, progress
from benchmarks.residents import CAPACITY, chunks, fill, join, queue_jobs
from benchmarks.store import Saved, Store, StoreSettings
from omega.cellstate.array_snapshot import ArraySnapshot
from omega.cellstate.clock import since_1970
from omega.cellstate.errors import StoreError
from omega.cellstate.model import GroupStatus, Job, JobSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import PendingJob, Reply
from omega.cellstate.transaction import Outcome, Position, Transaction, Verdict
from omega.schedulers.presets import BATCH_JOBS, batch

STARTING_SECONDS = 4.0
MOST_TRIES = 4
LEAST = 13_000
"""Millicores that no machine has free: residents take more than 3,000 of 16,000 on every one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(StoreSettings):
    """Number and shapes of the blocked jobs, and the jobs that keep the schedulers busy."""

    machines: int = 10_000
    schedulers: int = 2
    blocked: int = 1_000
    shapes: int = 1_000
    fullness: float = 0.5
    tasks: int = 10
    duration_ms: int = 600
    seconds: float = 5.0
    repeat: int = 5
    sleepers: int = 10_000
    calm_seconds: float = 10.0


def measure(settings: Settings) -> Document:
    """Measure pairs, and the waking."""
    about = computer()
    wake = measure_waking(settings.sleepers, settings.machines)
    progress(f"blocked: one freed machine beside {settings.sleepers:,} blocked jobs: {wake['attempts']} attempts")
    with settings.measured_store() as store:
        cell, runs = BusyCell(store, settings), list[dict[str, Any]]()
        for repeat in range(settings.repeat):
            # The order alternates, so that other load on the computer affects both equally.
            for blocked in (0, settings.blocked) if repeat % 2 else (settings.blocked, 0):
                wait_calm(settings.calm_seconds)
                run = cell.hold(blocked) | {"blocked": blocked, "repeat": repeat}
                runs.append(run | {"tasks_per_cpu_second": _per_cpu_second(run)})
                progress(f"blocked: beside {blocked:,} blocked jobs: {runs[-1]['tasks_per_second']:,} tasks/s")
        without, beside = ([run for run in runs if run["blocked"] == count] for count in (0, settings.blocked))
        ratios, per_cpu = (
            [run[figure] / other[figure] for run, other in zip(beside, without, strict=True)]
            for figure in ("tasks_per_second", "tasks_per_cpu_second")
        )
        return {
            "cell": {"machines": settings.machines, "capacity": list(CAPACITY)},
            "runs": runs,
            "medians": {
                name: round(middle([run["tasks_per_second"] for run in each]))
                for name, each in (("without", without), ("beside", beside))
            },
            "ratio": round(middle(ratios), 3),
            "spread": spread(ratios, 3),
            "cpu_ratio": round(middle(per_cpu), 3),
            "cpu_spread": spread(per_cpu, 3),
            "wake": wake,
            "store": store.describe(),
            "computer": about,
            "chosen": settings.values(
                "blocked", "shapes", "schedulers", "fullness", "tasks", "duration_ms", "seconds", "repeat"
            ),
        }


def _per_cpu_second(run: dict[str, Any]) -> float:
    """Tasks placed for each second of CPU time that schedulers and server used: what else runs matters little."""
    used = sum(float(seconds) for name, seconds in run["cpu"].items() if not name.startswith("simulated/"))
    return round(float(run["tasks_per_second"]) / max(used, 1e-9), 1)


@dataclass(slots=True)
class BusyCell:
    """The busy cell, with and without blocked jobs in front of the queue; put back for every run."""

    store: Store
    settings: Settings
    jobs_per_second: float = 6_000.0
    cell: RedisCell = field(init=False)
    filled: Saved = field(init=False)
    queued: dict[int, tuple[Saved, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Make the cell and its residents."""
        self.cell = self.store.make_cell()
        join(self.cell, self.settings.machines)
        tasks = fill(self.cell, self.settings.machines, self.settings.fullness, "blocked")
        self.cell.executors.receive(1, most=10 * tasks + 1)
        self.filled = Saved.save(self.store, "filled")

    def hold(self, blocked: int) -> dict[str, Any]:
        """Run the schedulers; again with a longer queue when it ran dry."""
        settings = self.settings
        sizes: dict[str, Any] = {
            "batch": settings.schedulers,
            "tasks_per_job": settings.tasks,
            "jobs_per_call": BATCH_JOBS,
        }
        contest = Contest(fullness=settings.fullness, **sizes)
        for _ in range(MOST_TRIES):
            if blocked not in self.queued:
                self.queued[blocked] = self._queue(blocked)
            try:
                return run_contest(
                    self.store, PreparedCell(self.filled, *self.queued[blocked]), contest, settings.seconds, blocked
                )
            except QueueEmpty:
                self.jobs_per_second *= 2
                self.queued.clear()
                progress("blocked: the queue ran dry; again with twice as many jobs")
        raise StoreError(f"the queue ran dry {MOST_TRIES} times; take shorter --seconds")

    def _queue(self, blocked: int) -> tuple[Saved, float]:
        self.filled.restore()
        submitted = since_1970()
        for chunk in chunks(blocked_jobs(blocked, self.settings.shapes), 1_000):
            self.cell.jobs.submit(chunk, int(submitted * 1000), "bench")
        jobs = int(self.jobs_per_second * (self.settings.seconds + STARTING_SECONDS))
        groups = (TaskGroup((1_000, 2_048), self.settings.tasks, self.settings.duration_ms),)
        queue_jobs(self.cell, "batch", jobs, groups)
        return Saved.save(self.store, f"queued-{blocked}"), submitted


def blocked_jobs(number: int, shapes: int) -> Iterator[JobSpec]:
    """Jobs of one task that no machine has room for."""
    for i in range(number):
        group = TaskGroup((LEAST + i % shapes, 512), 1, 1_000)
        yield JobSpec(f"blocked{i}", f"blocked-{i}", "batch", (group,))


def measure_waking(sleepers: int, machines: int) -> dict[str, Any]:
    """Attempts that one freed machine costs a scheduler beside so many sleeping jobs, each of a shape of its own."""
    scheduler, snapshot = batch("waking"), ArraySnapshot(len(CAPACITY))
    rows = np.array([(i, 1, 0, 1, *CAPACITY, *CAPACITY) for i in range(machines)], dtype=np.int64)
    snapshot.apply(Reply(Position(1, "full"), full=True, rows=rows))
    jobs = (_pending(i) for i in range(sleepers))
    scheduler.admit([PendingJob(i, job) for i, job in enumerate(jobs)])
    while works := scheduler.choose(0.0):
        scheduler.decide(works, snapshot, 0.0)
    freed = np.array([(0, 2, 0, 1, *CAPACITY, 0, 0)], dtype=np.int64)
    snapshot.apply(Reply(Position(2, "freed"), full=False, rows=freed))
    attempts = placed = 0
    began = time.perf_counter()
    scheduler.requeue(snapshot, 0.0)
    while works := scheduler.choose(0.0):
        attempts += len(works)
        transactions = scheduler.decide(works, snapshot, 0.0)
        placed += len(transactions)
        scheduler.settle([(each, _all(each)) for each in transactions], 0.0)
        scheduler.requeue(snapshot, 0.0)
    took = time.perf_counter() - began
    return {"sleepers": sleepers, "attempts": attempts, "placed": placed, "milliseconds": round(1000 * took, 2)}


def _pending(i: int) -> Job:
    need = LEAST + i % 3_000, 512 + i
    group = GroupStatus(need=need, total=1, unplaced=1, waiting="0")
    return Job(id=f"j{i}", name=f"j{i}", kind="batch", order=i, groups=[group])


def _all(transaction: Transaction) -> Outcome:
    return Outcome(tuple((claim.count, Verdict.PLACED) for claim in transaction.claims))


if __name__ == "__main__":
    launch(Settings, measure)
