"""Pools of a full cell reach their fair shares in the stated time, by evictions of four schedulers at once."""

import json
import sys
import time
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from benchmarks.fair import MOST_OVERSHOOT, MOST_SECONDS, Settings, measure
from benchmarks.residents import BENCH_EXECUTOR, join
from benchmarks.store import StoreSettings
from omega.cellstate.clock import now_ms
from omega.cellstate.model import JobSpec, TaskGroup
from omega.cellstate.pools import Pool, Pools
from omega.cellstate.redis import RedisCell
from omega.live.processes.supervisor import ProcessSupervisor

pytestmark = [pytest.mark.server, pytest.mark.chaos]
WEIGHTS = {"p0": 1.0, "p1": 2.0, "p2": 3.0}
SLOTS = 1_000
LATE = 2.0
"""How much longer it may take on a computer that does other work."""


@pytest.mark.parametrize("preemption", ["quick", "default"])
def test_three_pools_reach_their_shares(preemption: str, store_url: str) -> None:
    run = measure(Settings(store=store_url, preemption=preemption, repeat=1, calm_seconds=0.0))["runs"][0]  # type: ignore[index]
    sys.stdout.write(json.dumps(run) + "\n")
    assert run["seconds"] is not None
    assert run["seconds"] <= LATE * MOST_SECONDS[preemption]
    assert max(run["overshoot"], run["undershoot"]) <= MOST_OVERSHOOT
    assert (run["violations"], run["not_improved"], run["undone"]) == (0, 0, 0)


@pytest.mark.parametrize(("schedulers", "guarantees"), [(1, (5, 10, 5)), (8, (0,) * 12)])
def test_other_numbers_of_pools_and_schedulers(schedulers: int, guarantees: tuple[int, ...], store_url: str) -> None:
    settings = Settings(
        store=store_url,
        machines=50,
        slots=4,
        schedulers=schedulers,
        guarantees=guarantees,
        jobs=4,
        repeat=1,
        calm_seconds=0.0,
    )
    run = measure(settings)["runs"][0]  # type: ignore[index]
    sys.stdout.write(json.dumps(run) + "\n")
    assert run["seconds"] is not None
    assert sum(run["held"].values()) == 200
    assert (run["violations"], run["not_improved"]) == (0, 0)
    assert run["undone"] <= len(guarantees) // 6, "the last task for a late pool may come from another late pool"


@pytest.mark.parametrize("schedulers", [1, 4, 8])
def test_pools_with_tasks_of_2_to_20_s_hold_their_shares(schedulers: int, store_url: str, tmp_path: Path) -> None:
    """Pools of weights 1, 2 and 3 fill an empty cell of 1,000 equal slots; 60 samples, one a second."""
    rng, members = Random(2), [f"batch/{i}" for i in range(schedulers)]
    jobs = [
        JobSpec(
            f"{pool}-{i}",
            f"{pool}-{i}",
            "batch",
            (TaskGroup((1_000, 0), 120, rng.randint(2_000, 20_000)),),
            spec={"pool": pool},
        )
        for pool in WEIGHTS
        for i in range(60)
    ]
    with (
        StoreSettings(store=store_url).measured_store() as store,
        closing(store.make_cell()) as cell,
        ProcessSupervisor(store.url, store.cell, tmp_path, lease_ms=5_000, bound=True) as group,
    ):
        join(cell, SLOTS // 4, (4_000, 4_096))
        cell.pools.set(Pools(tuple(Pool(name, weight=weight) for name, weight in WEIGHTS.items())), 0, now_ms(), "ada")
        for member in (f"simulated/{BENCH_EXECUTOR}", *members):
            group.start(member)
        group.wait_ready(cell)
        cell.jobs.submit(jobs, now_ms(), "ada")
        apart, began = list[float](), time.monotonic()
        for second in range(60):
            time.sleep(max(0.0, began + second + 0.5 - time.monotonic()))
            held = held_by_pool(cell)
            apart.append(max(100 * abs(held[name] / SLOTS - weight / 6) for name, weight in WEIGHTS.items()))
    sys.stdout.write(json.dumps([round(each, 1) for each in apart]) + "\n")
    assert min(apart[:11]) <= 2.0, "within 2 points of the cell after 10 s"
    assert max(apart[11:]) <= 4.0


def held_by_pool(cell: RedisCell) -> dict[str, int]:
    """Running tasks by pool."""
    held = dict.fromkeys(WEIGHTS, 0)
    for job in cell.jobs.all():
        held[job.id.partition("-")[0]] += sum(group.placed for group in job.groups)
    return held
