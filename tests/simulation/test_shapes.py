"""What tells the architectures apart, in small: the shapes of Omega §4 on two hours of 100 machines."""

from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import pytest

from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.cellstate.transaction import Detection, Mode
from omega.simulation import Result, Settings, Simulation
from omega.workload.workload import Arrival, Workload
from tests.simulation.tiny import HOURS_2, TINY, simulated


@cache
def run(architecture: str, t_job_service: float, **more: Any) -> Result:
    return simulated(architecture=architecture, t_job_service=t_job_service, **more)


def busyness(result: Result, kind: str = "batch") -> float:
    return result.kinds[kind].busyness.median


def test_single_path_busyness_is_linear_until_saturation() -> None:
    """Busyness is arrivals per second × t_job + what the tasks take; then 1, and waits grow without end."""
    slope = len(TINY.arrivals) / (HOURS_2 * 86_400)
    first = busyness(run("monolithic-single", 0.5))
    for t_job in (1.0, 2.0, 4.0, 6.0):
        assert busyness(run("monolithic-single", t_job)) == pytest.approx(first + slope * (t_job - 0.5), rel=0.03)
    saturated = run("monolithic-single", 20.0)
    assert busyness(saturated) > 0.98
    assert saturated.kinds["batch"].wait_mean > 100 * run("monolithic-single", 2.0).kinds["batch"].wait_mean


def test_one_line_makes_both_kinds_wait_alike() -> None:
    """Single-path: all decisions are equal, all jobs are in the same line."""
    kinds = run("monolithic-single", 4.0).kinds
    assert kinds["service"].wait_mean == pytest.approx(kinds["batch"].wait_mean, rel=0.3)


def test_multi_path_blocks_batch_behind_slow_service() -> None:
    waits = [run("monolithic-multi", t_job).kinds["batch"].wait_mean for t_job in (0.1, 10.0, 100.0)]
    assert waits[0] < 0.01
    assert waits[1] > 20 * waits[0]
    assert waits[2] > 100 * waits[1]
    assert busyness(run("monolithic-multi", 10.0)) < busyness(run("monolithic-single", 6.0)) / 5


def test_shared_state_batch_does_not_notice_slow_service() -> None:
    waits = [run("shared-state", t_job).kinds["batch"].wait_mean for t_job in (0.1, 10.0, 100.0)]
    assert max(waits) == pytest.approx(min(waits), rel=0.05)
    assert busyness(run("shared-state", 100.0)) == pytest.approx(busyness(run("shared-state", 0.1)), rel=0.02)
    assert busyness(run("shared-state", 100.0), "service") > 0.9


def test_longer_decisions_of_service_conflict_more() -> None:
    fractions = [
        run("shared-state", t_job).kinds["service"].conflict_fraction.median for t_job in (0.1, 1.0, 10.0, 100.0)
    ]
    assert fractions == sorted(fractions)
    assert fractions[0] < 0.05
    assert fractions[-1] > 0.3


@pytest.mark.parametrize("architecture", ["monolithic-single", "monolithic-multi", "partitioned", "two-level"])
@pytest.mark.parametrize("t_job", [1.0, 30.0])
def test_only_shared_state_conflicts(architecture: str, t_job: float) -> None:
    for kind in run(architecture, t_job).kinds.values():
        assert kind.conflict_fraction.median == kind.wasted.median == 0


def test_parts_are_fixed_and_fragment() -> None:
    """Each kind keeps to its half: batch fills its own, though the other has room for what waits."""
    result = run("partitioned", 0.1)
    assert result.kinds["service"].attempts == 49
    crowded = simulated(architecture="partitioned", shares={"batch": 0.1, "service": 0.9})
    shared = run("shared-state", 0.1)
    assert crowded.kinds["batch"].jobs_scheduled < shared.kinds["batch"].jobs_scheduled == 738
    assert crowded.utilisation["cpu"] < shared.utilisation["cpu"]


def job(name: str, kind: str, at: float, tasks: int, cpu: int, seconds: float) -> Arrival:
    """A job of equal tasks; cpu in millicores, and of memory the same share of a machine."""
    return Arrival(
        at, JobSpec(name, name, kind, (TaskGroup((cpu, cpu * 16_384 // 4_000), tasks, round(seconds * 1000)),))
    )


STARVING = Workload(
    [MachineSpec(f"m{i}", (4_000, 16_384)) for i in range(4)],
    [],
    [
        job("scrap", "batch", 0.0, 1, 250, 10),
        job("slow", "service", 1.0, 1, 1_000, 1_000),
        job("large", "batch", 5.0, 10, 1_000, 60),
    ],
    "what a job of 10 tasks is offered while service thinks is the room of one small task",
)


def test_two_level_abandons_what_starves_and_shared_state_nothing() -> None:
    """Everything free is offered to service and locked while it thinks (§3.3, §4.2)."""
    results = {
        (architecture, t_job): Simulation(
            STARVING, Settings(architecture=architecture, days=1_000 / 86_400, t_job_service=t_job)
        ).run()
        for architecture in ("two-level", "shared-state")
        for t_job in (0.1, 500.0)
    }
    abandoned = {way: result.kinds["batch"].jobs_abandoned for way, result in results.items()}
    assert abandoned == {way: int(way == ("two-level", 500.0)) for way in results}
    starved = results["two-level", 500.0].kinds["batch"]
    assert starved.attempts == 1 + 1_000
    assert starved.no_fit_attempts == 1_000


def test_gangs_that_hoard_can_deadlock() -> None:
    """Two-level, all-or-nothing: two schedulers each keep half the cell and want three quarters (§3.3)."""
    jobs = [
        job("first", "batch", 0.0, 2, 4_000, 10),
        job("second", "batch", 0.0, 2, 4_000, 20),
        job("b", "batch", 1.0, 3, 4_000, 50),
        job("s", "service", 1.0, 3, 4_000, 50),
    ]
    settings = Settings(architecture="two-level", days=10_000 / 86_400, commit=Mode.GANG)
    cell = Workload(STARVING.machines, [], jobs, "")
    hoarding = Simulation(cell, settings).run().kinds
    assert [kind.jobs_scheduled for kind in hoarding.values()] == [2, 0]
    free = Simulation(cell, replace(settings, architecture="shared-state")).run().kinds
    assert [kind.jobs_scheduled for kind in free.values()] == [3, 1]


def test_more_batch_schedulers_conflict_more_and_each_is_less_busy() -> None:
    """Figure 9: up to 32 schedulers that share the jobs by a hash of the id."""
    results = [run("shared-state", 0.1, batch_schedulers=count, t_job_batch=5.0) for count in (1, 2, 4, 8, 16, 32)]
    fractions = [result.kinds["batch"].conflict_fraction.median for result in results]
    assert all(later > 0.9 * earlier for earlier, later in pairwise(fractions))
    assert fractions[-1] > 5 * fractions[0]
    shares = [busyness(result) for result in results]
    assert all(later < 0.6 * earlier for earlier, later in pairwise(shares))
    loads = [simulated["attempts"] for name, simulated in results[3].schedulers.items() if name.startswith("batch")]
    assert len(loads) == 8
    assert min(loads) > 40


def test_coarse_detection_and_gangs_conflict_more() -> None:
    """Figure 14: about twice each; here at least more."""
    fine = run("shared-state", 10.0, seed=2)
    gang = run("shared-state", 10.0, seed=2, commit=Mode.GANG)
    coarse = run("shared-state", 10.0, seed=2, detection=Detection.COARSE)
    fraction = [result.kinds["service"].conflict_fraction.median for result in (fine, gang, coarse)]
    assert fraction[0] <= fraction[1]
    assert fraction[2] > 2 * fraction[0]


def test_a_job_that_fits_nowhere_sleeps_until_there_is_room() -> None:
    """Live rules: no attempt is spent on it meanwhile. Reference rules: one every second."""
    big = [Arrival(float(i), replace(TINY.arrivals[0].job, id=f"big{i}", name=f"big{i}")) for i in range(900)]
    full = Workload(TINY.machines, TINY.residents, big, "")
    live = Simulation(full, Settings(days=400 / 86_400)).run().kinds["batch"]
    theirs = Simulation(full, Settings(days=400 / 86_400, reference_rules=True)).run().kinds["batch"]
    assert live.attempts < theirs.attempts
