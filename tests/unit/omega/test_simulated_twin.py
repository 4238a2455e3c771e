"""What the simulator's fast path leaves to the general path: machines that are over, tasks that leave, unknown jobs."""

from dataclasses import replace
from typing import Any

import pytest

from omega.cellstate.memory.lanes import pending_of
from omega.cellstate.model import After, Gang, JobSpec, JobState, MachineSpec, TaskGroup
from omega.cellstate.resources import LARGEST, Dimensions
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, ClaimColumns, Mode, Transaction, Verdict
from omega.simulation.twin import SimulatedTwin


def test_a_machine_that_is_over_is_down_and_not_full() -> None:
    cell = SimulatedTwin("c", Dimensions(("cpu", "memory")), log=False, mailboxes=False)
    cell.register_executor("e0", "n", 600_000, 0)
    cell.join("e0", [MachineSpec("m0", (4, 4)), MachineSpec("m1", (4, 4))], 0)
    cell.submit([JobSpec("a", "a", "batch", (TaskGroup((2, 2), 9),))], 0, "ada")
    assert cell.carry_out("batch/0", Transaction("a", (Claim(0, 0, 2),)), None, 0)[0].accepted
    cell.join("e0", [MachineSpec("m0", (3, 3))], 0)
    outcome, placed = cell.carry_out("batch/0", Transaction("a", ClaimColumns([1, 0, 1])), None, 0)
    assert [verdict for _, verdict in outcome.claims] == [Verdict.PLACED, Verdict.DOWN, Verdict.PLACED]
    assert sum(each.tasks for each in placed) == 2


def test_a_job_whose_tasks_are_leaving_is_kept_until_they_left() -> None:
    cell = SimulatedTwin("c", Dimensions(("cpu", "memory")), keep_jobs=0, log=False, mailboxes=False)
    cell.register_executor("e0", "n", 600_000, 0)
    cell.join("e0", [MachineSpec("m0", (4, 4)), MachineSpec("m1", (4, 4))], 0)
    cell.submit([JobSpec("a", "a", "batch", (TaskGroup((2, 2), 2),))], 0, "ada")
    assert cell.carry_out("batch/0", Transaction("a", ClaimColumns([0])), None, 0)[0].accepted
    (leaving,) = cell.runs([0])
    assert cell.end([TaskEnd(0, leaving.placement, EndKind.STOPPED)], 1, "ada") == [1]
    _, placed = cell.carry_out("batch/0", Transaction("a", ClaimColumns([1])), None, 1)
    assert cell.finish_placed(placed[0], 2) == 1
    assert [job.id for job in cell.jobs()] == ["a"]
    assert [run.leaving for run in cell.runs([0, 1])] == [True]
    cell.end([TaskEnd(0, leaving.placement, EndKind.LEFT)], 3, "e0")
    assert cell.runs([0, 1]) == []
    cell.submit([JobSpec("b", "b", "batch", (TaskGroup((2, 2), 1),))], 4, "ada")
    _, placed = cell.carry_out("batch/0", Transaction("b", ClaimColumns([1])), None, 4)
    assert cell.finish_placed(placed[0], 5) == 1
    assert cell.jobs() == [], "the next end of a job deletes it too"


@pytest.mark.parametrize("short", [False, True])
def test_a_gang_is_incomplete_while_a_lost_task_of_it_is_delayed(short: bool) -> None:
    cell = SimulatedTwin("c", Dimensions(("cpu", "memory")), log=False, mailboxes=False)
    cell.register_executor("e0", "n", 600_000, 0)
    cell.join("e0", [MachineSpec("m0", (4, 4))], 0)
    cell.submit([JobSpec("a", "a", "batch", (TaskGroup((1, 1), 3),), gang=Gang.YES)], 0, "ada")
    cell.carry_out("batch/0", Transaction("a", ClaimColumns([0, 0, 0]), Mode.GANG), None, 0)
    cell.end([TaskEnd(0, 1, EndKind.LOST)], 1, "e0")
    cell.end([TaskEnd(0, 2, EndKind.EVICTED)], 2, "e0")
    again = Transaction("a", ClaimColumns([0]), Mode.GANG)
    outcome, _ = cell.carry_out("batch/0", again, None, 3) if short else cell.general_path(again, 3, "batch/0")
    assert outcome.claims == ((0, Verdict.INCOMPLETE),)


def test_a_job_that_is_not_there_is_unknown() -> None:
    cell = SimulatedTwin("c", Dimensions(("cpu", "memory")), log=False, mailboxes=False)
    cell.register_executor("e0", "n", 600_000, 0)
    cell.join("e0", [MachineSpec("m0", (4, 4))], 0)
    outcome, placed = cell.carry_out("batch/0", Transaction("a", ClaimColumns([0])), None, 0)
    assert (outcome.claims, placed) == (((0, Verdict.UNKNOWN),), [])


def test_a_cell_with_a_log_notes_every_placement() -> None:
    cell = SimulatedTwin("c", Dimensions(("cpu", "memory")), mailboxes=False)
    cell.register_executor("e0", "n", 600_000, 0)
    cell.join("e0", [MachineSpec("m0", (4, 4))], 0)
    cell.submit([JobSpec("a", "a", "batch", (TaskGroup((2, 2), 2),))], 0, "ada")
    assert cell.carry_out("batch/0", Transaction("a", ClaimColumns([0])), None, 0)[0].accepted
    assert cell.facts()[-1].event[0] == "place"


@pytest.mark.parametrize("keep_jobs", [0, 9])
def test_a_job_with_lost_tasks_does_not_end_with_its_running_ones(keep_jobs: int) -> None:
    cell = SimulatedTwin("c", Dimensions(("cpu", "memory")), keep_jobs=keep_jobs, log=False, mailboxes=False)
    cell.register_executor("e0", "n", 600_000, 0)
    cell.join("e0", [MachineSpec("m0", (4, 4)), MachineSpec("m1", (4, 4))], 0)
    cell.submit([JobSpec("a", "a", "batch", (TaskGroup((2, 2), 2),))], 0, "ada")
    _, placed = cell.carry_out("batch/0", Transaction("a", ClaimColumns([0])), None, 0)
    _, rest = cell.carry_out("batch/0", Transaction("a", ClaimColumns([1])), None, 0)
    assert cell.end([TaskEnd(1, run.placement, EndKind.LOST) for run in cell.runs([1])], 1, "e0") == [1]
    assert cell.finish_placed(placed[0], 2) == 1
    (job,) = cell.jobs()
    assert (job.state, job.groups[0].delayed, job.groups[0].finished, len(rest)) == (JobState.ACTIVE, 1, 1, 1)


@pytest.mark.parametrize("keep_jobs", [0, 9])
def test_the_end_of_a_job_queues_those_that_wait_for_it(keep_jobs: int) -> None:
    cell = SimulatedTwin("c", Dimensions(("cpu", "memory")), keep_jobs=keep_jobs, log=False, mailboxes=False)
    cell.register_executor("e0", "n", 600_000, 0)
    cell.join("e0", [MachineSpec("m0", (4, 4))], 0)
    cell.submit([JobSpec("a", "a", "batch", (TaskGroup((2, 2), 1),))], 0, "ada")
    cell.submit([JobSpec("b", "b", "batch", (TaskGroup((2, 2), 1),), after=(After("a"),))], 0, "ada")
    _, placed = cell.carry_out("batch/0", Transaction("a", ClaimColumns([0])), None, 0)
    assert cell.counters()["arrivals"] == 2
    assert cell.finish_placed(placed[0], 1) == 1
    assert cell.counters()["arrivals"] == 3, "it arrives anew"
    assert [(job.id, job.state) for job in cell.jobs() if job.id == "b"] == [("b", JobState.ACTIVE)]


def _specs(count: int) -> list[JobSpec]:
    return [
        JobSpec(f"j{i}", f"n{i}", "batch" if i % 3 else "service", (TaskGroup((1 + i % 2, 2), 1 + i, 1000),), i % 2)
        for i in range(count)
    ]


def test_a_simple_submission_leaves_the_same_cell_as_the_full_one() -> None:
    cells = []
    for simple in (True, False):
        cell = SimulatedTwin("c", Dimensions(("cpu", "memory")), keep_jobs=0, log=False, mailboxes=False, tag=str)
        cell.ledger.counted = False
        for at, specs in enumerate((_specs(5), _specs(9)[5:])):
            assert cell.submit_simple(specs, at, "ada") if simple else cell.submit(specs, at, "ada")
        lanes = [(row.lane, row.live, row.pending, row.arrival, row.version) for row in cell.ledger.L.values()]
        queued = [job.id for kind in ("batch", "service") for job in pending_of(cell.ledger, kind)]
        cells.append((cell.jobs(), cell.counters(), lanes, queued, cell.ledger.version, cell.ledger.names))
    assert cells[0] == cells[1]


@pytest.mark.parametrize(
    "changed",
    [
        {"spec": {"user": "ada"}},
        {"after": (After("j0"),)},
        {"groups": (TaskGroup((1, 1), 1), TaskGroup((1, 1), 1))},
        {"groups": (TaskGroup((1, 1), 1, spec={"command": "true"}),)},
        {"groups": (TaskGroup((1, 1), LARGEST + 1),)},
        {"groups": (TaskGroup((1, 1), 1, LARGEST + 1),)},
        {"id": "j0"},
        {"name": "n0"},
        {"id": "known"},
        {"name": "known"},
    ],
)
def test_a_submission_with_another_job_is_left_to_the_full_one_without_effect(changed: dict[str, Any]) -> None:
    cell = SimulatedTwin("c", Dimensions(("cpu", "memory")), keep_jobs=0, log=False, mailboxes=False, tag=str)
    cell.ledger.counted = False
    assert cell.submit_simple([JobSpec("known", "known", "batch", (TaskGroup((1, 1), 1),))], 0, "ada")
    before = cell.counters(), cell.ledger.version
    jobs = _specs(2)
    assert not cell.submit_simple([*jobs, replace(_specs(3)[2], **changed)], 1, "ada")
    assert (cell.counters(), cell.ledger.version) == before
    assert [job.id for job in cell.jobs()] == ["known"]
    assert cell.submit_simple(jobs, 1, "ada")


@pytest.mark.parametrize(("counted", "keep_jobs", "simple"), [(False, 0, True), (True, 0, False), (False, 1, False)])
def test_a_submission_to_a_cell_that_counts_lanes_or_keeps_jobs_is_left_to_the_full_one(
    counted: bool, keep_jobs: int, simple: bool
) -> None:
    cell = SimulatedTwin("c", Dimensions(("cpu", "memory")), keep_jobs=keep_jobs, log=False, mailboxes=False)
    cell.ledger.counted = counted
    assert cell.submit_simple(_specs(2), 0, "ada") == simple


def test_a_task_that_finished_has_no_losses() -> None:
    cell = SimulatedTwin("c", Dimensions(("cpu", "memory")), log=False, mailboxes=False)
    cell.register_executor("e0", "n", 600_000, 0)
    cell.join("e0", [MachineSpec("m0", (4, 4))], 0)
    cell.submit([JobSpec("a", "a", "batch", (TaskGroup((1, 1), 2),))], 0, "ada")
    cell.carry_out("batch/0", Transaction("a", ClaimColumns([0])), None, 0)
    cell.end([TaskEnd(0, 1, EndKind.LOST)], 1, "e0")
    assert cell.housekeep(9_000, "batch/0").queued == 1
    _, placed = cell.carry_out("batch/0", Transaction("a", ClaimColumns([0, 0])), None, 9_000)
    assert [loss.tasks for loss in cell.ledger.J["a"].groups[0].losses] == [(0, 0)]
    assert sum(cell.finish_placed(each, 9_001_000) for each in placed) == 2
    (after,) = cell.jobs()
    assert not after.groups[0].losses
