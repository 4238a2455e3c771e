"""A job in hand: what is left of it, and which jobs fit or do not fit together."""

from dataclasses import fields

from omega.cellstate.model import Gang
from omega.schedulers.work import Work
from tests.unit.schedulers.drive import group, job, work


def test_it_begins_with_what_is_unplaced() -> None:
    found = Work.of(job("a", group((1, 2), 5, unplaced=3), group((4, 4), 2)))
    assert (found.left, found.remaining, found.gang) == ([3, 2], 5, False)
    assert found.need(1) == (4, 4)


def test_what_the_store_says_replaces_what_was_thought() -> None:
    found = work("a", group((1, 1), 9), group((1, 1), 2))
    found.attempts, found.conflicts = 7, 3
    found.takes_over(job("a", group((1, 1), 9, unplaced=4), group((1, 1), 2, unplaced=0)))
    assert (found.left, found.attempts, found.conflicts) == ([4, 0], 7, 3)


def test_tasks_without_an_index_to_place_are_not_left() -> None:
    status = group((1, 1), 9, unplaced=4)
    status.waiting = "-"
    found = work("a", group((1, 1), 9))
    found.takes_over(job("a", status))
    assert found.left == [0]


def test_shapes_are_equal_when_the_same_room_serves() -> None:
    assert work("a", group((1, 2), 5)).shape() == work("b", group((1, 2), 50)).shape()
    assert work("a", group((1, 2), 5)).shape() != work("b", group((2, 1), 5)).shape()


def test_the_room_a_gang_waits_for_depends_on_its_size() -> None:
    gangs = [work("a", group((1, 1), count), gang=Gang.YES).shape() for count in (2, 2, 3)]
    assert gangs[0] == gangs[1] != gangs[2]
    assert gangs[0] != work("b", group((1, 1), 2)).shape()


def test_a_group_with_nothing_left_does_not_matter() -> None:
    assert work("a", group((1, 1), 2), group((9, 9), 2, unplaced=0)).shape() == work("b", group((1, 1), 2)).shape()


def test_constraints_are_part_of_the_shape() -> None:
    usual, one, other = (work("a", spec=spec).shape() for spec in ({}, {"zone": "x"}, {"zone": "y"}))
    assert len({usual, one, other}) == 3
    assert work("b", spec={"zone": "x"}).shape() == one


def test_the_work_of_a_job_has_every_field_as_a_call_of_the_class_sets_it() -> None:
    stored = job("a", group((1, 2), 5, unplaced=3))
    found, called = Work.of(stored), Work(stored, [3], submitted=stored.submitted_ms / 1000)
    assert {each.name: getattr(found, each.name) for each in fields(Work)} == {
        each.name: getattr(called, each.name) for each in fields(Work)
    }


def test_the_work_of_a_new_job_has_every_field_as_a_call_of_the_class_sets_it() -> None:
    stored = job("a", group((1, 2), 5))
    found, called = Work.waiting(stored, [5], 2.5), Work(stored, [5], submitted=2.5)
    assert {each.name: getattr(found, each.name) for each in fields(Work)} == {
        each.name: getattr(called, each.name) for each in fields(Work)
    }


def test_counts_of_other_groups_than_its_own_are_passed_over() -> None:
    """An update gave the job another group since, or is planned to."""
    found = work("a", group((1, 1), 4))
    assert not found.learn([1, 2])
    assert found.learn([1])
    assert found.holds(0) == 1
