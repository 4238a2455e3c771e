"""Room that jobs leave to others: what is due to them comes first, and the rest when it stayed free."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

import pytest

from omega.cellstate.snapshot import Snapshot
from omega.schedulers.policies import NoPreemption, Ordering
from omega.schedulers.queue.queue import Queue
from omega.schedulers.work import Work
from omega.testing import snapshot, work
from tests.unit.schedulers.drive import say


@dataclass
class Shares(Ordering):
    """Has so many tasks due to each job, which is a lane; it leaves more room for a time in seconds."""

    tasks: dict[str, int]
    seconds: float = 0.05

    def observe(self, snapshot: Snapshot, now: float) -> None:
        """Follow nothing."""

    def lane(self, work: Work) -> str:
        return work.id

    def key(self, work: Work) -> float:
        return work.holds(0) + sum(work.admitted or [0])

    def due(self, work: Work, waiting: Callable[[], int]) -> list[int] | None:
        return [max(0, self.tasks[work.id] - work.holds(0))] if work.id in self.tasks else None

    def beyond(self, work: Work, stayed: float) -> bool:
        return stayed >= self.seconds


def many(name: str, user: str = "") -> Work:
    return work(((1, 1), 10), name=name, order=ord(name), user=user)


def offered(queue: Queue, copy: Snapshot, now: float) -> dict[str, list[int] | None]:
    """What the queue gives to which jobs at a time; they are blocked again."""
    queue.observe(copy, now)
    queue.requeue(copy, NoPreemption(), Random(1), now)
    chosen = queue.choose(now, 99)
    copy.usage.forget_promises()
    given = {found.id: found.admitted for found in chosen}
    for found in chosen:
        found.admitted, found.requeued_by = None, None
        queue.blocked.add(found)
    return given


def sharing(tasks: dict[str, int], *free: int, seconds: float = 0.05) -> tuple[Queue, Snapshot]:
    """Blocked jobs of ten tasks each, and machines with this room, which was freed just now."""
    queue, copy = Queue(Shares(tasks, seconds)), snapshot(*[(0, 0)] * len(free))
    for name in tasks:
        queue.block(many(name))
    copy.freed()
    for machine, room in enumerate(free):
        say(copy, machine, room, room)
    return queue, copy


def test_freed_room_goes_to_the_jobs_to_which_it_is_due() -> None:
    queue, copy = sharing({"a": 0, "b": 2, "c": 3}, 4)
    assert offered(queue, copy, 0.0) == {"b": [2], "c": [2]}


@pytest.mark.parametrize(("elsewhere", "given"), [(6, {"g": [10]}), (5, {"a": [2]})])
def test_a_gang_takes_freed_room_when_all_of_it_may_fit(elsewhere: int, given: dict[str, list[int]]) -> None:
    """Machines that were free before may hold the rest; a part of it would be placed as a gang of its own."""
    queue, copy = sharing({"a": 2}, 4, elsewhere)
    queue.block(work(((1, 1), 10), name="g", order=1, gang=True))
    copy.freed()
    say(copy, 0, 0, 0)
    say(copy, 0, 4, 4)
    assert offered(queue, copy, 0.0) == given


def test_room_that_stayed_free_goes_to_all_in_turns() -> None:
    queue, copy = sharing({"a": 0, "b": 1}, 4, 1)
    assert offered(queue, copy, 0.0) == {"b": [1]}
    assert queue.next_due() == 0.05
    say(copy, 0, 3, 3)  # b took its task
    assert offered(queue, copy, 0.04) == {}
    assert offered(queue, copy, 0.05) == {"a": [2], "b": [2]}, "in turns, beyond what is due"


def test_room_that_was_taken_meanwhile_or_freed_again_has_not_stayed_free() -> None:
    queue, copy = sharing({"a": 0}, 4)
    assert offered(queue, copy, 0.0) == {}
    say(copy, 0, 1, 1)
    assert offered(queue, copy, 0.03) == {}
    say(copy, 0, 3, 3)
    assert offered(queue, copy, 0.05) == {"a": [1]}, "two more slots were freed just now"
    assert offered(queue, copy, 0.08) == {}
    assert queue.next_due() == pytest.approx(0.1)
    assert offered(queue, copy, 0.1) == {"a": [2]}, "what stayed free"
    say(copy, 0, 0, 0)
    assert offered(queue, copy, 0.11) == {}
    assert queue.next_due() is None, "nothing is left to offer"


def test_room_that_nobody_takes_is_not_offered_for_ever() -> None:
    queue, copy = sharing({"a": 0}, 4, seconds=9.0)
    assert offered(queue, copy, 0.0) == {}
    for now in (0.05, 0.1, 0.15, 0.2, 0.25, 1.0):
        assert queue.next_due() == pytest.approx(now)
        assert offered(queue, copy, now) == {}
    assert queue.next_due() is None


@dataclass
class OneEach(Ordering):
    """All jobs are in one lane, and as many tasks are due to each; it records of which jobs it was asked."""

    tasks: int
    asked: list[str] = field(default_factory=list)

    def observe(self, snapshot: Snapshot, now: float) -> None:
        """Follow nothing."""

    def due(self, work: Work, waiting: Callable[[], int]) -> list[int]:
        self.asked.append(work.id)
        return [self.tasks]

    def beyond(self, work: Work, stayed: float) -> bool:
        return False


def of_sizes(ordering: Ordering, precedences: Sequence[int]) -> tuple[Queue, Snapshot]:
    """Blocked jobs of ten tasks that need 1, 2, 3, ... units, and a machine on which 20 were freed just now."""
    queue, copy = Queue(ordering), snapshot((0, 0))
    for size, precedence in enumerate(precedences, 1):
        queue.block(work(((size, size), 10), name=f"size {size}", order=size, precedence=precedence))
    copy.freed()
    say(copy, 0, 20, 20)
    return queue, copy


def test_a_job_that_had_what_is_due_to_it_keeps_no_wider_one_from_its_own() -> None:
    queue, copy = of_sizes(OneEach(1), [0, 0, 0])
    assert offered(queue, copy, 0.0) == {"size 1": [1], "size 2": [1], "size 3": [1]}


def test_jobs_of_a_lane_that_need_no_less_are_refused_with_one_to_which_no_room_is_due() -> None:
    queue, copy = of_sizes(ordering := OneEach(0), [0, 0, 5, 0])
    assert offered(queue, copy, 0.0) == {}
    assert ordering.asked == ["size 1", "size 3"], "with the first 2 and 4, but not one of a higher precedence"
