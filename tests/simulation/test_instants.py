"""Tasks of no length, and ends and starts at the same instant."""

from collections.abc import Sequence
from typing import Any

import pytest

from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.simulation import ARCHITECTURES, Settings, Simulation
from omega.workload.workload import Arrival, Workload

SLOT = (1_000, 1_000)
Happened = list[tuple[float, str, int]]


def happens(
    monkeypatch: pytest.MonkeyPatch, architecture: str, jobs: Sequence[tuple[float, float]], t_job: float = 0.0
) -> Happened:
    """Simulate batch jobs of one task each, (arrival, duration) in seconds, on one slot: what starts and ends when."""
    arrivals = [
        Arrival(at, JobSpec(f"j{i}", f"j{i}", "batch", (TaskGroup(SLOT, 1, round(seconds * 1000)),)))
        for i, (at, seconds) in enumerate(jobs)
    ]
    machines = [MachineSpec(f"m{i}", SLOT) for i in range(2 if architecture == "partitioned" else 1)]
    settings = Settings(architecture=architecture, days=60 / 86_400, t_job_batch=t_job, t_job_service=t_job, t_task=0.0)
    simulation, found = Simulation(Workload(machines, [], arrivals, ""), settings), Happened()
    engine, commit, end = simulation.world.engine, simulation.store.commit, simulation.store.end

    def committed(*given: Any) -> Any:
        outcome, placed = commit(*given)
        if placed:
            found.append((engine.seconds, "start", sum(each.tasks for each in placed)))
        return outcome, placed

    def ended(*given: Any) -> int:
        found.append((engine.seconds, "end", end(*given)))
        return found[-1][2]

    monkeypatch.setattr(simulation.store, "commit", committed)
    monkeypatch.setattr(simulation.store, "end", ended)
    result = simulation.run()
    assert result.kinds["batch"].jobs_scheduled == result.kinds["batch"].jobs_submitted == len(jobs)
    assert all(share <= 1.0 for share in result.utilisation.values())
    return found


def in_use(happened: Happened) -> list[int]:
    """How many tasks hold the slot after each start and end."""
    levels, held = [], 0
    for _, what, tasks in happened:
        held += tasks if what == "start" else -tasks
        levels.append(held)
    return levels


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_tasks_of_no_length_start_and_end(monkeypatch: pytest.MonkeyPatch, architecture: str) -> None:
    happened = happens(monkeypatch, architecture, [(1.0, 0.0), (2.0, 5.0), (7.1, 0.0)])
    assert [what for _, what, _ in happened] == ["start", "end"] * 3
    assert in_use(happened) == [1, 0] * 3
    times = [at for at, _, _ in happened]
    assert times == pytest.approx([1.0, 1.0, 2.0, 7.0, 7.1, 7.1], abs=0.01)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_what_ends_at_an_instant_leaves_before_what_starts_then(
    monkeypatch: pytest.MonkeyPatch, architecture: str
) -> None:
    """The second job arrives at the instant at which the first one ends; the slot is never held twice."""
    happened = happens(monkeypatch, architecture, [(0.0, 10.0), (10.0, 10.0)])
    assert [what for _, what, _ in happened] == ["start", "end", "start", "end"]
    assert in_use(happened) == [1, 0, 1, 0]
    assert [at for at, _, _ in happened] == pytest.approx([0.0, 10.0, 10.0, 20.0], abs=0.01)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_room_that_is_freed_during_a_decision_is_used(monkeypatch: pytest.MonkeyPatch, architecture: str) -> None:
    """The second job is decided on from 8 to 12 s; the slot is freed at 9 s, and nothing else ever happens."""
    happened = happens(monkeypatch, architecture, [(0.0, 5.0), (8.0, 5.0)], t_job=4.0)
    assert in_use(happened) == [1, 0, 1, 0]
    first, _, second, _ = (at for at, _, _ in happened)
    assert first == pytest.approx(4.0, abs=0.01)
    # Decided again on a new copy; or an offer that is made at 9 s; or decided on the cell as it is at 12 s.
    assert second == pytest.approx({"shared-state": 16.0, "two-level": 13.0}.get(architecture, 12.0), abs=0.01)


def test_jobs_of_higher_precedence_do_not_overtake() -> None:
    """The architectures of the paper take jobs in order of submission."""
    arrivals = [
        Arrival(at, JobSpec(f"j{i}", f"j{i}", kind, (TaskGroup(SLOT, 1, 1_000),), precedence))
        for i, (at, kind, precedence) in enumerate([(0.0, "batch", 0), (1.0, "batch", 0), (2.0, "service", 11)])
    ]
    workload = Workload([MachineSpec(f"m{i}", SLOT) for i in range(3)], [], arrivals, "")
    settings = Settings(architecture="monolithic-single", days=60 / 86_400, t_job_service=10.0, t_task=0.0)
    kinds = Simulation(workload, settings).run().kinds
    assert (kinds["batch"].wait_mean, kinds["service"].wait_mean) == (4.5, 18.0)
