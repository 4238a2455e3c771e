"""Jobs that fit nowhere: freed room wakes as many as may fit, and no more."""

from random import Random

import numpy as np
import pytest
from hypothesis import given, strategies as st

from omega.cellstate.array_snapshot import distinct
from omega.cellstate.model import Gang
from omega.cellstate.snapshot import Snapshot
from omega.schedulers.ordering.without_pools import Fifo
from omega.schedulers.placement.first_fit import FirstFit
from omega.schedulers.queue.blocked import Blocked
from omega.schedulers.queue.ranks import Ranks
from omega.schedulers.work import Work
from tests.unit.schedulers.drive import copy, group, room, say, work


def nobody() -> Blocked:
    return Blocked(Ranks(Fifo()))


def blocked_of(*works: Work) -> Blocked:
    blocked = nobody()
    for found in works:
        blocked.add(found)
    return blocked


def requeued(blocked: Blocked, snapshot: Snapshot) -> list[str]:
    return [found.id for found in blocked.requeue(snapshot)]


def test_room_never_freed_wakes_nobody() -> None:
    snapshot = copy((9, 9), (9, 9))  # room enough, but it was there when they went to sleep
    blocked = blocked_of(work("a"))
    assert requeued(blocked, snapshot) == []
    say(snapshot, 0, 8, 8)
    assert requeued(blocked, snapshot) == [], "a machine that only lost room"
    assert blocked.ids() == ["a"]


def test_room_that_is_not_enough_wakes_nobody() -> None:
    snapshot = copy((0, 0), (0, 0))
    blocked = blocked_of(work("a", group((2, 2), 1)))
    say(snapshot, 0, 1, 9)
    say(snapshot, 1, 9, 1)
    assert requeued(blocked, snapshot) == []


def test_one_free_place_wakes_one_of_a_thousand_and_the_first() -> None:
    snapshot = copy((0, 0))
    blocked = blocked_of(*(work(f"j{i}") for i in range(1_000)))
    say(snapshot, 0, 1, 1)
    assert requeued(blocked, snapshot) == ["j0"]
    assert (len(blocked), blocked.ids()[0]) == (999, "j1")
    assert requeued(blocked, snapshot) == [], "told once"


def test_a_job_to_which_no_room_was_due_is_offered_it_again_and_one_that_did_not_fit_is_not() -> None:
    snapshot = copy((0, 0))
    blocked = blocked_of(work("a"))
    say(snapshot, 0, 1, 1)
    (found,) = blocked.requeue(snapshot)
    blocked.hold_back(found, snapshot)
    assert blocked.requeue(snapshot) == [], "the same room is not due to it either, without end"
    say(snapshot, 0, 2, 2)
    (found,) = blocked.requeue(snapshot)
    blocked.add(found)
    assert requeued(blocked, snapshot) == []


@pytest.mark.parametrize(
    ("need", "free", "due"),
    [((1, 1), (0, 9), None), ((1, 1), (1, 1), 0.0), ((2, 2), (1, 1), 0.0), ((2, 2), (0, 9), None)],
    ids=["full", "room", "room for another job", "full for both"],
)
def test_room_is_offered_at_once_to_a_job_that_is_held_back_only_if_some_may_hold_it_or_another_one(
    need: tuple[int, int], free: tuple[int, int], due: float | None
) -> None:
    blocked = blocked_of(work("a", group(need, 1)), work("b"))
    found = blocked.discard("a")
    assert found is not None
    blocked.hold_back(found, copy((0, 0), free))
    assert blocked.next_due() == due


def test_another_thread_may_ask_for_a_job_that_is_just_leaving() -> None:
    blocked = blocked_of(work("a"), work("b"))
    (group_of_both,) = blocked.groups.values()
    del group_of_both.works["a"]
    assert blocked.get("a") is None
    blocked.groups.clear()
    assert blocked.get("b") is None


def test_room_for_fifty_wakes_fifty_small_jobs() -> None:
    snapshot = copy((0, 0), (0, 0))
    blocked = blocked_of(*(work(f"j{i}") for i in range(1_000)))
    say(snapshot, 0, 30, 30)
    say(snapshot, 1, 20, 99)
    assert requeued(blocked, snapshot) == [f"j{i}" for i in range(50)]


def test_a_large_job_takes_all_the_room_and_those_behind_it_sleep_on() -> None:
    snapshot = copy((0, 0))
    blocked = blocked_of(work("large", group((1, 1), 100)), work("small"))
    say(snapshot, 0, 10, 10)
    assert requeued(blocked, snapshot) == ["large"]


def test_a_small_job_first_does_not_hide_the_room_from_those_behind_it() -> None:
    snapshot = copy((0, 0))
    blocked = blocked_of(work("small"), work("large", group((1, 1), 100)), work("behind"))
    say(snapshot, 0, 10, 10)
    assert requeued(blocked, snapshot) == ["small", "large"]


def test_room_that_one_group_cannot_use_reaches_the_group_that_can() -> None:
    snapshot = copy((0, 0))
    wide, tall = group((9, 1), 50), (1, 1)
    blocked = blocked_of(work("first", group(tall, 1), wide), work("second", group(tall, 7), wide))
    say(snapshot, 0, 5, 5)
    assert requeued(blocked, snapshot) == ["first", "second"]


def test_shapes_are_tested_apart() -> None:
    snapshot = copy((0, 0))
    blocked = blocked_of(
        work("cpu", group((4, 0), 1)), work("memory", group((0, 4), 1)), work("both", group((4, 4), 1))
    )
    say(snapshot, 0, 4, 1)
    assert requeued(blocked, snapshot) == ["cpu"]
    say(snapshot, 0, 4, 8)
    assert requeued(blocked, snapshot) == ["memory", "both"]


def test_jobs_of_many_shapes_share_the_room_of_one_machine_in_order_of_submission() -> None:
    snapshot = copy((0, 0))
    jobs = [work(f"j{i}", group((3, 3 + i), 1), order=10_000 - i) for i in range(10_000)]
    blocked = blocked_of(*jobs)
    say(snapshot, 0, 7, 30_000)
    assert requeued(blocked, snapshot) == ["j9999", "j9998"], "no herd: the others would find nothing"


def test_room_that_was_of_no_use_to_one_is_offered_to_those_behind_it() -> None:
    snapshot = copy((0, 0))
    blocked = blocked_of(*(work(f"j{i}", group((2, 2 + i), 1), order=i) for i in range(3)))
    say(snapshot, 0, 3, 9)
    for name in ("j0", "j1", "j2"):
        (found,) = blocked.requeue(snapshot)
        assert found.id == name
        blocked.add(found)  # something else keeps it out, such as where its other tasks are
    assert blocked.requeue(snapshot) == [], "each was asked once"
    say(snapshot, 0, 3, 10)
    assert requeued(blocked, snapshot) == ["j0"], "until the machine has more"


def test_room_left_by_one_that_went_elsewhere_is_offered_once_all_that_were_woken_have_been_tried() -> None:
    snapshot = copy((0, 0), (0, 0))
    small, large = work("small", group((1, 1), 1)), work("large", group((4, 4), 1), order=1)
    blocked = blocked_of(small, large)
    say(snapshot, 0, 1, 1)
    say(snapshot, 1, 4, 4)
    assert [found.id for found in blocked.requeue(snapshot)] == ["small", "large"]
    snapshot.take(1, (1, 1), 1)  # small went to the large machine
    blocked.tried(small)
    late = work("late", group((1, 1), 1), order=2)
    blocked.add(late)
    assert blocked.requeue(snapshot) == []
    blocked.add(large)
    assert [found.id for found in blocked.requeue(snapshot)] == ["late"]


def test_a_gang_is_tried_when_part_of_it_fits_and_one_at_a_time() -> None:
    snapshot = copy((0, 0), (3, 3))
    gangs = [work(f"g{i}", group((1, 1), 4), gang=Gang.YES) for i in range(3)]
    blocked = blocked_of(*gangs)
    say(snapshot, 0, 1, 1)  # with the three free elsewhere it is enough for one
    assert requeued(blocked, snapshot) == ["g0"]
    say(snapshot, 0, 5, 5)
    assert requeued(blocked, snapshot) == ["g1", "g2"]


def test_a_machine_that_comes_up_wakes_jobs_and_one_that_goes_does_not() -> None:
    snapshot = copy((0, 0), (4, 4))
    blocked = blocked_of(work("nothing", group((0, 0), 1)), work("a"))
    say(snapshot, 1, -1, -1)
    assert requeued(blocked, snapshot) == []
    say(snapshot, 1, 1, 1)
    say(snapshot, 1, -1, -1)
    assert requeued(blocked, snapshot) == [], "gone again before anybody looked, also for tasks that need nothing"
    say(snapshot, 1, 1, 1)
    assert requeued(blocked, snapshot) == ["nothing", "a"]


def test_room_freed_and_taken_again_wakes_nobody() -> None:
    snapshot = copy((0, 0))
    blocked = blocked_of(work("a"))
    say(snapshot, 0, 1, 1)
    snapshot.take(0, (1, 1), 1)
    assert requeued(blocked, snapshot) == []


def test_a_job_taken_out_sleeps_no_more() -> None:
    a, b = work("a"), work("b")
    blocked = blocked_of(a, b)
    assert blocked.discard("a") is a
    assert blocked.discard("a") is None
    assert (len(blocked), blocked.ids()) == (1, ["b"])
    assert blocked.discard("b") is b
    snapshot = copy((0, 0))
    say(snapshot, 0, 9, 9)
    assert requeued(blocked, snapshot) == []


def test_its_shape_is_that_of_when_it_went_to_sleep() -> None:
    found = work("a", group((1, 1), 2), group((2, 2), 2))
    blocked = blocked_of(found)
    found.left[0] = 0
    assert blocked.discard("a") is found
    assert len(blocked) == 0


def test_all_can_be_taken_out() -> None:
    blocked = blocked_of(work("a"), work("b", group((2, 2), 1)), work("c"))
    assert sorted(found.id for found in blocked.clear()) == ["a", "b", "c"]
    assert (len(blocked), blocked.ids(), blocked.discard("a")) == (0, [], None)


NEEDS = st.sampled_from([(1, 1), (2, 1), (3, 3)])
GROUPS = st.lists(st.tuples(NEEDS, st.integers(1, 4)), min_size=1, max_size=2)
JOBS = st.lists(st.tuples(GROUPS, st.sampled_from(Gang)), max_size=8)
CHANGES = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=6)
Asked = list[tuple[list[tuple[tuple[int, int], int]], Gang]]


@given(JOBS, CHANGES)
def test_whoever_sleeps_on_fits_nowhere(jobs: Asked, changes: list[tuple[int, int, int]]) -> None:
    """The point of it all: after the requeued were placed, no sleeping job could have been placed."""
    snapshot, blocked, place = copy((0, 0), (0, 0), (0, 0)), nobody(), FirstFit().place
    for i, (groups, gang) in enumerate(jobs):
        blocked.add(work(f"j{i}", *(group(*asked) for asked in groups), gang=gang))
    for machine, *free in changes:
        say(snapshot, machine, *free)
        rounds = 0
        while found_now := blocked.requeue(snapshot):
            rounds += 1
            assert rounds < 100
            for found in found_now:
                claims = place(found, snapshot, Random(0))
                for claim in claims:
                    found.left[claim.group] -= claim.count
                if claims:
                    blocked.tried(found)
                if found.remaining:
                    blocked.add(found)
        settled = room(snapshot)
        snapshot.forget()
        for i, left in enumerate(settled):  # what was placed is the store's from here on
            say(snapshot, i, *left)
        for found in blocked.works():
            assert place(found, snapshot, Random(0)) == [], f"{found.id} is blocked beside room for it"


def test_the_first_freed_machine_imports_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first call of `np.unique` takes five times as long as the rest of a decision beside 10,000 blocked jobs."""

    def imports(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(np, "unique", imports)
    snapshot, blocked = copy((0,), (0,)), blocked_of(work("a", group((1,), 1)))
    say(snapshot, 1, 5)
    assert requeued(blocked, snapshot) == ["a"]
    assert distinct([np.array([3, 1]), np.array([1, 2, 3])]).tolist() == [1, 2, 3]
    assert distinct([]).tolist() == distinct([np.array([], dtype=np.int64)]).tolist() == []
