"""What any process of a cell does for all, between two heartbeats."""

import fakeredis

from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import CommitRequest
from omega.cellstate.transaction import Claim, Position, Transaction
from omega.schedulers.process.housekeeping import MOST_CALLS, housekeep


def test_a_bounded_part_of_what_a_stopped_job_runs_ends_between_two_heartbeats() -> None:
    cell = RedisCell.create(fakeredis.FakeRedis(), "c")
    runs = MOST_CALLS + 2
    cell.executors.register("e0", "n", 600_000, 0)
    cell.machines.join("e0", [MachineSpec(f"m{i}", (1, 1)) for i in range(runs)], 0)
    cell.jobs.submit([JobSpec("a", "a", "batch", (TaskGroup((1, 1), runs),))], 0, "ada")
    claims = tuple(Claim(machine, 0, 1) for machine in range(runs))
    cell.schedulers.commit(
        CommitRequest(cell.schedulers.register("batch/0", "n", 60_000, 0), 1, [Transaction("a", claims)], Position(), 0)
    )
    cell.jobs.stop("a", 0, "ada")
    assert housekeep(cell, 0, "batch/0", most=1), "more is due"
    job = cell.jobs.get("a")
    assert job is not None
    assert job.groups[0].placed == 2
    assert not housekeep(cell, 0, "batch/0", most=1)
    assert cell.jobs.chores() == {}
