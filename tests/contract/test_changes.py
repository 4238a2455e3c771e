"""Changing a job after its submission: hold and release, other totals (semantics 4), compare-and-set."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from omega.cellstate.errors import BadInput, Overtaken, Refused
from omega.cellstate.model import (
    BUCKETS,
    MOST_CLAIMS,
    MOST_STOPS,
    Gang,
    Job,
    JobSpec,
    JobState,
    MachineSpec,
    MachineState,
    TaskGroup,
)
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Ask, Claim, Intake, Mode, Position, Transaction, Verdict
from omega.cellstate.verify import verify
from tests.contract.conftest import AnyCell, Make, Member, job
from tests.contract.test_jobs import kept

EVERY = "1" * BUCKETS


def arrivals(cell: AnyCell, cursor: int = 0) -> list[tuple[int, str]]:
    """What a batch scheduler is handed, with the numbers of arrival."""
    asked = Intake("batch", tuple(Ask(lane, cursor, 9) for lane in cell.schedulers.lanes()), 9, EVERY)
    return [(arrival, job.id) for arrival, job in cell.schedulers.sync(Position(), asked).jobs]


# Hold and release


def test_a_held_job_keeps_what_runs_and_gets_nothing_new(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a", count=3)], 0, "ada")
    member.place("a", (0, 1))
    held = cell.jobs.hold("a", 1, "ada")
    assert (held.state, held.held, held.groups[0].placed) == (JobState.HELD, True, 1)
    assert member.place("a", (0, 1)).claims == ((0, Verdict.UNKNOWN),)
    assert cell.executors.end([TaskEnd(0, 1, EndKind.FINISHED)], 2, "e0") == [1]
    assert cell.schedulers.pending() == {"batch": ["a"]}


def test_a_released_job_arrives_anew(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a"), job("b")], 0, "ada", held=True)
    assert kept(cell, "a").held
    before = arrivals(cell)
    cell.schedulers.members()
    assert cell.jobs.release("a", 1, "ada").state is JobState.ACTIVE
    assert arrivals(cell, before[-1][0]) == [(before[-1][0] + 1, "a")]
    assert cell.schedulers.wait_for_work("batch/0", 0.01)
    assert member.place("a", (0, 1)).accepted


def test_tasks_of_a_held_job_that_come_back_wait_with_it(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a")], 0, "ada")
    member.place("a", (0, 1))
    cell.jobs.hold("a", 1, "ada")
    cell.machines.set_state(0, MachineState.DOWN, 2, "ada")
    assert (kept(cell, "a").state, kept(cell, "a").unplaced) == (JobState.HELD, 1)


def test_a_held_job_whose_tasks_all_end_is_done(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a")], 0, "ada")
    member.place("a", (0, 1))
    cell.jobs.hold("a", 1, "ada")
    cell.executors.end([TaskEnd(0, 1, EndKind.FINISHED)], 2, "e0")
    assert kept(cell, "a").state is JobState.DONE


@pytest.mark.parametrize("change", ["hold", "release", "resize", "stop"])
def test_what_is_so_already_changes_nothing(cell: AnyCell, change: str) -> None:
    cell.jobs.submit([job("a", count=3)], 0, "ada")
    changes = {
        "hold": lambda: cell.jobs.hold("a", 1, "ada"), "release": lambda: cell.jobs.release("a", 1, "ada"),
        "resize": lambda: cell.jobs.resize("a", {0: 2}, 1, "ada"), "stop": lambda: cell.jobs.stop("a", 1, "ada"),
    }  # fmt: skip
    first = changes[change]()
    version = cell.counters()["version"]
    assert changes[change]() == first
    assert cell.counters()["version"] == version


@pytest.mark.parametrize("change", ["hold", "release", "resize"])
def test_only_a_job_that_is_there_and_lives_can_be_changed(cell: AnyCell, change: str) -> None:
    changes = {
        "hold": lambda name: cell.jobs.hold(name, 1, "ada"), "release": lambda name: cell.jobs.release(name, 1, "ada"),
        "resize": lambda name: cell.jobs.resize(name, {0: 2}, 1, "ada"),
    }  # fmt: skip
    with pytest.raises(Refused, match="job absent: not in cell"):
        changes[change]("absent")
    cell.jobs.submit([job("a")], 0, "ada")
    cell.jobs.stop("a", 1, "ada")
    with pytest.raises(Refused, match="job a: has ended"):
        changes[change]("a")


# Compare-and-set


def test_the_modify_index_moves_with_changes_by_people_only(cell: AnyCell, member: Member) -> None:
    first = cell.jobs.submit([job("a", count=3)], 0, "ada")[0].modified
    assert (first, kept(cell, "a").modified) == (cell.counters()["version"],) * 2
    member.place("a", (0, 3))
    cell.executors.end([TaskEnd(0, 1, EndKind.FINISHED, "0")], 1, "e0")
    assert kept(cell, "a").modified == first
    assert cell.jobs.submit([job("a", count=3)], 2, "ada")[0].modified == first, "the same again"
    changes: tuple[Callable[[], Job], ...] = (
        lambda: cell.jobs.hold("a", 3, "ada"), lambda: cell.jobs.release("a", 3, "ada"),
        lambda: cell.jobs.resize("a", {0: 2}, 3, "ada"), lambda: cell.jobs.stop("a", 3, "ada"),
    )  # fmt: skip
    for change in changes:
        assert change().modified == cell.counters()["version"] == kept(cell, "a").modified


def test_processes_leave_the_modify_index_and_name_the_totals_they_read(cell: AnyCell, member: Member) -> None:
    index = cell.jobs.submit([job("a", count=3)], 0, "ada")[0].modified
    assert cell.jobs.resize("a", {0: 2}, 1, "batch/0", seen={0: 3}).modified == index == kept(cell, "a").modified
    before = kept(cell, "a")
    with pytest.raises(Overtaken):
        cell.jobs.resize("a", {0: 4}, 1, "batch/0", index, seen={0: 3})
    with pytest.raises(Overtaken):
        cell.jobs.resize("a", {0: 4}, 1, "batch/0", index + 1, seen={0: 2})
    assert kept(cell, "a") == before
    assert cell.jobs.resize("a", {0: 2}, 1, "batch/0", seen={0: 3}) == replace(before, spec={}), "it is so already"
    assert cell.jobs.resize("a", {0: 4}, 1, "batch/0", index, seen={}).groups[0].total == 4
    member.place("a", (0, 2))
    for known in (1, 3):
        with pytest.raises(Overtaken):
            cell.jobs.resize("a", {0: 3}, 1, "batch/0", index, seen={}, placed={0: known})
    assert cell.jobs.resize("a", {0: 3}, 1, "batch/0", index, seen={}, placed={0: 2}).groups[0].total == 3
    assert cell.jobs.stop("a", 2, "batch/0", JobState.ABANDONED).modified == index


@pytest.mark.parametrize("change", ["hold", "release", "resize", "stop"])
def test_a_change_of_what_moved_meanwhile_is_refused(cell: AnyCell, change: str) -> None:
    cell.jobs.submit([job("a", count=3)], 0, "ada", held=change == "release")
    index = kept(cell, "a").modified
    cell.jobs.resize("a", {0: 5}, 1, "bob")
    changes = {
        "hold": lambda check: cell.jobs.hold("a", 2, "ada", check),
        "release": lambda check: cell.jobs.release("a", 2, "ada", check),
        "resize": lambda check: cell.jobs.resize("a", {0: 2}, 2, "ada", check),
        "stop": lambda check: cell.jobs.stop("a", 2, "ada", check=check),
    }  # fmt: skip
    before = kept(cell, "a")
    with pytest.raises(Overtaken, match=f"its modify index is now {before.modified};"):
        changes[change](index)
    assert kept(cell, "a") == before
    changes[change](before.modified)
    assert kept(cell, "a").modified > before.modified


# Other totals


def test_added_tasks_wait_under_indices_of_their_own(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a", count=2)], 0, "ada")
    member.place("a", (0, 2))
    cell.executors.end([TaskEnd(0, 1, EndKind.FINISHED, "0")], 1, "e0")
    group = cell.jobs.resize("a", {0: 4}, 2, "ada").groups[0]
    assert (group.total, group.unplaced, group.waiting, group.indices) == (4, 2, "2-3", 4)
    assert arrivals(cell)[-1][1] == "a"
    assert member.place("a", (1, 2)).accepted


def test_waiting_tasks_go_first_and_then_the_newest_that_run(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a", count=9)], 0, "ada")
    member.place("a", (0, 3), (1, 3), (2, 1))
    cell.executors.receive(1)
    group = cell.jobs.resize("a", {0: 8}, 1, "ada").groups[0]
    assert (group.unplaced, group.waiting, group.placed) == (1, "7", 7)
    group = cell.jobs.resize("a", {0: 5}, 2, "ada").groups[0]
    assert (group.total, group.unplaced, group.placed, group.stopped) == (5, 0, 5, 0)
    assert group.runs == ((1, 0, False), (2, 1, False), (3, 2, True), (2, 1, True))
    assert cell.executors.receive(1) == ["- 3 2 6", "- 2 1 5"]
    assert cell.schedulers.pending() == {}
    assert [m.allocated for m in cell.machines.all()] == [(3, 3), (2, 2), (0, 0)]
    assert cell.executors.end([TaskEnd(2, 3, EndKind.LEFT), TaskEnd(1, 2, EndKind.LEFT)], 3, "e0") == [1, 1]


def test_indices_are_not_given_out_twice(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a", count=3)], 0, "ada")
    member.place("a", (0, 3))
    cell.jobs.resize("a", {0: 1}, 1, "ada")
    assert cell.jobs.resize("a", {0: 2}, 2, "ada").groups[0].waiting == "3"
    assert kept(cell, "a").groups[0].indices == 4


def test_tasks_move_between_groups_in_one_call(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit(
        [JobSpec("a", "a", "batch", (TaskGroup((1, 1), 4), TaskGroup((1, 1), 0, optional=True)))], 0, "ada"
    )
    member.place("a", (0, 4))
    version = cell.counters()["version"]
    groups = cell.jobs.resize("a", {0: 3, 1: 1}, 1, "ada").groups
    assert cell.counters()["version"] == version + 1
    assert [(group.total, group.placed, group.waiting) for group in groups] == [(3, 3, "-"), (1, 0, "0")]


def test_a_job_without_tasks_is_done(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a", count=2)], 0, "ada")
    member.place("a", (0, 1))
    assert cell.jobs.resize("a", {0: 0}, 1, "ada").state is JobState.DONE
    assert cell.jobs.id_of("a") is None
    assert next(m.allocated for m in cell.machines.all()) == (0, 0)


def test_ended_tasks_cannot_be_taken_away(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("a", count=3)], 0, "ada")
    member.place("a", (0, 2))
    cell.executors.end([TaskEnd(0, 1, EndKind.FINISHED)], 1, "e0")
    with pytest.raises(Refused, match="more tasks have ended than it shall have"):
        cell.jobs.resize("a", {0: 1}, 2, "ada")
    assert cell.jobs.resize("a", {0: 2}, 2, "ada").state is JobState.DONE


def test_totals_that_cannot_be(cell: AnyCell) -> None:
    cell.jobs.submit([job("a"), job("g", gang=Gang.YES)], 0, "ada")
    with pytest.raises(Refused, match="has 1 task groups, numbered from 0"):
        cell.jobs.resize("a", {1: 2}, 1, "ada")
    with pytest.raises(Refused, match="a gang of more than 5000 tasks"):
        cell.jobs.resize("g", {0: MOST_CLAIMS + 1}, 1, "ada")
    with pytest.raises(BadInput):
        cell.jobs.resize("a", {0: -1}, 1, "ada")


def test_a_gang_that_grew_places_what_was_added_as_a_gang(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("g", count=2, gang=Gang.YES)], 0, "ada")
    assert member.place("g", (0, 2), mode=Mode.GANG).accepted
    cell.jobs.resize("g", {0: 5}, 1, "ada")
    assert member.place("g", (1, 2), mode=Mode.GANG).claims == ((0, Verdict.INCOMPLETE),)
    assert member.place("g", (1, 3), mode=Mode.GANG).accepted


def test_what_still_waits_of_a_smaller_job_arrives_anew(cell: AnyCell, member: Member) -> None:
    cell.jobs.submit([job("g", count=20, gang=Gang.YES), job("b")], 0, "ada")
    member.place("b", (0, 1))
    cell.schedulers.members()
    before = arrivals(cell)
    cell.jobs.resize("g", {0: 7}, 1, "ada")
    assert arrivals(cell, before[-1][0]) == [(before[-1][0] + 2, "g")], "a gang that fitted nowhere may fit now"
    assert cell.schedulers.wait_for_work("batch/0", 0.01)
    cell.jobs.resize("g", {0: 0}, 1, "ada")
    assert arrivals(cell) == []


def test_many_running_tasks_are_stopped_in_several_calls(make: Make) -> None:
    cell, tasks = make().cell, 2 * MOST_STOPS + 5
    cell.executors.register("e0", "n", 600_000, 0)
    cell.machines.join("e0", [MachineSpec("big", (tasks, tasks))], 0)
    cell.jobs.submit([job("a", count=tasks)], 0, "ada")
    Member(cell).place("a", (0, tasks))
    version = cell.counters()["version"]
    group = cell.jobs.resize("a", {0: 1}, 1, "ada", kept(cell, "a").modified).groups[0]
    assert (group.total, group.placed, cell.counters()["version"]) == (1, 1, version + 3)


# Optional tasks


@pytest.fixture
def workers(cell: AnyCell, member: Member) -> AnyCell:
    """A job of one task, and three optional ones, all running on machine 0 (placement 2)."""
    groups = (TaskGroup((1, 1), 1), TaskGroup((1, 1), 3, optional=True))
    cell.jobs.submit([JobSpec("a", "a", "batch", groups)], 0, "ada")
    member.transact(Transaction("a", (Claim(0, 0, 1), Claim(0, 1, 3))))
    return cell


@pytest.mark.parametrize("how", [EndKind.EVICTED, EndKind.LOST, EndKind.FAILED])
def test_an_optional_task_that_goes_is_dropped(workers: AnyCell, how: EndKind) -> None:
    assert workers.executors.end([TaskEnd(0, 2, how, "1", "fair-share")], 1, "e0") == [1]
    group = kept(workers, "a").groups[1]
    assert (group.total, group.unplaced, group.placed, group.failed, group.indices) == (2, 0, 2, 0, 3)
    assert not kept(workers, "a").pending


def test_optional_tasks_of_two_placements_go_in_one_call(workers: AnyCell, member: Member) -> None:
    workers.jobs.resize("a", {1: 4}, 1, "ada")
    member.transact(Transaction("a", (Claim(1, 1, 1),)))
    assert workers.executors.end(
        [TaskEnd(m, p, EndKind.EVICTED, "*", "drain") for m, p in ((0, 2), (1, 3))], 1, "e0"
    ) == [3, 1]
    workers.jobs.resize("a", {1: 2}, 1, "ada")
    member.transact(Transaction("a", (Claim(0, 1, 1), Claim(1, 1, 1))))
    assert workers.executors.end(
        [TaskEnd(m, p, EndKind.EVICTED, "*", "drain") for m, p in ((0, 4), (1, 5))], 1, "e0"
    ) == [1, 1]
    assert [fact.event.line for fact in workers.log.facts()].count("drop a 1 1 evicted") == 3
    assert verify(workers).violations == ()


def test_a_resize_of_one_group_leaves_the_others(cell: AnyCell) -> None:
    cell.jobs.submit([JobSpec("a", "a", "batch", (TaskGroup((1, 1), 2), TaskGroup((1, 1), 2)))], 0, "ada")
    after = cell.jobs.resize("a", {0: 2, 1: 4}, 1, "ada")
    assert [(group.waiting, group.total, group.indices) for group in after.groups] == [("0-1", 2, 2), ("0-3", 4, 4)]


@pytest.mark.parametrize("total", [1, 4])
def test_a_resize_by_nothing_leaves_a_group_that_is_placed(cell: AnyCell, member: Member, total: int) -> None:
    cell.jobs.submit([JobSpec("a", "a", "batch", (TaskGroup((1, 1), 2), TaskGroup((1, 1), 2)))], 0, "ada")
    member.transact(Transaction("a", (Claim(0, 0, 2),)))
    after = cell.jobs.resize("a", {0: 2, 1: total}, 1, "ada").groups
    assert [(group.waiting, group.total, group.placed) for group in after] == [
        ("-", 2, 2),
        (f"0-{total - 1}".removesuffix("-0"), total, 0),
    ]
    assert [fact.event[2] for fact in cell.log.facts() if fact.event[0] == "resize"] == ["1"]


def test_an_optional_task_gives_way_as_if_it_had_no_precedence(cell: AnyCell, member: Member) -> None:
    groups = (TaskGroup((1, 1), 1), TaskGroup((1, 1), 3, optional=True))
    cell.jobs.submit([JobSpec("a", "a", "batch", groups, precedence=100)], 0, "ada")
    cell.jobs.submit([job("low", (1, 1), precedence=1), job("none", (1, 1))], 0, "ada")
    member.transact(Transaction("a", (Claim(0, 0, 1), Claim(0, 1, 3))))
    assert member.place("none", (0, 1), evict=((2, 1),)).claims == ((0, Verdict.PRECEDENCE),)
    assert member.place("low", (0, 1), evict=((1, 1),)).claims == ((0, Verdict.PRECEDENCE),)
    assert member.place("low", (0, 1), evict=((2, 1),)).accepted
    assert [(group.total, group.placed) for group in kept(cell, "a").groups] == [(1, 1), (2, 2)]
    assert verify(cell).violations == ()


def test_a_job_may_evict_the_last_of_its_own_optional_tasks(cell: AnyCell, member: Member) -> None:
    groups = (TaskGroup((4, 4), 1), TaskGroup((4, 4), 1, optional=True))
    cell.jobs.submit([JobSpec("a", "a", "batch", groups, precedence=5)], 0, "ada")
    member.transact(Transaction("a", (Claim(0, 1, 1),)))
    assert member.transact(Transaction("a", (Claim(0, 0, 1, evict=((1, 1),)),)))[0].accepted
    assert cell.pools.kinds()["batch"].jobs == 1, "it is still admitted"
    assert verify(cell).violations == ()


def test_an_optional_task_may_finish(workers: AnyCell) -> None:
    workers.executors.end([TaskEnd(0, 2, EndKind.FINISHED, "1")], 1, "e0")
    assert (kept(workers, "a").groups[1].total, kept(workers, "a").groups[1].finished) == (3, 1)


def test_an_optional_task_of_a_stopped_job_is_stopped(workers: AnyCell) -> None:
    workers.jobs.stop("a", 1, "ada")
    workers.machines.set_state(0, MachineState.DOWN, 2, "ada")
    assert [(group.total, group.stopped) for group in kept(workers, "a").groups] == [(1, 1), (3, 3)]


def test_more_optional_tasks_get_new_indices(workers: AnyCell) -> None:
    workers.executors.end([TaskEnd(0, 2, EndKind.LOST)], 1, "e0")
    group = workers.jobs.resize("a", {1: 2}, 2, "ada").groups[1]
    assert (group.total, group.waiting, group.indices, group.optional) == (2, "3-4", 5, True)


def test_a_job_is_done_when_only_optional_tasks_were_left_and_are_dropped(workers: AnyCell) -> None:
    workers.executors.end([TaskEnd(0, 1, EndKind.FINISHED)], 1, "e0")
    workers.machines.set_state(0, MachineState.DOWN, 2, "ada")
    assert (kept(workers, "a").state, kept(workers, "a").groups[1].total) == (JobState.DONE, 0)


def test_a_gang_must_not_wait_for_its_optional_tasks(cell: AnyCell, member: Member) -> None:
    groups = (TaskGroup((1, 1), 2), TaskGroup((9, 9), 1, optional=True))
    cell.jobs.submit([JobSpec("g", "g", "batch", groups, gang=Gang.YES)], 0, "ada")
    assert member.place("g", (0, 2), mode=Mode.GANG).accepted


def test_only_optional_groups_may_be_empty(cell: AnyCell) -> None:
    with pytest.raises(BadInput):
        JobSpec("a", "a", "batch", (TaskGroup((1, 1), 1), TaskGroup((1, 1), 0)))
    with pytest.raises(BadInput):
        JobSpec("a", "a", "batch", (TaskGroup((1, 1), 0, optional=True),))
    spec = JobSpec("a", "a", "batch", (TaskGroup((1, 1), 1), TaskGroup((1, 1), 0, optional=True)))
    assert [cell.jobs.submit([spec], 0, "ada")[0].status for _ in range(2)] == ["new", "same"]
    assert kept(cell, "a").groups[1].waiting == "-"
