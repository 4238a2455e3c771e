"""Jobs that wait for relations to other jobs, or for somebody to evict, are notified: nothing polls for them."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Claim
from omega.schedulers import live_driver
from omega.schedulers.policies import NoPreemption, Placement, Preemption
from omega.schedulers.preemption.precedence import PrecedencePreemption
from omega.schedulers.presets import batch, service
from omega.schedulers.queue import queue
from omega.schedulers.queue.queue import SCAN_SECONDS
from omega.schedulers.scheduler import Scheduler
from omega.schedulers.work import Work
from omega.simulation import Settings, Simulation
from omega.workload.workload import Arrival, Workload
from tests.unit.schedulers.rig import Rig, spec

POLL_SECONDS, NEVER = 10_000.0, 1e9
NEAR: dict[str, object] = {"near": {"job": "db", "required": True}}


@pytest.fixture(autouse=True)
def no_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_driver, "IDLE_SECONDS", POLL_SECONDS)
    monkeypatch.setattr(queue, "LOOK_SECONDS", NEVER)
    monkeypatch.setattr(queue, "SCAN_SECONDS", NEVER)


def demanding(name: str, **demands: object) -> JobSpec:
    return JobSpec(name, name, "batch", (TaskGroup((100, 100), 1, 0, demands),))


def other(name: str) -> JobSpec:
    """A job of which another scheduler takes care."""
    return JobSpec(name, name, "service", (TaskGroup((100, 100), 1),))


def blocked(scheduler: Scheduler, *jobs: JobSpec) -> Rig:
    """A cell of two machines in which jobs of the scheduler are blocked, and which it has looked at once."""
    rig = Rig((1_000, 1_000), (1_000, 1_000), scheduler=scheduler)
    rig.submit(*jobs)
    rig.until(lambda: rig.scheduler.queue.blocked_jobs == len(jobs))
    rig.until(lambda: len(rig.clock.pauses) == 1)
    rig.rest()
    rig.other.schedulers.members()  # whom to notify
    rig.clock.pauses.clear()
    return rig


def test_a_job_is_notified_of_the_placement_near_which_it_must_run() -> None:
    rig = blocked(batch("own"), demanding("web", **NEAR))
    rig.other.jobs.submit([other("db"), other("stranger")], 0, "ada")
    rig.clock.after(1.0, lambda: rig.foreign("db", 1, 1))
    rig.until(lambda: rig.placed("web") == 1)
    assert len(rig.clock.pauses) == 1, "the placement ended the wait"
    assert [machine for _, machine, _ in rig.job("web").groups[0].runs] == [1]


def test_a_job_is_tried_after_that_near_which_it_must_run_when_one_call_has_both() -> None:
    rig = Rig((1_000, 1_000), (1_000, 1_000))
    rig.submit(replace(demanding("web", **NEAR), precedence=9), spec("db"))
    rig.until_placed("db", "web")


def test_a_placement_of_another_job_does_not_disturb() -> None:
    rig = blocked(batch("own"), demanding("web", **NEAR))
    rig.other.jobs.submit([other("stranger")], 0, "ada")
    rig.foreign("stranger", 1, 1)
    assert not rig.cell.schedulers.wait_for_work("batch/0", 1.0)


def test_a_job_is_notified_of_the_end_of_one_from_which_it_keeps_apart() -> None:
    rig = Rig((1_000, 1_000), scheduler=batch("own"))
    rig.other.jobs.submit([other("db")], 0, "ada")
    rig.foreign("db", 0, 1)
    rig.submit(demanding("web", apart_from="db"))
    rig.until(lambda: rig.scheduler.queue.blocked_jobs == 1)
    rig.until(lambda: len(rig.clock.pauses) == 1)
    rig.other.schedulers.members()
    rig.clock.pauses.clear()
    rig.clock.after(1.0, lambda: rig.end("db"))
    rig.until(lambda: rig.placed("web") == 1)
    assert len(rig.clock.pauses) == 1


class ByShares(Preemption):
    """Evicts nobody; whom it might evict depends on what others hold."""

    by = "fair share"

    def suspects(self, work: Work, snapshot: Snapshot, rng: Random) -> None:
        """See Preemption.suspects."""

    def place(self, work: Work, snapshot: Snapshot, placement: Placement, rng: Random) -> Sequence[Claim]:
        return ()


@pytest.mark.parametrize(
    ("policy", "looks"), [(ByShares(), True), (PrecedencePreemption(), False), (NoPreemption(), False)]
)
def test_a_scheduler_that_evicts_by_shares_looks_for_placements_by_others(
    policy: Preemption, looks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They change shares, but do not notify it; what is free and what has a lower precedence changes in no sum."""
    monkeypatch.setattr(queue, "SCAN_SECONDS", SCAN_SECONDS)
    rig = blocked(Scheduler("batch", preemption=policy), spec("large", need=(5_000, 5_000), precedence=9))
    rig.other.jobs.submit([other("db")], 0, "ada")
    rig.foreign("db", 1, 1)
    assert not rig.cell.schedulers.wait_for_work("batch/0", SCAN_SECONDS)
    due = rig.scheduler.queue.next_due()
    assert (due is not None and due <= rig.clock.now()) is looks


@pytest.mark.parametrize("think", [0.0, 3.0])
def test_a_simulated_job_is_notified_of_a_placement_and_of_one_during_its_own_attempt(think: float) -> None:
    """The web job is tried at 9 s, when db is not placed; db's scheduler takes 10 to 11 s for it."""
    old = JobSpec("old", "old", "service", (TaskGroup((100, 100), 1, 0, {"near": {"job": "none", "required": True}}),))
    web = JobSpec("web", "web", "service", (TaskGroup((100, 100), 1, 1_000_000, NEAR),))
    db = JobSpec("db", "db", "batch", (TaskGroup((100, 100), 1, 1_000_000),))
    workload = Workload(
        [MachineSpec("m0", (1_000, 1_000))], [], [Arrival(1.0, old), Arrival(9.0, web), Arrival(10.0, db)], "near"
    )
    own = [service("own"), Scheduler("batch", t_job=1.0)]
    own[0].t_job = think
    found = Simulation(workload, Settings(days=60 / 86_400), own=own).run()
    assert found.kinds["service"].jobs_scheduled == 1
