"""The large cells of docs/scale.md, made in about a minute each: many running tasks, many pending jobs."""

from dataclasses import dataclass

from benchmarks.launch import progress
from benchmarks.residents import Filler, chunks, join
from omega.cellstate.clock import now_ms
from omega.cellstate.model import JobSpec, TaskGroup
from omega.cellstate.redis import RedisCell

NEED = (500, 1_024)
LARGE = (17_000, 1_024)
"""What a task of a pending job needs: more than a machine has."""
TASKS = 10
"""Tasks of each job; of a running one each on another machine."""
JOBS_PER_CALL = 1_000
PROGRESS_EVERY = 25
LEASE_MS = 24 * 3_600_000
USERS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Number of machines, of running jobs and of pending jobs."""

    machines: int
    running: int
    pending: int


SIZES = {
    "small": Size(machines=1_000, running=500, pending=500),
    "reduced-running": Size(machines=2_000, running=2_000, pending=100),
    "reduced-pending": Size(machines=1_000, running=100, pending=10_000),
    "running": Size(machines=100_000, running=100_000, pending=1_000),
    "pending": Size(machines=1_000, running=1_000, pending=840_000),
}
"""Cells by name: one to compare with, two for a trial, that of a million running tasks (A), that of 840,000 pending
jobs (B)."""


def fill_large(cell: RedisCell, size: Size) -> tuple[str, str]:
    """Add machines, running and pending jobs, and a live scheduler; returns the ids of a running and a pending job."""
    join(cell, size.machines, lease_ms=LEASE_MS)
    filler, number = Filler(cell, "large"), 0
    places = ([((TASKS * job + task) % size.machines, 1) for task in range(TASKS)] for job in range(size.running))
    for number, call in enumerate(chunks(places, JOBS_PER_CALL), 1):
        filler.place(NEED, call)
        while cell.executors.receive(1):
            pass
        if number % PROGRESS_EVERY == 0:
            progress(f"large cell: {filler.tasks:,} tasks run")
    filler.leave()
    cell.schedulers.register("batch/0", "bench", LEASE_MS, now_ms())
    group = TaskGroup(LARGE, TASKS, 1_000)
    jobs = (
        JobSpec(f"{i:012x}", f"job{i}", "batch", (group,), spec={"user": f"user{i % USERS}"})
        for i in range(size.pending)
    )
    for chunk in chunks(jobs, JOBS_PER_CALL):
        cell.jobs.submit(chunk, now_ms(), "bench")
    progress(f"large cell: {size.pending:,} jobs are pending")
    return f"resident-large-{number}-0", f"{size.pending - 1:012x}"
