"""The twin and a store give the same run of a crowded cell, in which jobs wait for room, under every architecture."""

from random import Random
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given, settings, strategies as st

from omega.cellstate import server
from omega.cellstate.model import Gang, JobSpec, MachineSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.transaction import Detection, Mode
from omega.simulation import ARCHITECTURES, Result, Settings, Simulation
from omega.workload.workload import DIMENSIONS, Arrival, Workload

SIZES = ((4, 4), (8, 8), (4, 8))
NEEDS = ((1, 1), (2, 1), (2, 2), (3, 4), (4, 4), (1, 3))
seeds = st.integers(0, 2**32 - 1)


def crowded(rng: Random) -> Workload:
    """A few machines and some twenty jobs within a minute; together the jobs need several times the capacity."""
    machines = [MachineSpec(f"m{i}", rng.choice(SIZES)) for i in range(rng.randint(2, 6))]
    arrivals, at = [], 0.0
    for i in range(rng.randint(15, 25)):
        at += rng.expovariate(0.5)
        groups = (TaskGroup(rng.choice(NEEDS), rng.choice((1, 2, 5, 9, 15)), rng.choice((5_000, 20_000))),)
        kind, gang = rng.choice(("batch", "batch", "service")), rng.choice((Gang.NO, Gang.YES))
        arrivals.append(Arrival(at, JobSpec(f"j{i}", f"j{i}", kind, groups, 0, gang)))
    return Workload(machines, [], arrivals, "")


def some_settings(rng: Random, architecture: str) -> Settings:
    """Decision times with which jobs are blocked while others are decided on; every way to validate and to place."""
    most = 3 if architecture in ("two-level", "shared-state") else 1
    return Settings(
        architecture=architecture,
        days=90 / 86_400,
        seed=rng.randrange(1_000),
        batch_schedulers=rng.randint(1, most),
        t_job_batch=rng.choice((0.1, 0.5, 1.5)),
        t_job_service=rng.choice((0.1, 4.0, 12.0)),
        detection=rng.choice((Detection.FINE, Detection.FINE, Detection.COARSE)),
        commit=rng.choice((Mode.INCREMENTAL, Mode.INCREMENTAL, Mode.GANG)),
        placement=rng.choice(("random", "random", "first-fit")),
        reference_rules=rng.random() < 0.2,
    )


def on_a_store(url: str, workload: Workload, how: Settings) -> Result:
    name = f"crowded-{uuid4().hex[:8]}"
    cell = RedisCell.create(server.connect(url), name, DIMENSIONS, keep_jobs=0, keep_ms=0, url=url)
    try:
        return Simulation(workload, how, cell=cell).run()
    finally:
        cell.delete()
        cell.close()


def agrees(url: str, architecture: str, seed: int) -> None:
    rng = Random(seed)
    workload, how = crowded(rng), some_settings(rng, architecture)
    assert on_a_store(url, workload, how) == Simulation(workload, how).run()


# The same cells every time; new ones are sought in the long form.
SHORT: dict[str, Any] = {"max_examples": 4, "derandomize": True, "deadline": None}


@pytest.mark.server
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@settings(**SHORT)
@given(seed=seeds)
def test_twin_and_store_agree_on_a_crowded_cell(store_url: str, architecture: str, seed: int) -> None:
    agrees(store_url, architecture, seed)


@pytest.mark.chaos
@pytest.mark.server
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@settings(deadline=None, max_examples=400)
@given(seed=seeds)
def test_twin_and_store_agree_on_a_crowded_cell_in_long_histories(store_url: str, architecture: str, seed: int) -> None:
    agrees(store_url, architecture, seed)
