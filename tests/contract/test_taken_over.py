"""Groups that grow by the tasks of older groups, under their numbers."""

import pytest

from omega.cellstate.errors import Overtaken
from omega.cellstate.model import TakeOver, TaskGroup
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.verify import verify
from tests.contract.conftest import AnyCell, Member, job
from tests.contract.test_jobs import kept

SPEC = {"groups": [{"array": {"first": 0, "step": 1}}] * 2}
OVER = {1: TakeOver((0,))}


@pytest.fixture
def updated(cell: AnyCell, member: Member) -> AnyCell:
    """Ten tasks: 0 and 2 finished, 1 failed, 3 to 5 run, 6 to 9 wait; and an empty group that takes over."""
    cell.jobs.submit([job("a", count=10)], 0, "ada")
    member.place("a", (0, 3))
    member.place("a", (1, 3))
    first = next(run for run in cell.machines.runs([0]))
    ends = [(EndKind.FINISHED, "0"), (EndKind.FAILED, "1"), (EndKind.FINISHED, "2")]
    cell.executors.end([TaskEnd(0, first.placement, how, tasks) for how, tasks in ends], 0, "e0")
    cell.jobs.update("a", [TaskGroup((1, 1), 0)], SPEC, 1, "ada")
    return cell


def waiting(cell: AnyCell) -> list[str]:
    return [group.waiting for group in kept(cell, "a").groups]


def test_tasks_keep_their_numbers_when_a_group_takes_them_over(updated: AnyCell) -> None:
    updated.jobs.resize("a", {0: 5, 1: 5}, 2, "batch/0", seen={}, takes=OVER)
    after = kept(updated, "a")
    assert (waiting(updated), after.groups[0].placed) == (["-", "5-9"], 2)
    assert after.groups[1].indices == 10
    updated.jobs.resize("a", {0: 3, 1: 8}, 3, "batch/0", seen={}, takes={1: TakeOver((0,), "1")})
    assert waiting(updated) == ["-", "1,3-9"]
    updated.jobs.resize("a", {1: 9}, 4, "ada")
    assert waiting(updated) == ["-", "1,3-10"], "further ones have new numbers"
    assert verify(updated).violations == ()


def test_a_group_that_takes_over_leaves_what_it_has_no_room_for(updated: AnyCell) -> None:
    updated.jobs.resize("a", {0: 4, 1: 3}, 2, "batch/0", seen={}, takes=OVER)
    assert waiting(updated) == ["-", "4-6"]


def test_numbers_that_none_had_follow_when_no_other_is_left(updated: AnyCell) -> None:
    updated.jobs.resize("a", {0: 6, 1: 7}, 2, "batch/0", seen={}, takes={1: TakeOver((0,), "1")})
    assert waiting(updated) == ["-", "1,6-11"]
    assert kept(updated, "a").groups[1].indices == 12


def test_a_repeated_call_takes_nothing_over_twice(updated: AnyCell) -> None:
    for _ in range(2):
        updated.jobs.resize("a", {0: 6, 1: 4}, 2, "batch/0", seen={0: 10, 1: 0}, placed={0: 3}, takes=OVER)
    assert waiting(updated) == ["-", "6-9"]
    with pytest.raises(Overtaken):
        updated.jobs.resize("a", {0: 5, 1: 5}, 2, "batch/0", seen={0: 10, 1: 0}, placed={0: 3}, takes=OVER)


def test_tasks_that_several_calls_stop_are_taken_over(
    cell: AnyCell, member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("memory.jobs", "redis.jobs"):
        monkeypatch.setattr(f"omega.cellstate.{module}.MOST_STOPS", 2)
    cell.jobs.submit([job("a", count=6)], 0, "ada")
    member.place("a", (0, 5))
    cell.jobs.update("a", [TaskGroup((1, 1), 0)], SPEC, 1, "ada")
    cell.jobs.resize("a", {0: 0, 1: 6}, 2, "batch/0", seen={}, takes=OVER)
    assert waiting(cell) == ["-", "0-5"]
