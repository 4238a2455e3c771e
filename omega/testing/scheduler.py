"""The contract of schedulers: their policies together in a simulated cell."""

from dataclasses import replace
from random import Random

import pytest

from omega.cellstate.model import Gang, JobSpec, MachineSpec, TaskGroup
from omega.cellstate.override import override
from omega.cellstate.transaction import Outcome, Transaction
from omega.schedulers.instruments import Instrument
from omega.schedulers.scheduler import Scheduler
from omega.trial import Trial, simulate
from omega.workload.workload import Arrival, Workload

RACKS, RACK = 5, "r1"
MACHINES, CAPACITY = 25, (8_000, 16_384)
JOBS, EVERY_SECONDS, TASKS, LONGEST_MS = 120, 1.2, 12, 90_000
DAYS = 0.02
"""Half an hour: minutes of arrivals beyond the capacity, then time for the last ones to be placed."""


def constrained(number: int) -> bool:
    """Return whether the job of a number has a constraint: all its tasks belong on one rack."""
    return number % 9 == 4


class Placed(Instrument):
    """Records the machines of the tasks that were placed, by job."""

    def __init__(self) -> None:
        """Record nothing yet."""
        self.machines: dict[str, set[int]] = {}

    @override
    def committed(self, transaction: Transaction, outcome: Outcome, now: float) -> None:
        counts = [placed for placed, _ in outcome.claims]
        here = {claim.machine for claim, placed in zip(transaction.claims, counts, strict=True) if placed}
        self.machines.setdefault(transaction.job, set()).update(here)


def workload(seed: str, kind: str) -> Workload:
    """Return jobs that each fit the cell, sometimes not all at once: of users and pools, some of several groups."""
    rng = Random(seed)
    arrivals = []
    for i in range(JOBS):
        need = (rng.choice((250, 500, 1_000, 2_000)), rng.choice((256, 1_024, 4_096)))
        near = {"locality": {"machines": [f"m{i % MACHINES}"], "wait_ms": [5_000]}}
        spec = {"constraints": [f"rack == '{RACK}'"]} if constrained(i) else near if i % 6 == 5 else {}
        groups = [TaskGroup(need, rng.randint(1, TASKS), rng.randint(1_000, LONGEST_MS), spec)]
        groups += [TaskGroup((250, 256), 2, 1_000, spec)] if i % 8 == 7 else []
        gang = Gang.YES if i % 10 == 9 else Gang.NO
        fields = {"user": rng.choice(("ada", "bob", "eve")), "pool": rng.choice(("", "p", "q"))}
        job = JobSpec(f"j{i}", f"j{i}", kind, tuple(groups), rng.choice((0, 0, 5)), gang, fields)
        arrivals.append(Arrival(i * EVERY_SECONDS, job))
    cell = [MachineSpec(f"m{i}", CAPACITY, {"rack": f"r{i % RACKS}"}) for i in range(MACHINES)]
    return Workload(cell, [], arrivals, "jobs of a contract")


class SchedulerContract:
    """Inherit and set `scheduler`."""

    scheduler: Scheduler

    def trial(self, seed: str = "1") -> Trial:
        """Run half an hour with this scheduler only."""
        kind = self.scheduler.kind
        return simulate(self.scheduler, workload(seed, kind), days=DAYS, takes=kind, share=1)

    @pytest.mark.parametrize("seed", ["1", "2", "3"])
    def test_every_job_that_fits_is_placed(self, seed: str) -> None:
        """No job is abandoned, none is left over."""
        figures = self.trial(seed).result.kinds[self.scheduler.kind]
        assert (figures.jobs_scheduled, figures.jobs_abandoned) == (JOBS, 0)
        assert figures.tasks_scheduled == figures.tasks_submitted

    def test_constraints_hold(self) -> None:
        """The scheduler applies them round its placement, and a placement that declares to apply them does."""
        placed, kind = Placed(), self.scheduler.kind
        watched = replace(self.scheduler.fresh("1"), instruments=[*self.scheduler.instruments, placed])
        simulate(watched, workload("1", kind), days=DAYS, takes=kind, share=1)
        racks = {f"r{each % RACKS}" for i in range(JOBS) if constrained(i) for each in placed.machines.get(f"j{i}", ())}
        assert racks == {RACK}

    def test_alone_in_a_cell_it_meets_no_conflict(self) -> None:
        """Claims are rejected only because of others; the scheduler's own copy is exact."""
        figures = self.trial().result.kinds[self.scheduler.kind]
        assert figures.conflict_fraction.median == 0

    def test_the_same_seed_gives_the_same_history(self) -> None:
        """Identical in every claim, verdict and end."""
        assert self.trial().result.digest == self.trial().result.digest

    def test_it_can_be_copied_and_begun_anew(self) -> None:
        """Each copy starts without jobs."""
        fresh = self.scheduler.fresh("seed")
        assert (len(fresh.queue.ready), fresh.queue.blocked_jobs, fresh.working) == (0, 0, {})
        assert fresh.queue is not self.scheduler.queue
