"""No two tasks of a job on one machine, where its group demands that: each placement, also when room is scarce."""

from collections import Counter
from random import Random
from typing import Any

import pytest

from omega.cellstate.model import Gang, Job, JobSpec, MachineSpec, TaskGroup
from omega.cellstate.transaction import Detection, Outcome, Transaction
from omega.schedulers.presets import batch, service
from omega.simulation import Settings, Simulation
from omega.simulation.packed_snapshot import PackedSnapshot
from omega.simulation.settings import PLACEMENTS
from omega.workload.workload import Arrival, Workload

MACHINES = [MachineSpec(f"m{i}", (6, 6)) for i in range(9)]
APART = {"different_machines": True}


def crowded(seed: int) -> Workload:
    """Jobs that together need more than there is; every other one wants different machines, in one group or two."""
    rng, arrivals = Random(seed), list[Arrival]()
    for i in range(40):
        extra = APART if i % 2 else {}
        groups = [TaskGroup((rng.randint(1, 2), 1), rng.randint(1, 7), rng.choice((5_000, 30_000)), extra)]
        if i % 4 == 3:
            groups.append(TaskGroup((1, 2), rng.randint(1, 2), 8_000, APART))
        gang = rng.choice((Gang.NO, Gang.NO, Gang.YES))
        job = JobSpec(f"j{i}", f"j{i}", rng.choice(("batch", "service")), tuple(groups), 0, gang)
        arrivals.append(Arrival(3.0 * i, job))
    return Workload(MACHINES, [], arrivals, "")


def most_together(workload: Workload, settings: Settings, **own: Any) -> tuple[Counter[str], int, int]:
    """Run; return the tasks placed by job, the most tasks of a job with the demand on a machine, and the attempts."""
    simulation = Simulation(workload, settings, **own)
    tasks, on, transactions = Counter[str](), Counter[tuple[str, int]](), 0
    commit = simulation.world.commit

    def noted(number: int, member: str, job: Job, transaction: Transaction, copy: PackedSnapshot) -> Outcome:
        nonlocal transactions
        outcome = commit(number, member, job, transaction, copy)
        transactions += 1
        for claim, (placed, _) in zip(transaction.claims, outcome.claims, strict=True):
            tasks[job.id] += placed
            on[job.id, claim.machine] += placed
        return outcome

    simulation.world.commit = noted  # type: ignore[method-assign]
    simulation.run()
    apart = {each.job.id for each in workload.arrivals if each.job.groups[0].spec}
    return tasks, max(count for (job_id, _), count in on.items() if job_id in apart), transactions


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("detection", list(Detection))
def test_simulated_placements(placement: str, detection: Detection, seed: int) -> None:
    settings = Settings(days=0.01, t_job_service=0.5, placement=placement, detection=detection, seed=seed)
    tasks, most, transactions = most_together(lasting(crowded(seed)), settings)
    assert most == 1
    assert transactions > len(tasks), "some jobs need several attempts"


@pytest.mark.parametrize("seed", range(3))
def test_schedulers_that_also_run_live(seed: int) -> None:
    workload, settings = lasting(crowded(seed)), Settings(days=0.01, seed=seed)
    tasks, most, attempts = most_together(workload, settings, own=[batch(), service()])
    assert most == 1
    assert len(tasks) > 6
    assert attempts < 100, "a gang that does not fit is not tried again and again"


def lasting(workload: Workload) -> Workload:
    """Return the workload with tasks of jobs with the demand that never end; others leave their room to them."""
    arrivals = []
    for each in workload.arrivals:
        groups = [
            TaskGroup(group.need, group.count, 10**8 if each.job.groups[0].spec else group.duration_ms, group.spec)
            for group in each.job.groups
        ]
        job = JobSpec(each.job.id, each.job.name, each.job.kind, tuple(groups), 0, each.job.gang)
        arrivals.append(Arrival(each.at_seconds, job))
    return Workload(workload.machines, [], arrivals, "")
