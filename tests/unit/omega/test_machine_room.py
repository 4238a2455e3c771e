"""The room of a cell is the same, machine by machine and from a snapshot."""

from random import Random

import pytest

from omega.cellstate.memory import MemoryCell
from omega.cellstate.model import JobSpec, MachineSpec, MachineState, TaskGroup
from omega.cellstate.replies import CommitRequest
from omega.cellstate.resources import Dimensions, Resources
from omega.cellstate.transaction import Claim, Position, Transaction
from omega.queries import machine_room as module, room
from omega.queries.fleet import Fleet
from omega.queries.machine_room import FEW_MACHINES, FewMachines, ManyMachines, machine_room
from omega.queries.machines import utilisation
from omega.queries.room import Room
from omega.queries.working_copy import working_copy

NEEDS = [(0, 0), (1, 0), (0, 3), (2, 2), (5, 9), (9, 1), (100, 1), (8, 8)]


def random_cell(seed: int) -> MemoryCell:
    """Machines of random sizes, states and use, some over their capacity, of a live executor and of another one."""
    rng = Random(seed)
    cell = MemoryCell("rooms", Dimensions(("cpu", "memory")))
    for executor in ("lives", "ended"):
        membership = cell.executors.register(executor, "n", 600_000, 0)
        sizes = [(rng.randrange(1, 10), rng.randrange(1, 10)) for _ in range(rng.randrange(1, 6))]
        indices = cell.machines.join(executor, [MachineSpec(f"{executor}{i}", size) for i, size in enumerate(sizes)], 0)
        cell.jobs.submit([JobSpec(executor, executor, "batch", (TaskGroup((2, 2), len(sizes)),))], 0, "ada")
        claims = tuple(Claim(index, 0, 1) for index in indices[: rng.randrange(1, len(indices) + 1)])
        member = cell.schedulers.register(f"batch/{executor}", "n", 60_000, 0)
        cell.schedulers.commit(CommitRequest(member, 1, [Transaction(executor, claims)], Position(), 0))
        smaller = [MachineSpec(f"{executor}{i}", (1, 1)) for i in range(len(sizes)) if rng.random() < 0.3]
        cell.machines.join(executor, smaller, 2)
        for index in indices:
            if rng.random() < 0.4:
                states = (MachineState.DRAINED, MachineState.DOWN, MachineState.GONE)
                cell.machines.set_state(index, rng.choice(states), 2, "ada")
        if executor == "ended" and rng.random() < 0.7:
            cell.executors.deregister(membership, 3, "ada")
    return cell


@pytest.mark.parametrize("seed", range(20))
def test_both_forms_agree(seed: int) -> None:
    cell = random_cell(seed)
    few, many = FewMachines(cell.machines.at(range(cell.machines.count()))), ManyMachines(working_copy(cell), 2)
    fleet, machines = Fleet(cell.sums()), cell.machines.all()
    up = [machine for machine in machines if machine.state is MachineState.UP]
    assert (fleet.up, fleet.total) == (len(up), len(machines))
    assert fleet.some_offline == any(machine.state is MachineState.OFFLINE for machine in machines)
    assert fleet.all_simulated == all(machine.executor % 2 for machine in up)
    assert [fleet.largest(i) for i in (0, 1)] == [max((m.capacity[i] for m in up), default=0) for i in (0, 1)]
    fits = [any(all(map(int.__ge__, machine.capacity, need)) for machine in up) for need in NEEDS]
    assert [fleet.holds(need) for need in NEEDS] == fits
    assert fleet.utilisation(("cpu", "memory")) == utilisation(("cpu", "memory"), machines)
    assert [few.room(need) for need in NEEDS] == [many.room(need) for need in NEEDS]
    assert all(fleet.room_at_most(need) >= many.room(need) for need in NEEDS)


def test_a_large_cell_is_read_as_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = random_cell(1)
    cell.jobs.submit([JobSpec("p", "p", "batch", (TaskGroup((100, 1), 1),))], 0, "ada")
    job = cell.jobs.get("p")
    assert job is not None
    assert isinstance(machine_room(cell), FewMachines)
    assert Room(cell).reason(job) == "TOO_LARGE"
    monkeypatch.setattr(module, "FEW_MACHINES", 0)
    assert isinstance(machine_room(cell), ManyMachines)
    assert Room(cell).reason(job) == "TOO_LARGE"


@pytest.mark.parametrize(
    ("count", "need", "reason"),
    [(7, (100, 10), "WAITING"), (5, (900, 10), "RESOURCES"), (9_000_000, (100, 10), "RESOURCES")],
)
def test_a_sample_or_the_sums_tell_in_a_large_cell_whether_tasks_fit(
    count: int, need: Resources, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = MemoryCell("c", Dimensions(("cpu", "memory")))
    cell.executors.register("x", "n", 60_000, 0)
    cell.machines.join("x", [MachineSpec(f"m{i}", (1_000, 1_000)) for i in range(FEW_MACHINES + 200)], 0)
    member = cell.schedulers.register("batch/0", "n", 60_000, 0)
    cell.jobs.submit([JobSpec("r", "r", "batch", (TaskGroup((800, 1), FEW_MACHINES + 200),))], 0, "ada")
    claims = tuple(Claim(i, 0, 1) for i in range(FEW_MACHINES + 200))
    cell.schedulers.commit(CommitRequest(member, 1, [Transaction("r", claims)], Position(), 0))
    cell.jobs.submit([JobSpec("w", "w", "batch", (TaskGroup(need, count),))], 0, "ada")
    job = cell.jobs.get("w")
    assert job is not None
    with monkeypatch.context() as patched:
        if need[0] == 100:
            patched.setattr(room, "machine_room", None)  # not read
        assert room.Room(cell).reason(job) == reason
