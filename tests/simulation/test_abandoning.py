"""Tasks that end early: of an abandoned job, but not under the authors' rules (semantics 24); at their time limit."""

import pytest

from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.transaction import Claim, Transaction
from omega.simulation.changing import ChangingWorld
from omega.simulation.simulated_store import MemoryStore, ServerStore, SimulatedStore
from omega.simulation.world import World
from omega.workload.workload import DIMENSIONS

SECOND = 1_000_000
HORIZON = 100 * SECOND


def world_of(name: str, simulated_store: SimulatedStore) -> World:
    if name == "changing":
        return ChangingWorld(simulated_store, HORIZON, completed=False, numbered=True)
    return World(simulated_store, HORIZON, completed=False, numbered=True)


@pytest.mark.parametrize("kept", [False, True, "job"])
@pytest.mark.parametrize("name", ["plain", "changing"])
@pytest.mark.parametrize("store", [False, pytest.param(True, marks=pytest.mark.server)])
def test_running_tasks_end_with_their_job(name: str, kept: object, store: bool, request: pytest.FixtureRequest) -> None:
    cell: RedisCell | None = request.getfixturevalue("cell") if store else None
    world = world_of(name, MemoryStore("c", DIMENSIONS) if cell is None else ServerStore(cell))
    world.ends_abandoned = kept is not True
    simulated_store, copy, freed = world.store, world.copy(), list[list[int]]()
    simulated_store.join([MachineSpec(f"m{i}", (10, 10)) for i in range(2)])
    extra = {"on_abandon": "keep"} if kept == "job" else {}
    simulated_store.submit([JobSpec("a", "a", "batch", (TaskGroup((1, 2), 5, 40_000),), spec=extra)], 0)
    job = simulated_store.cell.jobs.get("a")
    assert job is not None
    simulated_store.refresh(copy)
    outcome = world.commit(0, "batch/0", job, Transaction("a", (Claim(0, 0, 2), Claim(1, 0, 1))), copy)
    assert (outcome.placed, outcome.accepted) == (3, True)
    world.on_end = lambda machines, *_: freed.append(list(machines))
    world.engine.at(10 * SECOND, lambda _: world.abandon("a", 0, "batch/0"), None)
    world.engine.run(20 * SECOND)
    held = [machine.allocated for machine in simulated_store.cell.machines.all()]
    assert held == ([(2, 4), (1, 2)] if kept else [(0, 0), (0, 0)])
    world.engine.run(HORIZON)
    world.engine.now = HORIZON
    seconds = 40 if kept else 10
    assert world.used == [3 * seconds * SECOND, 6 * seconds * SECOND]
    assert [machine.allocated for machine in simulated_store.cell.machines.all()] == [(0, 0), (0, 0)]
    if name == "plain":
        assert len(freed) == 1, "told of once: when the job ended, or as its tasks did"


@pytest.mark.parametrize("name", ["plain", "changing"])
@pytest.mark.parametrize("store", [False, pytest.param(True, marks=pytest.mark.server)])
def test_a_time_limit_ends_tasks_as_failed(name: str, store: bool, request: pytest.FixtureRequest) -> None:
    cell: RedisCell | None = request.getfixturevalue("cell") if store else None
    world = world_of(name, MemoryStore("c", DIMENSIONS) if cell is None else ServerStore(cell))
    simulated_store, copy = world.store, world.copy()
    simulated_store.join([MachineSpec(f"m{i}", (10, 10)) for i in range(2)])
    groups = tuple(TaskGroup((1, 2), 4, 40_000, {"time_limit": limit}) for limit in (10_000, 90_000))
    job_id = "a"
    simulated_store.submit([JobSpec(job_id, job_id, "batch", groups)], 0)
    job = simulated_store.cell.jobs.get(job_id)
    assert job is not None
    simulated_store.refresh(copy)
    claims = (Claim(0, 0, 1), Claim(1, 0, 2), Claim(1, 1, 2))
    assert world.commit(0, "batch/0", job, Transaction(job_id, claims), copy).placed == 5
    world.engine.run(HORIZON)
    world.engine.now = HORIZON
    ended = simulated_store.cell.jobs.get(job_id)
    assert ended is not None
    assert [(group.finished, group.failed, group.unplaced) for group in ended.groups] == [(0, 3, 1), (2, 0, 2)]
    assert world.used == [(3 * 10 + 2 * 40) * SECOND, 2 * (3 * 10 + 2 * 40) * SECOND]
