"""The live driver and the simulator's start the same tasks at the same times on the same machines.

Rules that a driver decides (when to look again, which jobs it gets) must not be different live and simulated.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from omega.cellstate.model import After, Gang, JobSpec, Limits, MachineSpec, TaskGroup
from omega.schedulers.placement.first_fit import FirstFit
from omega.schedulers.scheduler import Scheduler
from omega.simulation import Settings, Simulation
from omega.simulation.records import TaskRecords
from omega.workload.workload import Arrival, LimitEvent, Workload
from tests.simulation.live_in_virtual_time import LiveInVirtualTime
from tests.simulation.pool_scenario import FILES, Scenario
from tests.simulation.test_pool_scenarios import prepared
from tests.tiers import one_of

SLOT = 1_000
Start = tuple[float, str, int, int]


def job(
    name: str, tasks: int, seconds: float, *, at: float = 0.0, slots: int = 1, gang: Gang = Gang.NO, after: str = "",
    precedence: int = 0,
) -> Arrival:  # fmt: skip
    group = TaskGroup((slots * SLOT, 0), tasks, round(seconds * 1000))
    waits = (After(after.rstrip("+"), after[-1] == "+"),) if after else ()
    return Arrival(at, JobSpec(name, name, "batch", (group,), precedence, gang, after=waits))


LEFT = [
    job("gang3", 3, 1000, gang=Gang.YES), job("one", 1, 10), job("gang4", 4, 100, at=1, gang=Gang.YES),
    job("small", 1, 5, at=2), job("late", 1, 5, at=20),
]  # fmt: skip
CHAIN = [
    job("a", 3, 10), job("b", 2, 5, after="a", at=1), job("c", 2, 5, after="b+", at=2), job("d", 4, 3, at=2),
    job("e", 1, 1, at=100, after="a"),
]  # fmt: skip
LIMITED = [job("x", 6, 10, at=1), job("y", 2, 7, at=2), job("z", 3, 4, at=30)]
TOGETHER = [job(f"j{i}", 1, 10, precedence=i) for i in range(8)]
GANGS = [job(f"g{i}", 1 + i % 4, 3 + 1.7 * i, at=0.6 * i, gang=Gang.YES if i % 2 else Gang.NO) for i in range(30)]
CASES = {"left": LEFT, "chain": CHAIN, "limit": LIMITED, "together": TOGETHER, "gangs": GANGS}


def simulation(case: str, decision: float) -> Simulation:
    events = [LimitEvent(0.5, "batch", Limits((2 * SLOT, None))), LimitEvent(25.3, "batch", Limits((None, None)))]
    machines = [MachineSpec("m0", (4 * SLOT, 0))]
    workload = Workload(machines, [], CASES[case], case, events=events if case == "limit" else ())
    own = Scheduler("batch", placement=FirstFit(), jobs_per_call=4, t_job=decision)
    return Simulation(workload, Settings(days=1_200 / 86_400), own=own, records=True)


def starts(records: TaskRecords) -> list[Start]:
    names = [each.job.id for each in records.jobs]
    columns = zip(
        records.started.tolist(), records.job.tolist(), records.task.tolist(), records.machine.tolist(), strict=True
    )
    return sorted((at / 1e6, names[job], task, machine) for at, job, task, machine in columns)


def both(make: Callable[[], Simulation]) -> tuple[list[Start], list[Start]]:
    """The starts, live and simulated."""
    simulated = make().run().records
    assert simulated is not None
    return starts(LiveInVirtualTime(make()).run()), starts(simulated)


@pytest.mark.parametrize("decision", [0.0, 0.1])
@pytest.mark.parametrize("case", CASES)
def test_starts_are_equal(case: str, decision: float) -> None:
    live, simulated = both(lambda: simulation(case, decision))
    assert simulated == live
    assert len(live) == sum(each.job.total for each in CASES[case])


def test_left_room_goes_to_the_next_job_at_once() -> None:
    """Room that a gang cannot use is offered to the jobs behind it in the same instant."""
    live, _ = both(lambda: simulation("left", 0.0))
    assert {name: at for at, name, _, _ in live} == {"gang3": 0, "one": 0, "small": 10, "late": 20, "gang4": 1000}


def test_a_job_is_not_tried_before_those_it_waits_for_have_ended() -> None:
    made = simulation("chain", 0.1)
    result = made.run()
    assert result.kinds["batch"].attempts <= 12
    assert result.records is not None
    assert {name: at for at, name, _, _ in starts(result.records)}["b"] == pytest.approx(10.3)


@pytest.mark.parametrize("path", one_of(3, FILES), ids=lambda path: path.stem)
def test_starts_in_pool_scenarios_are_equal(path: Path) -> None:
    scenario = Scenario(path)
    if scenario.refused is not None or scenario.live_only:
        pytest.skip("no simulation")
    live, simulated = both(lambda: prepared(scenario, records=True))
    assert simulated == live
