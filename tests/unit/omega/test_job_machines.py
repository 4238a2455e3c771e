"""The machines of a job's tasks, by its blocks of runs, are those of its single runs."""

from collections.abc import Callable
from random import Random

import pytest

from omega.cellstate.memory import MemoryCell
from omega.cellstate.memory.commit import carry_out
from omega.cellstate.memory.tasks import end_block
from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.cellstate.resources import Dimensions
from omega.cellstate.transaction import Claim, ClaimColumns, Placed, Transaction
from omega.simulation.simulated_store import MemoryStore


def cell_of(machines: int) -> MemoryCell:
    store = MemoryStore("test", Dimensions(("cpu", "memory")))
    store.join([MachineSpec(f"m{i}", (100, 100)) for i in range(machines)])
    return store.cell


def by_runs(cell: MemoryCell, job_id: str, machines: int) -> dict[int, int]:
    """The tasks of a job by machine, read run by run."""
    tasks = dict.fromkeys(range(machines), 0)
    for run in cell.machines.runs(range(machines)):
        if run.job == job_id:
            first, _, last = run.tasks.partition("-")
            tasks[run.machine] += int(last or first) - int(first) + 1
    return {machine: count for machine, count in tasks.items() if count}


@pytest.mark.parametrize("seed", range(5))
def test_whatever_is_placed_and_ends(seed: int) -> None:
    rng, cell, running = Random(seed), cell_of(9), list[Placed]()
    fields = {"user": "ada"}
    cell.jobs.submit(
        [JobSpec(each, each, "batch", (TaskGroup((1, 1), 400, 1_000),), spec=fields) for each in "ab"], 0, "x"
    )

    def columns() -> ClaimColumns:
        return ClaimColumns([rng.randrange(9) for _ in range(rng.randint(1, 4))])

    def counted() -> tuple[Claim, ...]:
        return tuple(Claim(machine, 0, rng.randint(1, 3)) for machine in rng.sample(range(9), 2))

    ways: list[Callable[[], ClaimColumns | tuple[Claim, ...]]] = [columns, counted]
    for step in range(60):
        job_id = rng.choice("ab")
        if running and rng.random() < 0.4:
            end_block(cell, running.pop(rng.randrange(len(running))), step)
        else:
            _, placed = carry_out(cell, Transaction(job_id, rng.choice(ways)()), step, "batch/0")
            running += placed
        known = {each: cell.jobs.tasks_by_machine(each) for each in "ab"}
        if not step % 7:
            assert known == {each: by_runs(cell, each, 9) for each in "ab"}
            assert known == {each: cell.jobs.tasks_by_machine(each) for each in "ab"}, "read again from the rows"
    assert running
    assert sum(known["a"].values()) + sum(known["b"].values()) > 5


def test_what_is_returned_is_a_copy() -> None:
    cell = cell_of(2)
    cell.jobs.submit([JobSpec("a", "a", "batch", (TaskGroup((1, 1), 9, 1_000),), spec={"user": "ada"})], 0, "x")
    carry_out(cell, Transaction("a", ClaimColumns([0, 1])), 0, "batch/0")
    known = cell.jobs.tasks_by_machine("a")
    carry_out(cell, Transaction("a", ClaimColumns([1])), 0, "batch/0")
    assert (known, cell.jobs.tasks_by_machine("a")) == ({0: 1, 1: 1}, {0: 1, 1: 2})
    assert cell.jobs.tasks_by_machine("absent") == {}
