"""Which lanes a scheduler asks the store for: those that run short and may have more, in the order of its policy."""

import numpy as np
import pytest

from omega.cellstate.lanes import BASE, Lane, Lanes
from omega.cellstate.replies import PendingJob, Reply
from omega.cellstate.transaction import Intake, Position
from omega.cellstate.usage import Usage
from omega.schedulers.ordering.without_pools import PrecedenceFifo
from omega.schedulers.policies import Ordering
from omega.schedulers.queue.intake import MOST_ASKED, Intakes
from omega.schedulers.queue.queue import Queue
from omega.schedulers.work import Work
from omega.testing import work

OWNED, ONE = "1" * 32, ((1, 1), 1)


class Store:
    """Lanes of a store, by number: the jobs that wait there, as (arrival, job). A lane's precedence is its number."""

    def __init__(self, ordering: Ordering | None = None, kind: str = "batch") -> None:
        self.queue = Queue(ordering or PrecedenceFifo())
        self.intakes, self.kind = Intakes("batch", 8, self.queue), kind
        self.waiting: dict[int, list[tuple[int, Work]]] = {}
        self.arrivals = 0
        self.lanes = Lanes(2, Usage(2))

    def arrive(self, lane: int, count: int = 1) -> None:
        for _ in range(count):
            self.arrivals += 1
            new = work(ONE, name=f"j{self.arrivals}", order=self.arrivals, precedence=lane)
            new.job.lane = lane
            self.waiting.setdefault(lane, []).append((self.arrivals, new))
        jobs = self.waiting[lane]
        self.lanes.apply(np.array([[BASE + lane, lane, len(jobs), jobs[-1][0], 1, 1, 0, 0]]), full=False)
        self.lanes.learn({lane: (lane, Lane(self.kind, lane))})

    def ask(self) -> dict[int, int]:
        """The lanes that are asked, in order, with how many jobs of each."""
        self.asked = self.intakes.ask(self.lanes)
        return {ask.lane: ask.most for ask in self.asked.lanes}

    def answer(self, asked: Intake | None = None) -> list[str]:
        """Answer the last request; return the jobs that the scheduler now has in its queue in addition."""
        asked = asked or self.asked
        counts, jobs = list[int | None](), list[PendingJob]()
        for ask in asked.lanes:
            found = [PendingJob(at, new.job) for at, new in self.waiting.get(ask.lane, ()) if at > ask.after]
            counts.append(len(found[: ask.most]))
            jobs += found[: ask.most]
        rows = np.empty((0, 8), dtype=np.int64)
        reply = Reply(Position(), full=False, rows=rows, arrivals=self.arrivals, counts=counts, read_jobs=jobs.copy)
        if not self.intakes.take(asked, reply):
            return []
        for pending in jobs:
            self.queue.ready.add(Work.of(pending.job))
        return [pending.job.id for pending in jobs]

    def drain(self, most: int = 1_000) -> list[str]:
        return [found.id for found in self.queue.choose(0.0, most)]


def test_a_lane_without_news_is_not_asked_again() -> None:
    store = Store()
    store.arrive(1, 3)
    assert list(store.ask()) == [1]
    assert store.answer() == ["j1", "j2", "j3"]
    store.drain()
    assert store.ask() == {}, "everything that arrived is known"
    store.arrive(1)
    assert list(store.ask()) == [1]
    assert store.answer() == ["j4"], "and nothing twice"


def test_a_lane_that_gave_all_that_was_asked_for_may_have_more() -> None:
    """Whether there is more is not known when the answer has exactly as many jobs as the request."""
    store = Store()
    store.arrive(1, 32)
    assert store.ask() == {1: 32}
    assert len(store.answer()) == 32
    store.drain()
    assert list(store.ask()) == [1]
    assert store.answer() == []
    assert store.ask() == {}


def test_a_lane_is_asked_while_at_most_half_of_its_quota_is_at_hand() -> None:
    store = Store()
    store.arrive(1, 60)
    assert store.ask() == {1: 32}
    store.answer()
    store.drain(15)
    assert store.ask() == {}, "17 of 32 are at hand"
    store.drain(1)
    assert store.ask() == {1: 16}, "what is missing to the quota"


def test_lanes_share_the_quota_and_each_gets_some() -> None:
    store = Store()
    for lane in (1, 2):
        store.arrive(lane, 40)
    assert store.ask() == {2: 16, 1: 16}
    many = Store()
    for lane in range(1, 7):
        many.arrive(lane, 40)
    assert set(many.ask().values()) == {5}, "six of them have 32 together"


@pytest.mark.parametrize("lanes", [1, 2, 6, 7, 8, 20])
def test_no_more_is_asked_for_than_the_reply_can_bring(lanes: int) -> None:
    """Else a lane would give less than asked for although it has more, and would not be asked again."""
    store, found = Store(), list[str]()
    for lane in range(1, lanes + 1):
        store.arrive(lane, 40)
    for _ in range(40 * lanes):
        store.ask()
        assert sum(ask.most for ask in store.asked.lanes) <= store.asked.most
        store.answer()
        found += store.drain(3)
    assert len(set(found)) == 40 * lanes


def test_more_jobs_of_each_lane_are_held_than_a_call_takes_while_lanes_are_few() -> None:
    """Few jobs of many lanes at a time would cost the server as much as placing them."""
    store = Store()
    for lane in range(1, 4):
        store.arrive(lane, 40)
    for _ in range(4):
        store.ask()
        store.answer()
    assert store.ask() == {}, "each lane holds more than half of what a call may bring"
    assert [store.queue.ready.counts.get(lane, 0) for lane in (1, 2, 3)] == [20, 20, 20]


def test_lanes_that_are_not_known_come_first_and_then_those_of_the_best_jobs() -> None:
    store = Store()
    for lane in (3, 1):
        store.arrive(lane, 60)
    assert list(store.ask()) == [3, 1], "by precedence"
    store.answer()
    store.drain()
    store.arrive(2)
    assert list(store.ask()) == [2, 3, 1]


def test_a_call_asks_for_a_limited_number_of_lanes() -> None:
    store = Store()
    for lane in range(1, MOST_ASKED + 3):
        store.arrive(lane)
    assert list(store.ask()) == list(range(MOST_ASKED + 2, 2, -1))
    store.answer()
    assert list(store.ask()) == [2, 1]
    assert store.intakes.unseen(store.lanes)
    store.answer()
    assert not store.intakes.unseen(store.lanes)


def test_lanes_of_other_kinds_are_not_asked() -> None:
    store = Store(kind="service")
    store.arrive(1)
    assert store.ask() == {}
    assert store.asked.most == 0


def test_no_job_behind_one_that_may_still_be_in_the_store_is_next() -> None:
    """The bound is the last job of a lane that has none at hand and may have more."""
    store = Store()
    store.arrive(2, 40)
    store.arrive(1, 1)
    store.ask()
    store.answer()
    assert store.intakes.bound() is None, "each lane has jobs at hand, or none in the store"
    high = store.drain(16)
    assert high[-1] == "j16"
    assert store.intakes.bound() == (-2.0, 0.0, 16), "j17 is in the store"
    store.ask()
    store.answer()
    assert store.intakes.bound() is None


def test_an_answer_to_a_request_that_is_out_of_date_changes_nothing() -> None:
    store = Store()
    store.arrive(1, 4)
    store.ask()
    old = store.asked
    store.answer()
    store.drain()
    store.answer(old)
    assert store.ask() == {}, "the second answer to the same request was passed over"
    store.intakes.reset()
    assert store.ask() == {1: 32 - 4}, "as after a new incarnation: from the beginning, four are at hand"


def test_an_answer_from_before_a_new_incarnation_is_passed_over() -> None:
    store = Store()
    for lane in (2, 1):
        store.arrive(lane, 2)
    store.ask()
    old = store.asked
    store.intakes.reset()
    assert store.answer(old) == []
    assert list(store.ask()) == [2, 1]


def test_a_lane_that_the_call_had_no_room_for_is_asked_again() -> None:
    store = Store()
    for lane in (2, 1):
        store.arrive(lane, 2)
    assert list(store.ask()) == [2, 1]
    jobs = [PendingJob(at, new.job) for at, new in store.waiting[2]]
    rows = np.empty((0, 8), dtype=np.int64)
    reply = Reply(Position(), full=False, rows=rows, arrivals=4, counts=[2, None], read_jobs=jobs.copy)
    store.intakes.take(store.asked, reply)
    assert list(store.ask()) == [1]


def test_a_lane_whose_number_is_used_again_is_read_from_its_beginning() -> None:
    store = Store()
    store.arrive(1, 4)
    store.ask()
    store.answer()
    store.drain()
    store.waiting.clear()
    store.lanes.apply(np.array([[BASE + 1, 1, 0, 4, 0, 0, 0, 0]]), full=False)
    store.arrivals = 1
    store.arrive(1)
    store.lanes.apply(np.array([[BASE + 1, 9, 1, 2, 1, 1, 0, 0]]), full=False)
    store.lanes.learn({1: (9, Lane("batch", 1))})
    assert list(store.ask()) == [1]
    assert store.answer() == ["j2"]
