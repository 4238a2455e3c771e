"""A scheduler that evicts works in the simulator on a full cell, as it does live; what is evicted comes back."""

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest

from omega.cellstate.model import Gang, JobSpec, MachineSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Claim
from omega.cellstate.verify import verify
from omega.schedulers import presets
from omega.schedulers.placement.first_fit import RandomFit
from omega.schedulers.policies import Placement
from omega.schedulers.preemption.precedence import PrecedencePreemption
from omega.schedulers.scheduler import Scheduler
from omega.schedulers.work import Work
from omega.simulation import Result, Settings, Simulation
from omega.workload.workload import Arrival, Workload

MACHINES, TASKS = 12, 4
"""Each holds so many tasks of 1 cpu, and does when the run begins."""


def job(
    name: str, kind: str, at: float, tasks: int, cpu: int, seconds: float, precedence: int, gang: Gang = Gang.NO
) -> Arrival:
    """A job of equal tasks; cpu in millicores, memory the same in MiB."""
    group = TaskGroup((cpu, cpu), tasks, round(seconds * 1000))
    return Arrival(at, JobSpec(name, name, kind, (group,), precedence, gang))


def full(*arrivals: Arrival, gang: Gang = Gang.NO) -> Workload:
    """A cell whose machines are full of unimportant batch tasks that run for ever."""
    machines = [MachineSpec(f"m{i}", (4_000, 4_000)) for i in range(MACHINES)]
    residents = [job(f"r{i}", "batch", 0.0, TASKS, 1_000, 1e6, 1, gang=gang) for i in range(MACHINES)]
    return Workload(machines, residents, list(arrivals), "a full cell")


def evicting(kind: str = "service") -> Scheduler:
    return Scheduler(kind, placement=RandomFit(), preemption=PrecedencePreemption(), t_job=1.0)


def run(workload: Workload, scheduler: Scheduler, seconds: float, cell: RedisCell | None = None) -> Result:
    return Simulation(workload, Settings(days=seconds / 86_400), own=scheduler, cell=cell).run()


URGENT = (
    *(job(f"s{i}", "service", 10.0 * i + 5, 3, 2_000, 100.0, 200) for i in range(4)),
    *(job(f"b{i}", "batch", 10.0 * i, 2, 1_000, 50.0, 0) for i in range(8)),
    job("huge", "service", 60.0, MACHINES + 1, 4_000, 1_000.0, 200),
)


def test_what_is_important_takes_the_room_of_what_is_not() -> None:
    found = run(full(*sorted(URGENT, key=lambda each: each.at_seconds)), evicting(), 100.0)
    service, batch = found.kinds["service"], found.kinds["batch"]
    assert (service.jobs_scheduled, service.jobs_submitted) == (4, 5)
    assert service.tasks_scheduled >= 4 * 3, "of the one too large for the cell, what fits"
    assert service.wait_mean < 2.0
    assert batch.jobs_scheduled == 0, "nothing is left for them"


def test_what_was_evicted_comes_back_when_there_is_room() -> None:
    found = run(full(job("s", "service", 10.0, 6, 2_000, 100.0, 200)), evicting(), 500.0)
    held = 1 - found.utilisation["cpu"]
    # Full but for what is lost while tasks are thought about: 12 tasks are placed again, 0.16 s after the hundred.
    assert 0 < held < 0.01
    assert found.kinds["service"].jobs_scheduled == 1
    batch = found.kinds["batch"]
    assert (batch.jobs_submitted, batch.jobs_scheduled, batch.tasks_scheduled) == (0, 0, 0), "residents do not count"
    assert batch.attempts > 0


def test_a_job_that_lost_its_tasks_waited_once() -> None:
    arrivals = [job("b", "batch", 1.0, 2, 1_000, 1_000.0, 2), job("s", "service", 50.0, MACHINES, 4_000, 100.0, 200)]
    workload = full(*arrivals)
    room = Workload(workload.machines, workload.residents[:-1], workload.arrivals, "a cell with some room")
    found = run(room, evicting(), 600.0)
    batch = found.kinds["batch"]
    assert found.kinds["service"].jobs_scheduled == 1
    assert (batch.jobs_scheduled, batch.tasks_scheduled) == (1, 2), "it was placed twice and counts once"
    assert batch.wait_mean == 0.0, "the wait to its first attempt, not to the one after the eviction"


def test_a_gang_goes_as_a_whole() -> None:
    """Whole gangs go, more than is needed: some come back into what is left. Single tasks fill all of it."""
    back = [
        run(full(job("s", "service", 10.0, 8, 4_000, 1_000.0, 200), gang=gang), evicting(), 100.0)
        .schedulers["batch/0"]["transactions"] for gang in (Gang.NO, Gang.STRICT)
    ]  # fmt: skip
    assert back[0] == 0
    assert back[1] > 0


@pytest.mark.server
@pytest.mark.parametrize(
    "scheduler", [evicting(), evicting("batch"), presets.service()], ids=["service", "batch", "preset"]
)
@pytest.mark.parametrize("gang", [Gang.NO, Gang.STRICT])
def test_a_real_store_gives_the_run_of_the_twin(cell: RedisCell, scheduler: Scheduler, gang: Gang) -> None:
    arrivals: list[Arrival] = sorted(URGENT, key=lambda each: each.at_seconds)
    if scheduler.kind == "batch":
        arrivals = [job(f"x{i}", "batch", 10.0 * i, 3, 2_000, 20.0, 10 * i + 2) for i in range(6)]
    workload = full(*arrivals, gang=gang)
    twin, store = (run(workload, scheduler, 200.0, on) for on in (None, cell))
    assert store == twin
    assert twin.kinds[scheduler.kind].tasks_scheduled > 0
    assert verify(cell).ok


def test_a_policy_that_evicts_sees_since_when_tasks_run_in_simulated_time() -> None:
    seen: dict[str, float] = {}

    class Watching(PrecedencePreemption):
        def place(self, work: Work, snapshot: Snapshot, placement: Placement, rng: Random) -> Sequence[Claim]:
            known = np.flatnonzero(snapshot.residents.known(snapshot.number)).tolist()
            seen.update({each.job: each.started for machine in known for each in snapshot.residents.on(machine)})
            return super().place(work, snapshot, placement, rng)

    scheduler = Scheduler("service", placement=RandomFit(), preemption=Watching(), t_job=1.0)
    late = job("late", "service", 90.0, MACHINES * 4, 1_000, 1e6, 5)
    run(full(late, job("s", "service", 200.0, 1, 1_000, 100.0, 200)), scheduler, 300.0)
    assert seen["r0"] == 60.0, "a resident, known since the first minute"
    assert seen["late"] == 120.0, "placed after 90 s by evicting, recorded at the next minute"


def test_a_policy_that_evicts_after_a_while_does_so_in_a_cell_where_nothing_else_happens() -> None:
    class After(PrecedencePreemption):
        """Evicts for jobs that have waited ten seconds."""

        def place(self, work: Work, snapshot: Snapshot, placement: Placement, rng: Random) -> Sequence[Claim]:
            if snapshot.now < work.submitted + 10:
                work.until = work.submitted + 10
                return []
            evicted.append(snapshot.now)
            return super().place(work, snapshot, placement, rng)

    evicted: list[float] = []
    scheduler = Scheduler("service", placement=RandomFit(), preemption=After(), t_job=1.0)
    found = run(full(job("s", "service", 20.0, 1, 1_000, 10_000.0, 200)), scheduler, 60.0)
    assert found.kinds["service"].tasks_scheduled == 1
    assert evicted == [31.0], "tried again ten seconds after submission, decided in one"
