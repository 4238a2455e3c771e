"""The end of a demonstration: a cell that explains itself."""

from omega.cellstate.memory import MemoryCell
from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.cellstate.replies import CommitRequest
from omega.cellstate.transaction import Claim, Position, Transaction
from omega.cli.demo import stop_jobs
from omega.queries.jobs import list_jobs


def test_no_job_waits_for_machines_that_are_gone() -> None:
    """One ran on the simulated machines, whose executor left; one waits; one is held; one ended before."""
    cell = MemoryCell()
    simulated = cell.executors.register("simulated", "n", 60_000, 0)
    cell.machines.join("simulated", [MachineSpec("m0", (4_000, 4_096))], 0)
    cell.jobs.submit(
        [JobSpec(each, each, "batch", (TaskGroup((1_000, 256), 2),)) for each in ("ran", "waits", "was")], 0, "a"
    )
    cell.jobs.submit([JobSpec("held", "held", "batch", (TaskGroup((1_000, 256), 1),))], 0, "a", held=True)
    cell.jobs.stop("was", 0, "a")
    me = cell.schedulers.register("batch/0", "n", 60_000, 0)
    cell.schedulers.commit(CommitRequest(me, 1, [Transaction("ran", (Claim(0, 0, 1),))], Position(), 0))
    cell.executors.deregister(simulated, 1, "a", reaped=False)
    assert stop_jobs(cell.jobs, 2, "a") == 3
    rows = list_jobs(cell, cell.jobs.page(), 2)["jobs"]
    assert {(row["state"], row["reason"]) for row in rows} == {("stopped", None)}
    assert stop_jobs(cell.jobs, 3, "a") == 0
