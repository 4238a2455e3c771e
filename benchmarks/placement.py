"""How long a policy takes to place a job on a private copy, by the size of the cell."""

import time
from collections.abc import Mapping
from random import Random

import numpy as np

from cellstate.cell import Reply
from cellstate.model import Gang, GroupStatus, Job, JobState
from cellstate.transaction import Position
from cellstate.view import View
from schedulers.placement.first_fit import RandomFirstFit
from schedulers.placement.scored import BestFit
from schedulers.policies import Placement
from schedulers.work import Work

POLICIES: Mapping[str, Placement] = {
    "RandomFirstFit": RandomFirstFit(), "BestFit": BestFit(), "BestFit(apart=1)": BestFit(apart=1),
}  # fmt: skip
"""The policies of the presets, and plain best fit."""
CAPACITY = (16_000, 65_536)
NEED, TASKS = (1_000, 4_096), 10
FULLNESS = 0.6
SECONDS, FEWEST, MOST = 2.0, 100, 5_000
"""Each policy is given so many seconds, but at least and at most so many jobs."""


def measure_placement(sizes: list[int]) -> list[dict[str, object]]:
    """Microseconds to place a job of ten tasks in a cell 60 % full: p50, p99, mean."""
    return [_measure(name, policy, size) for size in sizes for name, policy in POLICIES.items()]


def view_of(machines: int, fullness: float, rng: "np.random.Generator") -> View:
    """A copy of a cell of equal machines, each filled within 30 % of `fullness`."""
    rows = np.zeros((machines, 8), dtype=np.int64)
    rows[:, 0] = np.arange(machines)
    rows[:, 1], rows[:, 3] = 1, 1
    rows[:, 4:6] = CAPACITY
    goal = np.clip(fullness + rng.uniform(-0.3, 0.3, machines), 0, 1)
    rows[:, 6] = goal * CAPACITY[0]
    rows[:, 7] = goal * CAPACITY[1]
    view = View(2)
    view.apply(Reply(Position(1, "-" * 10), full=True, rows=rows))
    return view


def job(tasks: int) -> Job:
    """A pending job of equal tasks."""
    group = GroupStatus(NEED, 0, tasks, tasks, 0, 0, 0, 0, f"0-{tasks - 1}", ())
    return Job("j", "j", "batch", 0, 1, JobState.ACTIVE, Gang.NO, 0, [group])


def _measure(name: str, policy: Placement, machines: int) -> dict[str, object]:
    view = view_of(machines, FULLNESS, np.random.default_rng(machines))
    rng, subject = Random(f"placement/{name}/{machines}"), job(TASKS)
    times: list[float] = []
    until = time.perf_counter() + SECONDS
    while len(times) < FEWEST or (len(times) < MOST and time.perf_counter() < until):
        work, mark = Work.of(subject), view.mark()
        began = time.perf_counter()
        claims = policy.place(work, view, rng)
        times.append((time.perf_counter() - began) * 1e6)
        if sum(claim.count for claim in claims) != TASKS:
            raise RuntimeError(f"{name}: did not place the job in a cell {FULLNESS:.0%} full")
        view.undo(mark)
    p50, p99 = np.percentile(times, [50, 99])
    return {
        "policy": name, "machines": machines, "p50_us": round(float(p50), 1), "p99_us": round(float(p99), 1),
        "mean_us": round(float(np.mean(times)), 1), "jobs": len(times), "tasks_per_job": TASKS, "fullness": FULLNESS,
    }  # fmt: skip
