"""Transactions of simulations: blocks of runs, and what is left to single claims: machines over, tasks that leave."""

import pytest

from omega.cellstate.memory import MemoryCell
from omega.cellstate.memory.commit import carry_out
from omega.cellstate.memory.tasks import end_block
from omega.cellstate.model import After, Gang, JobSpec, JobState, MachineSpec, TaskGroup
from omega.cellstate.resources import Dimensions
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, ClaimColumns, Mode, Transaction, Verdict
from omega.simulation.packed_snapshot import PackedSnapshot
from omega.simulation.simulated_store import MemoryStore


def test_a_machine_that_is_over_is_down_and_not_full() -> None:
    cell = MemoryCell("c", Dimensions(("cpu", "memory")), log=False, mailboxes=False)
    cell.executors.register("e0", "n", 600_000, 0)
    cell.machines.join("e0", [MachineSpec("m0", (4, 4)), MachineSpec("m1", (4, 4))], 0)
    cell.jobs.submit([JobSpec("a", "a", "batch", (TaskGroup((2, 2), 9),))], 0, "ada")
    assert carry_out(cell, Transaction("a", (Claim(0, 0, 2),)), 0, "batch/0")[0].accepted
    cell.machines.join("e0", [MachineSpec("m0", (3, 3))], 0)
    outcome, placed = carry_out(cell, Transaction("a", ClaimColumns([1, 0, 1])), 0, "batch/0")
    assert [verdict for _, verdict in outcome.claims] == [Verdict.PLACED, Verdict.DOWN, Verdict.PLACED]
    assert sum(each.tasks for each in placed) == 2


def test_a_job_whose_tasks_are_leaving_is_kept_until_they_left() -> None:
    cell = MemoryCell("c", Dimensions(("cpu", "memory")), keep_jobs=0, log=False, mailboxes=False)
    cell.executors.register("e0", "n", 600_000, 0)
    cell.machines.join("e0", [MachineSpec("m0", (4, 4)), MachineSpec("m1", (4, 4))], 0)
    cell.jobs.submit([JobSpec("a", "a", "batch", (TaskGroup((2, 2), 2),))], 0, "ada")
    assert carry_out(cell, Transaction("a", ClaimColumns([0])), 0, "batch/0")[0].accepted
    (leaving,) = cell.machines.runs([0])
    assert cell.executors.end([TaskEnd(0, leaving.placement, EndKind.STOPPED)], 1, "ada") == [1]
    _, placed = carry_out(cell, Transaction("a", ClaimColumns([1])), 1, "batch/0")
    assert end_block(cell, placed[0], 2) == 1
    assert [job.id for job in cell.jobs.all()] == ["a"]
    assert [run.leaving for run in cell.machines.runs([0, 1])] == [True]
    cell.executors.end([TaskEnd(0, leaving.placement, EndKind.LEFT)], 3, "e0")
    assert cell.machines.runs([0, 1]) == []
    cell.jobs.submit([JobSpec("b", "b", "batch", (TaskGroup((2, 2), 1),))], 4, "ada")
    _, placed = carry_out(cell, Transaction("b", ClaimColumns([1])), 4, "batch/0")
    assert end_block(cell, placed[0], 5) == 1
    assert cell.jobs.all() == [], "the next end of a job deletes it too"


def test_a_gang_is_incomplete_while_a_lost_task_of_it_is_delayed() -> None:
    cell = MemoryCell("c", Dimensions(("cpu", "memory")), log=False, mailboxes=False)
    cell.executors.register("e0", "n", 600_000, 0)
    cell.machines.join("e0", [MachineSpec("m0", (4, 4))], 0)
    cell.jobs.submit([JobSpec("a", "a", "batch", (TaskGroup((1, 1), 3),), gang=Gang.YES)], 0, "ada")
    carry_out(cell, Transaction("a", ClaimColumns([0, 0, 0]), Mode.GANG), 0, "batch/0")
    cell.executors.end([TaskEnd(0, 1, EndKind.LOST)], 1, "e0")
    cell.executors.end([TaskEnd(0, 2, EndKind.EVICTED)], 2, "e0")
    again = Transaction("a", ClaimColumns([0]), Mode.GANG)
    outcome, _ = carry_out(cell, again, 3, "batch/0")
    assert outcome.claims == ((0, Verdict.INCOMPLETE),)


def test_a_job_that_is_not_there_is_unknown() -> None:
    cell = MemoryCell("c", Dimensions(("cpu", "memory")), log=False, mailboxes=False)
    cell.executors.register("e0", "n", 600_000, 0)
    cell.machines.join("e0", [MachineSpec("m0", (4, 4))], 0)
    outcome, placed = carry_out(cell, Transaction("a", ClaimColumns([0])), 0, "batch/0")
    assert (outcome.claims, placed) == (((0, Verdict.UNKNOWN),), [])


def test_a_cell_with_a_log_notes_every_placement() -> None:
    cell = MemoryCell("c", Dimensions(("cpu", "memory")), mailboxes=False)
    cell.executors.register("e0", "n", 600_000, 0)
    cell.machines.join("e0", [MachineSpec("m0", (4, 4))], 0)
    cell.jobs.submit([JobSpec("a", "a", "batch", (TaskGroup((2, 2), 2),))], 0, "ada")
    assert carry_out(cell, Transaction("a", ClaimColumns([0])), 0, "batch/0")[0].accepted
    assert cell.log.facts()[-1].event[0] == "place"


@pytest.mark.parametrize("keep_jobs", [0, 9])
def test_a_job_with_lost_tasks_does_not_end_with_its_running_ones(keep_jobs: int) -> None:
    cell = MemoryCell("c", Dimensions(("cpu", "memory")), keep_jobs=keep_jobs, log=False, mailboxes=False)
    cell.executors.register("e0", "n", 600_000, 0)
    cell.machines.join("e0", [MachineSpec("m0", (4, 4)), MachineSpec("m1", (4, 4))], 0)
    cell.jobs.submit([JobSpec("a", "a", "batch", (TaskGroup((2, 2), 2),))], 0, "ada")
    _, placed = carry_out(cell, Transaction("a", ClaimColumns([0])), 0, "batch/0")
    _, rest = carry_out(cell, Transaction("a", ClaimColumns([1])), 0, "batch/0")
    assert cell.executors.end(
        [TaskEnd(1, run.placement, EndKind.LOST) for run in cell.machines.runs([1])], 1, "e0"
    ) == [1]
    assert end_block(cell, placed[0], 2) == 1
    (job,) = cell.jobs.all()
    assert (job.state, job.groups[0].delayed, job.groups[0].finished, len(rest)) == (JobState.ACTIVE, 1, 1, 1)


@pytest.mark.parametrize("keep_jobs", [0, 9])
def test_the_end_of_a_job_queues_those_that_wait_for_it(keep_jobs: int) -> None:
    cell = MemoryCell("c", Dimensions(("cpu", "memory")), keep_jobs=keep_jobs, log=False, mailboxes=False)
    cell.executors.register("e0", "n", 600_000, 0)
    cell.machines.join("e0", [MachineSpec("m0", (4, 4))], 0)
    cell.jobs.submit([JobSpec("a", "a", "batch", (TaskGroup((2, 2), 1),))], 0, "ada")
    cell.jobs.submit([JobSpec("b", "b", "batch", (TaskGroup((2, 2), 1),), after=(After("a"),))], 0, "ada")
    _, placed = carry_out(cell, Transaction("a", ClaimColumns([0])), 0, "batch/0")
    assert cell.counters()["arrivals"] == 2
    assert end_block(cell, placed[0], 1) == 1
    assert cell.counters()["arrivals"] == 3, "it arrives anew"
    assert [(job.id, job.state) for job in cell.jobs.all() if job.id == "b"] == [("b", JobState.ACTIVE)]


def test_a_task_that_finished_has_no_losses() -> None:
    cell = MemoryCell("c", Dimensions(("cpu", "memory")), log=False, mailboxes=False)
    cell.executors.register("e0", "n", 600_000, 0)
    cell.machines.join("e0", [MachineSpec("m0", (4, 4))], 0)
    cell.jobs.submit([JobSpec("a", "a", "batch", (TaskGroup((1, 1), 2),))], 0, "ada")
    carry_out(cell, Transaction("a", ClaimColumns([0])), 0, "batch/0")
    cell.executors.end([TaskEnd(0, 1, EndKind.LOST)], 1, "e0")
    assert cell.jobs.housekeep(9_000, "batch/0").queued == 1
    _, placed = carry_out(cell, Transaction("a", ClaimColumns([0, 0])), 9_000, "batch/0")
    assert [loss.tasks for loss in cell.J["a"].groups[0].losses] == [(0, 0)]
    assert sum(end_block(cell, each, 9_001) for each in placed) == 2
    (after,) = cell.jobs.all()
    assert not after.groups[0].losses


@pytest.mark.parametrize("numbered", [False, True])
@pytest.mark.parametrize("watching", [False, True])
def test_machines_gain_room_for_a_watching_snapshot_when_tasks_end_and_not_when_they_are_placed(
    watching: bool, numbered: bool
) -> None:
    store, copy = MemoryStore("c", Dimensions(("cpu", "memory"))), PackedSnapshot(2, numbered=numbered)
    store.join([MachineSpec(f"m{i}", (8, 8)) for i in range(3)])
    store.submit([JobSpec("a", "a", "batch", (TaskGroup((1, 1), 2),))], 0)
    store.refresh(copy)
    copy.watching = watching
    machines = copy.take_each((1, 1), [0, 2])
    outcome, placed = store.commit("batch/0", Transaction("a", ClaimColumns(machines)), copy, 2)
    copy.settle(stands=outcome.accepted)
    store.refresh(copy)
    assert copy.freed().tolist() == []
    assert copy.rest == store.cell.free
    store.end(placed[0], 3)
    store.refresh(copy)
    assert copy.freed().tolist() == ([0, 2] if watching else [])
    assert copy.rest == store.cell.free


@pytest.mark.parametrize("log", [True, False])
def test_a_job_that_is_deleted_at_once_is_answered_whole(log: bool) -> None:
    cell = MemoryCell("c", Dimensions(("cpu", "memory")), keep_jobs=0, log=log, mailboxes=False)
    cell.jobs.submit([JobSpec("a", "a", "batch", (TaskGroup((2, 2), 3),))], 0, "ada")
    stopped = cell.jobs.stop("a", 1, "ada")
    assert (stopped.state, [group.stopped for group in stopped.groups]) == (JobState.STOPPED, [3])
    assert cell.jobs.all() == []


@pytest.mark.parametrize("asked", [False, True], ids=["unasked", "asked before"])
def test_a_kept_job_that_ended_as_a_whole_says_so(asked: bool) -> None:
    cell = MemoryCell("c", Dimensions(("cpu", "memory")), keep_jobs=9, log=False, mailboxes=False, counted=False)
    cell.executors.register("e0", "n", 600_000, 0)
    cell.machines.join("e0", [MachineSpec("m0", (4, 4))], 0)
    cell.jobs.submit([JobSpec("a", "a", "batch", (TaskGroup((2, 2), 2),))], 0, "ada")
    _, placed = carry_out(cell, Transaction("a", ClaimColumns([0, 0])), 0, "batch/0")
    if asked:
        assert [job.groups[0].placed for job in cell.jobs.all()] == [2]
    assert end_block(cell, placed[0], 1) == 2
    (job,) = cell.jobs.all()
    counts = job.groups[0].placed, job.groups[0].finished, job.groups[0].unplaced
    assert (job.state, *counts) == (JobState.DONE, 0, 2, 0)
