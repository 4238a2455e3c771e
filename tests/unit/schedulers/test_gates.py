"""The gate of a scheduler in a simulation and a dry run, and the jobs that it holds."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

import omega
import omega.testing
from omega.cellstate.model import JobSpec, JobState, MachineSpec, TaskGroup
from omega.schedulers.dry_run import DryRun
from omega.schedulers.gates import HeldJobs
from omega.schedulers.policies import with_wrapped
from omega.schedulers.presets import batch
from tests.unit.schedulers.rig import Rig, spec

BUDGET = omega.JobField("budget", "number", "budget of the job", default=1)


@dataclass
class From(omega.Gate):
    """Jobs with a budget of 0 are held until a time."""

    seconds: float = 100.0
    asked: list[float] = field(default_factory=list)
    job_fields = (BUDGET,)

    def hold(self, work: omega.Work, now: float) -> str | None:
        if work.id == "j0":
            self.asked.append(now)
        return "no budget" if not BUDGET.of(work) and now < self.seconds else None


class Begun(omega.Instrument):
    """When the tasks of each job were placed."""

    def __init__(self) -> None:
        self.at: dict[str, float] = {}

    def committed(self, transaction: Any, outcome: Any, now: float) -> None:
        self.at[transaction.job] = now


def test_a_simulated_gate_holds_jobs_until_its_next_answer() -> None:
    group, begun = (TaskGroup((1_000, 1_024), 1, 5_000),), Begun()
    arrivals = [omega.Arrival(0.0, JobSpec(f"j{i}", f"j{i}", "mine", group, spec={"policy": {"budget": i}}))
                for i in range(2)]  # fmt: skip
    gate = From()
    mine = omega.Scheduler("mine", gate=gate, instruments=[begun], t_job=0.001)
    workload = omega.Workload([MachineSpec("m", (4_000, 4_096))], [], arrivals, "two jobs")
    omega.simulate(mine, workload, days=0.01)
    assert begun.at["j1"] < 1
    assert 100 <= begun.at["j0"] < 102


def test_a_gate_has_job_fields_as_policies_have() -> None:
    scheduler = omega.Scheduler("mine", gate=From())
    assert scheduler.job_fields == (BUDGET,)
    assert any(isinstance(each, From) for each in with_wrapped(scheduler.fresh("s").gate))


def test_a_dry_run_says_what_the_gate_would_hold() -> None:
    scheduler, rig = omega.Scheduler("mine", gate=From()), Rig((1_000, 1_000))
    copy = omega.testing.snapshot((1_000, 1_000))
    held = DryRun(scheduler, copy, rig.other).plan(omega.testing.work(((100, 100), 1), spec={"policy": {"budget": 0}}))
    assert (held.held, held.claims) == ("no budget", [])
    free = DryRun(scheduler, copy, rig.other).plan(omega.testing.work(((100, 100), 1), name="b"))
    assert (free.held, len(free.claims)) == ("", 1)


class Users:
    """Holds all jobs for a reason."""

    reason = "closed"

    def hold(self, work: omega.Work, now: float) -> str | None:
        return self.reason


def live() -> tuple[Rig, Users]:
    gate, scheduler = Users(), batch("rig")
    scheduler.gate = gate
    return Rig((10_000, 10_000), scheduler=scheduler), gate


def held(rig: Rig, *names: str) -> Callable[[], bool]:
    return lambda: all((job := rig.other.jobs.get(name)) and job.state is JobState.HELD for name in names)


def test_a_live_gate_is_asked_again_and_its_new_reason_is_stored() -> None:
    rig, gate = live()
    rig.other.jobs.submit([spec("a"), spec("b", 2)], 0, "ada")
    rig.until(held(rig, "a", "b"))
    gate.reason = "still closed"
    rig.until(lambda: [rig.other.jobs.get(name).gate for name in "ab"] == ["still closed"] * 2)  # type: ignore[union-attr]
    gate.reason = ""
    rig.until(lambda: all(rig.other.jobs.get(name).unplaced == 0 for name in "ab"))  # type: ignore[union-attr]
    assert rig.scheduler.held.works == {}


def test_a_held_job_that_ends_or_that_a_person_releases_is_forgotten() -> None:
    rig, gate = live()
    rig.other.jobs.submit([spec("a"), spec("b")], 0, "ada")
    rig.until(held(rig, "a", "b"))
    rig.other.jobs.release("a", 1, "ada")
    rig.until(lambda: rig.other.jobs.get("a").unplaced == 0)  # type: ignore[union-attr]
    rig.other.jobs.stop("b", 2, "ada")
    gate.reason = "still closed"  # the next answer of the store says that it ended
    rig.until(lambda: rig.scheduler.held.works == {})


def test_a_new_incarnation_learns_what_the_gate_holds() -> None:
    jobs = HeldJobs()
    rig, gate = live()
    rig.other.jobs.submit([spec("a"), spec("b")], 0, "ada")
    rig.until(held(rig, "a", "b"))
    jobs.learn(job for name in "ab" if (job := rig.other.jobs.get(name)) is not None)
    assert sorted(jobs.works) == ["a", "b"]
    jobs.keep(lambda job_id, _: job_id == "b")
    assert sorted(jobs.works) == ["b"]
    rig.other.jobs.release("b", 4, "ada")
    jobs.learn([job for job in [rig.other.jobs.get("b")] if job])
    assert jobs.works == {}
    assert gate.reason


def test_an_error_of_a_gate_ends_a_simulation() -> None:
    class Broken:
        def hold(self, work: omega.Work, now: float) -> str | None:
            raise KeyError("x")

    group = (TaskGroup((1_000, 1_024), 1, 5_000),)
    workload = omega.Workload(
        [MachineSpec("m", (4_000, 4_096))], [], [omega.Arrival(0.0, JobSpec("a", "a", "mine", group))], "one"
    )
    with pytest.raises(KeyError):
        omega.simulate(omega.Scheduler("mine", gate=Broken()), workload, days=0.01)
