"""Updates of running jobs: further groups beside the old ones, and what is under way."""

import pytest

from omega.cellstate.errors import BadInput, Overtaken, Refused
from omega.cellstate.model import MOST_GROUPS, TaskGroup
from omega.cellstate.transaction import Claim, Transaction
from omega.cellstate.verify import verify
from tests.contract.conftest import AnyCell, Make, Member, job
from tests.contract.test_jobs import kept

SPEC = {"user": "ada", "simulate": True, "groups": [{}, {"command": ["new"]}], "targets": [[1, 2, [0], 0, 0]]}
NEW = TaskGroup((2, 2), 7, 5)


@pytest.fixture
def running(cell: AnyCell, member: Member) -> AnyCell:
    """A job of two tasks that run."""
    cell.jobs.submit([job("a", count=2)], 0, "ada")
    member.place("a", (0, 2))
    return cell


def test_an_update_adds_empty_groups_and_leaves_what_runs(running: AnyCell) -> None:
    after = running.jobs.update("a", [NEW], SPEC, 1, "ada")
    assert [(group.need, group.duration_ms, group.total, group.placed) for group in after.groups] == [
        ((1, 1), 0, 2, 2), ((2, 2), 5, 0, 0),
    ]  # fmt: skip
    assert kept(running, "a").spec == SPEC
    assert running.jobs.updates() == {"a": "rolling"}
    assert after.modified == running.counters()["version"]


def test_tasks_move_to_the_new_group_and_are_placed_with_its_needs(running: AnyCell, member: Member) -> None:
    running.jobs.update("a", [NEW], SPEC, 1, "ada")
    running.jobs.resize("a", {0: 1, 1: 1}, 2, "batch/0")
    assert member.transact(Transaction("a", (Claim(1, 1, 1),)))[0].accepted
    assert [machine.allocated for machine in running.machines.all()][:2] == [(1, 1), (2, 2)]


def test_the_same_update_again_changes_nothing(running: AnyCell) -> None:
    first = running.jobs.update("a", [NEW], SPEC, 1, "ada", kept(running, "a").modified)
    version = running.counters()["version"]
    assert running.jobs.update("a", [NEW], SPEC, 1, "ada", 1) == first
    assert running.counters()["version"] == version


def test_an_update_of_what_moved_meanwhile_is_refused(running: AnyCell) -> None:
    index = kept(running, "a").modified
    running.jobs.resize("a", {0: 1}, 1, "bob")
    with pytest.raises(Overtaken):
        running.jobs.update("a", [NEW], SPEC, 1, "ada", index)
    assert running.jobs.updates() == {}


def test_updates_that_cannot_be(running: AnyCell) -> None:
    with pytest.raises(Refused, match="not in cell"):
        running.jobs.update("absent", [NEW], SPEC, 1, "ada")
    with pytest.raises(Refused, match="was updated too often"):
        running.jobs.update("a", [NEW] * MOST_GROUPS, SPEC, 1, "ada")
    assert len(running.jobs.update("a", [NEW] * (MOST_GROUPS - 1), SPEC, 1, "ada").groups) == MOST_GROUPS
    with pytest.raises(BadInput):
        running.jobs.update("a", [TaskGroup((-1, 1), 1)], SPEC, 1, "ada")
    running.jobs.stop("a", 2, "ada")
    with pytest.raises(Refused, match="has ended"):
        running.jobs.update("a", [NEW], SPEC, 1, "ada")


@pytest.mark.parametrize("other", [{"user": "bob"}, {"pool": "p"}, {"expected_duration": 60}])
def test_an_update_keeps_the_lane_of_its_job(cell: AnyCell, other: dict[str, object]) -> None:
    cell.jobs.submit([job("a", spec={"user": "ada"})], 0, "ada")
    with pytest.raises(Refused, match="keeps its user, its pool and its expected_duration"):
        cell.jobs.update("a", [NEW], {"user": "ada", **other}, 1, "ada")
    assert (cell.jobs.updates(), kept(cell, "a").spec) == ({}, {"user": "ada"})
    cell.jobs.update("a", [NEW], {"user": "ada"} | SPEC, 1, "ada")
    assert verify(cell).ok


def test_a_held_job_is_updated(cell: AnyCell) -> None:
    cell.jobs.submit([job("a", spec={"user": "ada"})], 0, "ada", held=True)
    assert len(cell.jobs.update("a", [NEW], SPEC, 1, "ada").groups) == 2


def test_a_stalled_update_is_forgotten_with_its_job(make: Make) -> None:
    cell = make(keep_jobs=0).cell
    cell.jobs.submit([job("a")], 0, "ada")
    cell.jobs.update("a", [NEW], SPEC, 1, "ada")
    cell.jobs.settle("a", "fails", 2, "batch/0")
    cell.jobs.settle("a", "", 3, "batch/0")
    assert cell.jobs.updates() == {"a": "stalled fails"}
    cell.jobs.stop("a", 4, "ada")
    assert cell.jobs.get("a") is None
    version = cell.counters()["version"]
    cell.jobs.settle("a", "", 5, "batch/0")
    assert (cell.jobs.updates(), cell.counters()["version"]) == ({}, version)


def test_an_update_is_settled_once(running: AnyCell) -> None:
    running.jobs.update("a", [NEW], SPEC, 1, "ada")
    assert running.jobs.settle("a", "of its  2 new tasks\n1 failed", 2, "batch/0")
    assert running.jobs.updates() == {"a": "stalled of its 2 new tasks 1 failed"}
    assert not running.jobs.settle("a", "", 3, "batch/1")
    running.jobs.update("a", [NEW], {**SPEC, "targets": []}, 4, "ada")
    assert running.jobs.updates() == {"a": "rolling"}
    assert running.jobs.settle("a", "", 5, "batch/0")
    assert running.jobs.updates() == {}
    said = [fact.event for fact in running.log.facts() if fact.event[0] in ("update", "updated", "stalled")]
    assert said == [
        ("update", "a"), ("stalled", "a", "of", "its", "2", "new", "tasks", "1", "failed"), ("update", "a"),
        ("updated", "a"),
    ]  # fmt: skip
