"""Time of a policy to place a job on a working copy, by size of the cell."""

import time
from collections.abc import Mapping
from random import Random

import numpy as np

from omega.cellstate.array_snapshot import ArraySnapshot
from omega.cellstate.model import GroupStatus, Job
from omega.cellstate.replies import Reply
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Position
from omega.schedulers.placement.first_fit import FirstFit
from omega.schedulers.placement.service import BestFit, ServicePlacement
from omega.schedulers.policies import Placement
from omega.schedulers.work import Work

POLICIES: Mapping[str, Placement] = {
    "FirstFit": FirstFit(),
    "BestFit": BestFit(),
    "BestFit(apart=1)": BestFit(apart=1),
}
"""Policies that look at room alone."""
SERVICE_TASKS, SERVICE_FROM = 50, 2_000
"""The service job, in cells from so many machines on: smaller ones have too few racks for its demands."""
DEMANDS = {
    "constraints": ["platform == 'x86'", "kernel in ['6.1', '6.6']"],
    "spread": [{"domain": "rack", "most": 2}, {"domain": "power", "share": 0.3}, "zone"],
}
"""Of the service job: two constraints, three levels of failure domains that overlap."""
CAPACITY = (16_000, 65_536)
NEED, TASKS = (1_000, 4_096), 10
FULLNESS = 0.6
SECONDS, FEWEST, MOST = 2.0, 100, 5_000
"""Each policy is given so many seconds, but at least and at most so many jobs."""


def measure_placement(sizes: list[int]) -> list[dict[str, object]]:
    """Microseconds to place a job in a cell 60 % full: p50, p99, mean. Ten tasks; fifty with demands for services."""
    found = []
    for size in sizes:
        snapshot = snapshot_of(size, FULLNESS, np.random.default_rng(size))
        found += [_measure(name, policy, snapshot, job(TASKS)) for name, policy in POLICIES.items()]
        if size >= SERVICE_FROM:
            describe(snapshot)
            found.append(_measure("ServicePlacement", ServicePlacement(), snapshot, job(SERVICE_TASKS, DEMANDS)))
    return found


def describe(snapshot: Snapshot) -> None:
    """Racks of forty machines, power lines across them, four zones, two platforms and three kernels."""
    kernels = ("5.10", "6.1", "6.6")
    snapshot.describe(
        range(snapshot.size),
        [
            (
                f"m{i}",
                (
                    ("kernel", kernels[i % 3]),
                    ("platform", "arm" if i % 5 == 0 else "x86"),
                    ("power", f"p{i % 7}"),
                    ("rack", f"r{i // 40}"),
                    ("zone", f"z{4 * i // snapshot.size}"),
                ),
            )
            for i in range(snapshot.size)
        ],
    )


def snapshot_of(machines: int, fullness: float, rng: "np.random.Generator") -> Snapshot:
    """A copy of a cell of equal machines, each filled within 30 % of `fullness`."""
    rows = np.zeros((machines, 8), dtype=np.int64)
    rows[:, 0] = np.arange(machines)
    rows[:, 1], rows[:, 3] = 1, 1
    rows[:, 4:6] = CAPACITY
    goal = np.clip(fullness + rng.uniform(-0.3, 0.3, machines), 0, 1)
    rows[:, 6] = goal * CAPACITY[0]
    rows[:, 7] = goal * CAPACITY[1]
    snapshot = ArraySnapshot(2)
    snapshot.apply(Reply(Position(1, "-" * 10), full=True, rows=rows))
    return snapshot


def job(tasks: int, demands: Mapping[str, object] | None = None) -> Job:
    """A pending job of equal tasks."""
    group = GroupStatus(need=NEED, total=tasks, unplaced=tasks, waiting=f"0-{tasks - 1}")
    spec = {"groups": [demands]} if demands else {}
    return Job(id="j", name="j", kind="batch", order=1, groups=[group], spec=spec)


def _measure(name: str, policy: Placement, snapshot: Snapshot, subject: Job) -> dict[str, object]:
    rng, tasks = Random(f"placement/{name}/{snapshot.size}"), subject.groups[0].total
    times: list[float] = []
    until = time.perf_counter() + SECONDS
    while len(times) < FEWEST or (len(times) < MOST and time.perf_counter() < until):
        work, mark = Work.of(subject), snapshot.mark()
        began = time.perf_counter()
        claims = policy.place(work, snapshot, rng)
        times.append((time.perf_counter() - began) * 1e6)
        if sum(claim.count for claim in claims) != tasks:
            raise RuntimeError(f"{name}: did not place the job in a cell {FULLNESS:.0%} full")
        snapshot.undo(mark)
    p50, p99 = np.percentile(times, [50, 99])
    return {
        "policy": name,
        "machines": snapshot.size,
        "p50_us": round(float(p50), 1),
        "p99_us": round(float(p99), 1),
        "mean_us": round(float(np.mean(times)), 1),
        "jobs": len(times),
        "tasks_per_job": tasks,
        "fullness": FULLNESS,
    }
