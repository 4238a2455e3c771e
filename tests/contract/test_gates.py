"""Gates of schedulers: the store holds a job with their reason until they, or a person, release it."""

import pytest

from omega.cellstate.errors import Refused
from omega.cellstate.model import JobState, MachineSpec
from tests.contract.conftest import Stand, job

WHY = "the quota of <ada> is used up"


@pytest.fixture
def submitted(stand: Stand) -> Stand:
    stand.cell.jobs.submit([job("a", count=2), job("b")], 0, "ada")
    return stand


def test_a_held_job_has_the_reason_until_its_gate_releases_it(submitted: Stand) -> None:
    cell = submitted.cell
    before = cell.jobs.get("a")
    assert before is not None
    held = cell.jobs.gate("a", f" {WHY}\n", 1, "batch/0")
    assert (held.state, held.gate, held.held, held.released) == (
        JobState.HELD, "the quota of (ada) is used up", False, False,
    )  # fmt: skip
    assert cell.jobs.get("a") == cell.jobs.by_id(["a"])["a"]
    assert held.modified == before.modified  # no change by a person
    version = cell.log.facts()[-1].version
    assert cell.jobs.gate("a", WHY, 2, "batch/0").gate == held.gate
    assert cell.log.facts()[-1].version == version  # the same again changes nothing
    assert cell.jobs.gate("a", "another", 3, "batch/0").gate == "another"
    free = cell.jobs.gate("a", "", 4, "batch/0")
    assert (free.state, free.gate, free.released) == (JobState.ACTIVE, "", False)
    assert [fact.event for fact in cell.log.facts() if fact.event[0] in ("gate", "pass")] == [
        ("gate", "a", "the", "quota", "of", "(ada)", "is", "used", "up"), ("gate", "a", "another"), ("pass", "a"),
    ]  # fmt: skip
    assert cell.jobs.gate("a", WHY, 5, "batch/0").gate  # it may hold it again


def test_a_person_releases_a_job_from_its_gate_for_good(submitted: Stand) -> None:
    cell = submitted.cell
    cell.jobs.gate("a", WHY, 1, "batch/0")
    free = cell.jobs.release("a", 2, "ada")
    assert (free.state, free.gate, free.released) == (JobState.ACTIVE, "", True)
    again = cell.jobs.gate("a", WHY, 3, "batch/0")
    assert (again.state, again.gate, again.released) == (JobState.ACTIVE, "", True)
    cell.jobs.hold("a", 4, "ada")
    assert cell.jobs.release("a", 5, "ada").released


def test_a_person_and_a_gate_hold_independently(submitted: Stand) -> None:
    cell = submitted.cell
    cell.jobs.gate("a", WHY, 1, "batch/0")
    cell.jobs.hold("a", 2, "ada")
    free = cell.jobs.gate("a", "", 3, "batch/0")
    assert (free.state, free.held, free.gate) == (JobState.HELD, True, "")
    cell.jobs.gate("a", WHY, 4, "batch/0")
    free = cell.jobs.release("a", 5, "ada")
    assert (free.state, free.held, free.gate, free.released) == (JobState.ACTIVE, False, "", True)


def test_a_job_that_a_person_held_first_is_not_exempt_after_its_release(submitted: Stand) -> None:
    cell = submitted.cell
    cell.jobs.hold("a", 1, "ada")
    assert not cell.jobs.release("a", 2, "ada").released
    assert cell.jobs.gate("a", WHY, 3, "batch/0").gate


def test_jobs_that_wait_for_a_held_or_released_job_are_released_with_its_end(submitted: Stand) -> None:
    cell = submitted.cell
    from omega.cellstate.model import After

    cell.jobs.submit([job("c", after=(After("a", any_end=True),))], 0, "ada")
    cell.jobs.gate("a", WHY, 1, "batch/0")
    cell.jobs.release("a", 2, "ada")
    cell.jobs.stop("a", 3, "ada")
    waiting = cell.jobs.get("c")
    assert waiting is not None
    assert waiting.state is JobState.ACTIVE
    with pytest.raises(Refused):
        cell.jobs.gate("a", WHY, 4, "batch/0")


def test_a_held_job_gets_no_placement_and_its_running_tasks_continue(submitted: Stand) -> None:
    cell = submitted.cell
    cell.machines.join("e", [MachineSpec("m", (100, 100))], 0)
    cell.jobs.gate("a", WHY, 1, "batch/0")
    held = cell.jobs.get("a")
    assert held is not None
    assert held.pending
    assert cell.schedulers.queue_depths() == {"batch": 2}  # a scheduler that starts learns of it
