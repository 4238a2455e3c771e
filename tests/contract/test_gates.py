"""Gates of schedulers: the store holds a job with their reason until they, or a person, release it."""

import pytest

from omega.cellstate.errors import Refused
from omega.cellstate.model import JobState, MachineSpec
from tests.contract.conftest import Stand, job

WHY = "the quota of <ada> is used up"


@pytest.fixture
def submitted(stand: Stand) -> Stand:
    stand.cell.submit([job("a", count=2), job("b")], 0, "ada")
    return stand


def test_a_held_job_has_the_reason_until_its_gate_releases_it(submitted: Stand) -> None:
    cell = submitted.cell
    before = cell.job("a")
    assert before is not None
    held = cell.gate("a", f" {WHY}\n", 1, "batch/0")
    assert (held.state, held.gate, held.held, held.released) == (
        JobState.HELD, "the quota of (ada) is used up", False, False,
    )  # fmt: skip
    assert cell.job("a") == cell.jobs_by_id(["a"])["a"]
    assert held.modified == before.modified  # no change by a person
    version = cell.facts()[-1].version
    assert cell.gate("a", WHY, 2, "batch/0").gate == held.gate
    assert cell.facts()[-1].version == version  # the same again changes nothing
    assert cell.gate("a", "another", 3, "batch/0").gate == "another"
    free = cell.gate("a", "", 4, "batch/0")
    assert (free.state, free.gate, free.released) == (JobState.ACTIVE, "", False)
    assert [fact.event for fact in cell.facts() if fact.event[0] in ("gate", "pass")] == [
        ("gate", "a", "the", "quota", "of", "(ada)", "is", "used", "up"), ("gate", "a", "another"), ("pass", "a"),
    ]  # fmt: skip
    assert cell.gate("a", WHY, 5, "batch/0").gate  # it may hold it again


def test_a_person_releases_a_job_from_its_gate_for_good(submitted: Stand) -> None:
    cell = submitted.cell
    cell.gate("a", WHY, 1, "batch/0")
    free = cell.release("a", 2, "ada")
    assert (free.state, free.gate, free.released) == (JobState.ACTIVE, "", True)
    again = cell.gate("a", WHY, 3, "batch/0")
    assert (again.state, again.gate, again.released) == (JobState.ACTIVE, "", True)
    cell.hold("a", 4, "ada")
    assert cell.release("a", 5, "ada").released


def test_a_person_and_a_gate_hold_independently(submitted: Stand) -> None:
    cell = submitted.cell
    cell.gate("a", WHY, 1, "batch/0")
    cell.hold("a", 2, "ada")
    free = cell.gate("a", "", 3, "batch/0")
    assert (free.state, free.held, free.gate) == (JobState.HELD, True, "")
    cell.gate("a", WHY, 4, "batch/0")
    free = cell.release("a", 5, "ada")
    assert (free.state, free.held, free.gate, free.released) == (JobState.ACTIVE, False, "", True)


def test_a_job_that_a_person_held_first_is_not_exempt_after_its_release(submitted: Stand) -> None:
    cell = submitted.cell
    cell.hold("a", 1, "ada")
    assert not cell.release("a", 2, "ada").released
    assert cell.gate("a", WHY, 3, "batch/0").gate


def test_jobs_that_wait_for_a_held_or_released_job_are_released_with_its_end(submitted: Stand) -> None:
    cell = submitted.cell
    from omega.cellstate.model import After

    cell.submit([job("c", after=(After("a", any_end=True),))], 0, "ada")
    cell.gate("a", WHY, 1, "batch/0")
    cell.release("a", 2, "ada")
    cell.stop("a", 3, "ada")
    waiting = cell.job("c")
    assert waiting is not None
    assert waiting.state is JobState.ACTIVE
    with pytest.raises(Refused):
        cell.gate("a", WHY, 4, "batch/0")


def test_a_held_job_gets_no_placement_and_its_running_tasks_continue(submitted: Stand) -> None:
    cell = submitted.cell
    cell.join("e", [MachineSpec("m", (100, 100))], 0)
    cell.gate("a", WHY, 1, "batch/0")
    held = cell.job("a")
    assert held is not None
    assert held.pending
    assert cell.queue_depths() == {"batch": 2}  # a scheduler that starts learns of it
