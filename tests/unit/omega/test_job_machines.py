"""The machines of a job's tasks, as the simulator keeps them, are those of its runs."""

from collections.abc import Callable
from random import Random

import pytest

from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.cellstate.resources import Dimensions
from omega.cellstate.transaction import Claim, ClaimColumns, Placed, Transaction
from omega.simulation.simulated_store import TwinStore
from omega.simulation.twin import SimulatedTwin


def twin_of(machines: int) -> SimulatedTwin:
    store = TwinStore("test", Dimensions(("cpu", "memory")))
    store.join([MachineSpec(f"m{i}", (100, 100)) for i in range(machines)])
    return store.twin


def by_runs(twin: SimulatedTwin, job_id: str, machines: int) -> dict[int, int]:
    """The tasks of a job by machine, read run by run; whoever reads runs lets the twin forget."""
    tasks = dict.fromkeys(range(machines), 0)
    for run in twin.runs(range(machines)):
        if run.job == job_id:
            first, _, last = run.tasks.partition("-")
            tasks[run.machine] += int(last or first) - int(first) + 1
    return {machine: count for machine, count in tasks.items() if count}


@pytest.mark.parametrize("seed", range(5))
def test_whatever_is_placed_and_ends(seed: int) -> None:
    rng, twin, running = Random(seed), twin_of(9), list[Placed]()
    fields = {"user": "ada"}
    twin.submit([JobSpec(each, each, "batch", (TaskGroup((1, 1), 400, 1_000),), spec=fields) for each in "ab"], 0, "x")

    def columns() -> ClaimColumns:
        return ClaimColumns([rng.randrange(9) for _ in range(rng.randint(1, 4))])

    def counted() -> tuple[Claim, ...]:
        return tuple(Claim(machine, 0, rng.randint(1, 3)) for machine in rng.sample(range(9), 2))

    ways: list[Callable[[], ClaimColumns | tuple[Claim, ...]]] = [columns, counted]
    for step in range(60):
        job_id = rng.choice("ab")
        if running and rng.random() < 0.4:
            twin.finish_placed(running.pop(rng.randrange(len(running))), step)
        else:
            _, placed = twin.carry_out("batch/0", Transaction(job_id, rng.choice(ways)()), None, step)
            running += [each for each in placed if isinstance(each, Placed)]
        known = {each: twin.tasks_by_machine(each) for each in "ab"}
        if not step % 7:
            assert known == {each: by_runs(twin, each, 9) for each in "ab"}
            assert known == {each: twin.tasks_by_machine(each) for each in "ab"}, "read again from the rows"
    assert running
    assert sum(known["a"].values()) + sum(known["b"].values()) > 5


def test_what_is_returned_is_a_copy() -> None:
    twin = twin_of(2)
    twin.submit([JobSpec("a", "a", "batch", (TaskGroup((1, 1), 9, 1_000),), spec={"user": "ada"})], 0, "x")
    twin.carry_out("batch/0", Transaction("a", ClaimColumns([0, 1])), None, 0)
    known = twin.tasks_by_machine("a")
    twin.carry_out("batch/0", Transaction("a", ClaimColumns([1])), None, 0)
    assert (known, twin.tasks_by_machine("a")) == ({0: 1, 1: 1}, {0: 1, 1: 2})
    assert twin.tasks_by_machine("absent") == {}


def test_a_job_without_rows_has_machines_too() -> None:
    store = TwinStore("test", Dimensions(("cpu", "memory")), counted=False)
    store.join([MachineSpec(f"m{i}", (100, 100)) for i in range(3)])
    store.submit([JobSpec("a", "a", "batch", (TaskGroup((1, 1), 3, 1_000),))], 0)
    store.twin.carry_out("batch/0", Transaction("a", ClaimColumns([0, 2, 2])), None, 0)
    assert store.twin.simple.has("a")
    assert store.twin.tasks_by_machine("a") == {0: 1, 2: 2}
