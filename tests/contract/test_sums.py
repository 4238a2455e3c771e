"""Sums of amounts stay exact: below 2^53 (semantics 12)."""

import pytest

from omega.cellstate.errors import BadInput, Refused
from omega.cellstate.model import Job, JobSpec, MachineSpec, MachineState, TaskGroup
from omega.cellstate.resources import LARGEST, LARGEST_COUNT, MOST_TOGETHER
from omega.cellstate.verify import verify
from tests.contract.conftest import AnyCell, Make, Member, job


def test_machines_that_have_too_much_together_are_refused(make: Make) -> None:
    cell = make().cell
    cell.executors.register("e0", "n", 600_000, 0)
    most = MOST_TOGETHER // LARGEST
    machines = [MachineSpec(f"m{i}", (LARGEST, 1)) for i in range(120)]
    with pytest.raises(Refused, match="more than 5000000000000000 of cpu together; count it in a larger unit"):
        cell.machines.join("e0", machines, 0)
    assert cell.machines.all() == []
    cell.machines.join("e0", machines[:most], 0)
    with pytest.raises(Refused):
        cell.machines.join("e0", machines[most : most + 1], 0)
    cell.machines.join("e0", machines[:most], 0)
    cell.machines.set_state(0, MachineState.GONE, 0, "ada")
    cell.machines.join("e0", machines[most : most + 1], 0)
    member = Member(cell)
    cell.jobs.submit([job("a", (LARGEST, 0), most)], 0, "ada")
    assert member.place("a", *((machine, 1) for machine in range(1, most + 1))).accepted
    assert cell.pools.kinds()["batch"].used == (LARGEST * most, 0)
    assert verify(cell).violations == ()


def test_what_a_smaller_machine_still_holds_counts(make: Make) -> None:
    cell = make().cell
    cell.executors.register("e0", "n", 600_000, 0)
    most = MOST_TOGETHER // LARGEST
    cell.machines.join("e0", [MachineSpec(f"m{i}", (LARGEST, 1)) for i in range(most)], 0)
    cell.jobs.submit([job("a", (LARGEST, 0), 1)], 0, "ada")
    assert Member(cell).place("a", (0, 1)).accepted
    cell.machines.join("e0", [MachineSpec("m0", (1, 1))], 0)
    with pytest.raises(Refused, match="of cpu together"):
        cell.machines.join("e0", [MachineSpec("new", (LARGEST, 1))], 0)
    cell.machines.set_state(1, MachineState.GONE, 0, "ada")
    assert cell.machines.join("e0", [MachineSpec("new", (LARGEST, 1))], 0)


def test_a_machine_that_grows_too_much_is_refused(make: Make) -> None:
    cell = make().cell
    cell.executors.register("e0", "n", 600_000, 0)
    most = MOST_TOGETHER // LARGEST
    cell.machines.join(
        "e0", [MachineSpec(f"m{i}", (LARGEST, 1)) for i in range(most)] + [MachineSpec("small", (1, 1))], 0
    )
    with pytest.raises(Refused, match="of cpu together"):
        cell.machines.set_capacity(most, (LARGEST, 1), 0, "ada")
    assert cell.machines.all()[most].capacity == (1, 1)


def test_a_job_of_more_tasks_than_are_counted_exactly_is_refused(cell: AnyCell) -> None:
    groups = (TaskGroup((0, 0), LARGEST_COUNT), TaskGroup((0, 0), 1))
    with pytest.raises(BadInput, match="job a"):
        cell.jobs.submit([JobSpec("a", "a", "batch", groups)], 0, "ada")


def total(job: Job) -> int:
    return sum(group.total for group in job.groups)


def test_a_job_whose_tasks_together_need_more_than_is_counted_exactly_is_refused(cell: AnyCell) -> None:
    each = MOST_TOGETHER // 100
    groups = (TaskGroup((1, each), 60), TaskGroup((each, each), 40))
    cell.jobs.submit([JobSpec("a", "a", "batch", groups)], 0, "ada")
    with pytest.raises(BadInput, match=r"job b: its tasks together need .* the most is 5000000000000000"):
        cell.jobs.submit([JobSpec("b", "b", "batch", (*groups, TaskGroup((0, 1), 1)))], 0, "ada")
    with pytest.raises(Refused, match="of a resource, than are counted exactly"):
        cell.jobs.resize("a", {0: 61}, 1, "ada")
    assert total(cell.jobs.resize("a", {0: 60}, 1, "ada")) == 100
    assert total(cell.jobs.resize("a", {0: 61}, 1, "batch/0", seen={0: 60})) == 101, "a step of an update"
    assert total(cell.jobs.resize("a", {0: 50}, 1, "ada")) == 90


def test_a_job_does_not_grow_beyond_what_is_counted_exactly(cell: AnyCell) -> None:
    cell.jobs.submit([JobSpec("a", "a", "batch", (TaskGroup((0, 0), 1), TaskGroup((0, 0), 1)))], 0, "ada")
    with pytest.raises(Refused, match="than are counted exactly"):
        cell.jobs.resize("a", {0: LARGEST_COUNT}, 1, "ada")
    cell.jobs.resize("a", {0: LARGEST_COUNT - 1}, 1, "ada")
    cell.jobs.resize("a", {0: 1}, 1, "ada")
    with pytest.raises(Refused, match="than are counted exactly"):
        cell.jobs.resize("a", {0: 3}, 1, "ada")
    assert cell.jobs.resize("a", {0: 2}, 1, "ada").groups[0].indices == LARGEST_COUNT
