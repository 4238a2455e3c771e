"""The choice of the next jobs: how many, whose turn, how much of each, and which jobs wait for a better one."""

from dataclasses import dataclass
from random import Random

import pytest

from omega.cellstate.snapshot import Snapshot
from omega.schedulers.ordering.without_pools import FairUsers, Fifo, PrecedenceFifo
from omega.schedulers.policies import NoPreemption, Ordering
from omega.schedulers.queue.queue import LOOK_SECONDS, Queue
from omega.schedulers.queue.ranks import MANY, Ranks
from omega.schedulers.queue.ready import Ready
from omega.schedulers.work import Work
from omega.testing import snapshot, work
from tests.unit.schedulers.drive import say
from tests.unit.schedulers.queue.test_left_room import Shares, many

ONE = ((1, 1), 1)


@dataclass
class Portions(Ordering):
    """Places three tasks of a job per attempt."""

    def observe(self, snapshot: Snapshot, now: float) -> None:
        """Follow nothing."""

    def lane(self, work: Work) -> str:
        return work.user

    def most(self, work: Work) -> int:
        return 3


def ready_of(*works: Work, ordering: Ordering | None = None) -> Queue:
    queue = Queue(ordering or PrecedenceFifo())
    for found in works:
        queue.ready.add(found)
    queue.observe(snapshot((9, 9)), 0.0)
    return queue


@pytest.mark.parametrize("ordering", [PrecedenceFifo(), FairUsers(), Portions()])
def test_no_more_jobs_are_chosen_than_asked_for(ordering: Ordering) -> None:
    jobs = [work(ONE, name=f"j{i}", order=i, user="ada" if i % 2 else "bob") for i in range(5)]
    queue = ready_of(*jobs, ordering=ordering)
    assert [len(queue.choose(0.0, most)) for most in (2, 0, 2, 2, 2)] == [2, 0, 2, 1, 0]


# What is admitted


def test_no_more_tasks_are_chosen_than_a_policy_places_per_attempt() -> None:
    gang, limited = work(((1, 1), 10), name="gang", gang=True), many("z")
    limited.admitted = [7]
    small = work(ONE, name="small", order=999, user="bob")
    queue = ready_of(gang, limited, small, many("a", user="ada"), ordering=Portions())
    assert {found.id: found.admitted for found in queue.choose(0.0, 4)} == {"z": [3], "small": None, "a": [3]}
    assert queue.blocked.ids() == ["gang"], "all of its tasks or none"


def test_a_job_takes_what_is_due_to_it_and_one_without_a_bound_all() -> None:
    gang = work(((1, 1), 10), name="g", gang=True)
    queue = ready_of(many("a"), many("b"), many("c"), gang, ordering=Shares({"a": 4, "b": 0, "g": 9}))
    assert [(found.id, found.admitted) for found in queue.choose(0.0, 4)] == [("a", [4]), ("c", None)]
    assert sorted(queue.blocked.ids()) == ["b", "g"]
    assert sorted(found.id for found in queue.joined) == ["b", "g"], "they are reported as blocked"
    assert queue.next_due() == 0.0, "room is offered to them at once"


def test_users_take_their_shares_of_what_all_want() -> None:
    """Ada has twice the weight; Eve wants less than her share."""
    queue, copy = Queue(FairUsers({"ada": 2.0})), snapshot((100, 100))
    wants = {"ada": 90, "bob": 90, "eve": 10}
    for order, (user, tasks) in enumerate(wants.items()):
        copy.usage.change(("", user), (0, 0), (tasks, tasks))
        queue.ready.add(work(((1, 1), tasks), name=user, order=order, user=user))
    queue.observe(copy, 0.0)
    assert {found.id: found.admitted for found in queue.choose(0.0, 3)} == {"ada": [60], "bob": [30], "eve": None}
    copy.usage.change(("", "bob"), (0, 0), (-80, -80))
    copy.usage.change(("", "ada"), (0, 0), (-10, -10))
    queue.observe(copy, 1.0)
    queue.ready.add(work(((1, 1), 80), name="ada", user="ada"))
    assert [found.admitted for found in queue.choose(1.0, 3)] == [None], "there is room for all"


# Jobs that are still elsewhere


@pytest.mark.parametrize("lanes", [1, 2, MANY + 1])
def test_the_job_at_the_bound_is_taken_and_none_behind_it(lanes: int) -> None:
    ready = Ready(Ranks(PrecedenceFifo()))
    for i in range(lanes):
        ready.add(work(ONE, name=f"j{i}", order=i, precedence=100 - i))
    assert ready.pop(0.0, bound=(-101.0, 0.0, 0)) is None
    found = ready.pop(0.0, bound=(-100.0, 0.0, 0))
    assert found is not None
    assert (found.id, ready.pop(0.0, bound=(-100.0, 0.0, 0))) == ("j0", None)


@pytest.mark.parametrize("ordering", [PrecedenceFifo(), FairUsers()])
def test_a_scheduler_waits_one_round_for_a_better_job_and_then_goes_on(ordering: Ordering) -> None:
    queue = ready_of(*(work(ONE, name=f"j{i}", order=i) for i in range(3)), ordering=ordering)
    queue.bound = lambda: (-1.0, -1.0, 0)
    assert [len(queue.choose(0.0, 1)) for _ in range(4)] == [0, 1, 0, 1]
    queue.bound = lambda: None
    assert len(queue.choose(0.0, 1)) == 1, "nothing better is elsewhere"


@pytest.mark.parametrize("ordering", [PrecedenceFifo(), FairUsers()])
def test_a_round_counts_as_waited_only_when_a_better_job_held_all_others_back(ordering: Ordering) -> None:
    queue = ready_of(ordering=ordering)
    assert queue.choose(0.0, 3) == [], "nothing was held back"
    for i in range(3):
        queue.ready.add(work(ONE, name=f"j{i}", order=i))
    queue.bound = lambda: (0.0, 0.0, 0)
    assert [found.id for found in queue.choose(0.0, 3)] == ["j0"]
    assert queue.choose(0.0, 3) == [], "j1 waits for the round"


# Jobs at hand by lane of the store


@pytest.mark.parametrize("lanes", [1, 2, MANY + 1])
def test_a_job_that_was_taken_or_discarded_is_not_at_hand(lanes: int) -> None:
    ready = Ready(Ranks(PrecedenceFifo()))
    for i in range(lanes):
        for name in ("a", "b"):
            found = work(ONE, name=f"{name}{i}", order=i, precedence=i)
            found.job.lane = 1 + i
            ready.add(found)
    assert [ready.counts.get(1 + i, 0) for i in range(lanes)] == [2] * lanes
    taken = ready.pop(0.0)
    assert taken is not None
    assert ready.counts.get(taken.job.lane, 0) == 1
    ready.discard(taken.id.replace("a", "b"))
    assert [ready.counts.get(1 + i, 0) for i in range(lanes)] == [2] * (lanes - 1) + [0]


def test_the_only_job_of_all_is_at_hand() -> None:
    ready, only = Ready(Ranks(PrecedenceFifo())), work(ONE)
    only.job.lane = 7
    ready.add(only)
    assert ready.counts.get(7, 0) == 1
    assert ready.pop(0.0) is only
    assert ready.counts.get(7, 0) == 0


def test_a_job_is_at_hand_once_though_the_clock_was_set_back() -> None:
    ready = Ready(Ranks(PrecedenceFifo()))
    for name in ("a", "b"):
        found = work(ONE, name=name, order=ord(name), not_before=5.0)
        found.job.lane = 7
        ready.add(found)
    assert ready.counts.get(7, 0) == 0, "not due yet"
    taken = ready.pop(6.0)
    assert taken is not None
    assert ready.pop(4.0) is None
    taken = ready.pop(6.0)
    assert taken is not None
    assert (taken.id, ready.counts.get(7, 0)) == ("b", 0)


def test_lanes_without_jobs_are_not_counted() -> None:
    ready = Ready(Ranks(PrecedenceFifo()))
    for i in range(3):
        ready.add(work(ONE, name=f"j{i}", order=i, precedence=i))
    assert ready.lanes() == 3
    ready.discard("j2")
    assert ready.lanes() == 2
    assert [found.id for _ in range(3) if (found := ready.pop(0.0))] == ["j1", "j0"]
    assert ready.lanes() == 0


# Freed room


def requeue(queue: Queue, copy: Snapshot) -> None:
    queue.observe(copy, 0.0)
    queue.requeue(copy, NoPreemption(), Random(1), 0.0)


def test_a_requeued_job_that_stays_here_holds_its_room_until_it_was_tried() -> None:
    """Where other schedulers take over the job that was requeued, all blocked jobs are tried in its place."""
    queue = _requeued()
    queue.keep(lambda *_: True)
    assert (queue.blocked.again, queue.blocked.ids()) == ([], ["j1"])
    queue.keep(lambda job_id, _: job_id != "j0")
    assert [found.id for found in queue.choose(0.0, 9)] == ["j1"]


def _requeued() -> Queue:
    """A queue in which j0 was requeued for freed room, and j1 is blocked."""
    queue, copy = Queue(Fifo()), snapshot((0, 0))
    for i in range(2):
        queue.block(work(ONE, name=f"j{i}", order=i))
    copy.freed()
    say(copy, 0, 1, 1)
    requeue(queue, copy)
    return queue


def test_a_requeued_job_that_a_limit_refuses_leaves_its_room_to_the_others() -> None:
    queue = _requeued()
    (refused,) = queue.choose(0.0, 9)
    queue.limit(refused)
    assert queue.next_due() == 0.0, "at once, live and simulated"
    requeue(queue, snapshot((9, 9)))
    assert [found.id for found in queue.choose(0.0, 9)] == ["j1"]


def test_in_turns_a_job_that_gets_nothing_stays_blocked_and_one_that_got_some_is_requeued() -> None:
    """Eve's task seems to fit, because each of its amounts is free on some machine."""
    users = {"ada": ((1, 1), 9), "bob": ((1, 1), 9), "eve": ((3, 3), 1)}
    jobs = [work(group, name=user, order=i, user=user) for i, (user, group) in enumerate(users.items())]
    queue, copy = Queue(FairUsers()), snapshot((0, 0), (0, 0))
    for each in jobs:
        queue.block(each)
    copy.freed()
    say(copy, 0, 4, 1)
    say(copy, 1, 1, 4)
    requeue(queue, copy)
    assert {each.id: each.admitted for each in queue.choose(0.0, 9)} == {"ada": [1], "bob": [1]}
    assert queue.blocked.ids() == ["eve"]


def test_a_job_alone_may_take_more_than_the_room_that_was_freed() -> None:
    """Turns, and what they gave, matter only where several jobs want the room."""
    queue, copy = Queue(FairUsers()), snapshot((0, 0))
    queue.block(many("a", user="ada"))
    copy.freed()
    say(copy, 0, 4, 4)
    requeue(queue, copy)
    assert [found.admitted for found in queue.choose(0.0, 9)] == [None]


# Jobs like blocked ones


@pytest.mark.parametrize("why", ["new", "attempts", "requeued", "admitted"])
def test_only_a_new_job_is_blocked_without_an_attempt(why: str) -> None:
    """One that was tried, requeued or admitted by a limit may fit although others like it do not."""
    queue = ready_of()
    queue.block(work(ONE, name="blocked"))
    found = work(ONE, name="like", order=1)
    if why == "attempts":
        found.attempts = 1
    elif why == "requeued":
        found.requeued_by = queue.limited
    elif why == "admitted":
        found.admitted = [1]
    queue.ready.add(found)
    assert [each.id for each in queue.choose(0.0, 9)] == ([] if why == "new" else ["like"])
    assert [each.id for each in queue.joined] == (["like"] if why == "new" else [])


# Times of checks


def test_delayed_jobs_are_listed_by_their_times_while_they_wait() -> None:
    queue, jobs = Queue(Fifo()), [work(ONE, name=f"j{i}", order=i) for i in range(4)]
    for found, until in zip(jobs, (9.0, 5.0, 0.0, 7.0), strict=True):
        found.until = until
        queue.block(found)
    assert list(queue.delayed(9).items()) == [("j1", (5.0, "")), ("j3", (7.0, "")), ("j0", (9.0, ""))]
    assert queue.delayed(1) == {"j1": (5.0, "")}
    queue.discard("j1")
    assert list(queue.delayed(1)) == ["j3"]


def test_blocked_jobs_with_relations_are_checked_again_once_machines_changed() -> None:
    near = work(ONE, name="near", spec={"groups": [{"near": {"job": "db", "required": True}}]})
    queue, copy = Queue(Fifo()), snapshot((0, 0))
    queue.block(near)
    queue.observe(copy, 5.0)
    assert queue.next_due() is not None
    asked = queue.asks("batch", copy, 5.0)
    assert asked is not None
    assert asked.others == ("db",)
    assert queue.next_due() is None, "nothing changed since"
    say(copy, 0, 1, 1)
    assert queue.next_due() == 5.0 + LOOK_SECONDS
    assert queue.asks("batch", copy, 5.1) is None
    assert queue.asks("batch", copy, 5.0 + LOOK_SECONDS) is not None
    queue.block(work(ONE, name="other"))
    queue.discard("near")
    say(copy, 0, 1, 1)
    assert queue.asks("batch", copy, 9.0) is None, "nobody waits for another job any more"


def test_jobs_behind_a_limit_are_checked_again_until_the_use_is_known() -> None:
    queue, copy = Queue(Fifo()), snapshot((9, 9))
    queue.limit(work(ONE))
    queue.observe(copy, 5.0)
    assert queue.next_due() == 0.0
    asked = queue.asks("batch", copy, 5.0)
    assert asked is not None
    assert asked.use == "batch"
    assert queue.next_due() == 5.0 + LOOK_SECONDS


def test_what_is_promised_to_blocked_jobs_counts_until_the_next_decision_and_no_longer() -> None:
    copy = snapshot(*[(0, 0)] * 4)
    queue, names = Queue(FairUsers()), ("ada", "bob")
    queue.observe(copy, 0.0)
    for i in range(6):
        queue.block(work(((1, 1), 3), name=f"j{i}", order=i, user=names[i % 2]))
    for machine in range(4):
        say(copy, machine, 2, 2)
    queue.requeue(copy, NoPreemption(), Random(1), 0.0)
    assert sum(held[0] for held, _ in copy.usage.by_account().values()) == 8, "all the room is distributed, in turns"
    copy.usage.forget_promises()
    assert copy.usage.by_account() == {}
