"""Delay scheduling in simulated cells, by the same class as live."""

from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest

import omega
from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.cellstate.override import override
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Claim, Outcome, Transaction
from omega.schedulers.instruments import Instrument
from omega.schedulers.placement.delay import Delay, DelayReset
from omega.schedulers.placement.first_fit import FirstFit
from omega.schedulers.policies import Placement
from omega.schedulers.scheduler import Scheduler
from omega.schedulers.work import Work
from tests.unit.schedulers.test_delay import SLOT, job, near


class Launches(Instrument):
    """Counts the tasks of a job by machine, and records the time of the last launch."""

    def __init__(self) -> None:
        self.at = Counter[tuple[str, int]]()
        self.last = 0.0

    @override
    def committed(self, transaction: Transaction, outcome: Outcome, now: float) -> None:
        for claim, (placed, _) in zip(transaction.claims, outcome.claims, strict=True):
            self.at[transaction.job, claim.machine] += placed
            self.last = max(self.last, now if placed else 0.0)


def sticky(scheduler: Scheduler) -> tuple[float, int]:
    """F13: 20 machines with one slot, the data on one, 100 tasks of 10 s; return the last launch and the local ones."""
    launches = Launches()
    scheduler.instruments.append(launches)
    one = JobSpec("a", "a", "batch", (TaskGroup(SLOT, 100, 10_000, near("m7", wait_ms=[15_000])),))
    workload = omega.Workload([MachineSpec(f"m{i}", SLOT) for i in range(20)], [], [omega.Arrival(0.0, one)], "F13")
    omega.simulate(scheduler, workload, days=0.02, takes="batch", share=1)
    assert sum(launches.at.values()) == 100
    return launches.last, launches.at["a", 7]


def test_a_tasks_wait_is_never_begun_again() -> None:
    """F13: done in about 65 s."""
    last, local = sticky(Scheduler("batch", t_job=0.01))
    assert last + 10 == pytest.approx(65, abs=1)
    assert 5 <= local <= 8


def test_under_reset_job_each_local_launch_begins_the_wait_again() -> None:
    """The paper's rule on the same cell: all tasks run on the machine with the data."""
    last, local = sticky(Scheduler("batch", placement=Delay(reset=DelayReset.JOB), t_job=0.01))
    assert (local, last > 900) == (100, True)


@pytest.mark.parametrize("schedulers", [1, 8])
def test_the_waits_hold_with_several_schedulers_and_one_seed_gives_one_history(schedulers: int) -> None:
    cell = [MachineSpec(f"m{i}", SLOT, {"rack": f"r{i // 4}"}) for i in range(16)]
    rng = Random(3)
    jobs = [job(f"j{i}", near(f"m{rng.randrange(16)}", f"m{rng.randrange(16)}"), 3, 8_000) for i in range(60)]
    workload = omega.Workload(cell, [], [omega.Arrival(2.0 * i, each) for i, each in enumerate(jobs)], "blocks")

    def run(inner: Placement) -> tuple[str, int]:
        launches = Launches()
        found = Scheduler("batch", placement=inner, instruments=[launches], t_job=0.01)
        result = omega.simulate(found, workload, days=0.01, takes="batch", share=1, batch_schedulers=schedulers).result
        assert result.kinds["batch"].tasks_scheduled == 180
        return result.digest, sum(n for each, n in launches.at.items() if each[1] in data[each[0]])

    data = {each.id: {int(name[1:]) for name in each.groups[0].spec["locality"]["machines"]} for each in jobs}
    digest, local = run(FirstFit())
    assert run(FirstFit()) == (digest, local)
    assert local > 2 * run(Blind())[1]


class Blind(FirstFit):
    """First fit that ignores locality."""

    reads = ("locality",)

    @override
    def place(self, work: Work, snapshot: Snapshot, rng: Random) -> Sequence[Claim]:
        return FirstFit.place(self, work, snapshot, rng)
