"""Jobs that may be tried, in the order of a policy; those that back off come back when they are due."""

from hypothesis import given, strategies as st

from omega.schedulers.ordering.without_pools import Fifo
from omega.schedulers.queue.ranks import Ranks
from omega.schedulers.queue.ready import Ready
from omega.schedulers.work import Work
from tests.unit.schedulers.drive import work


def empty() -> Ready:
    return Ready(Ranks(Fifo()))


def queued(*orders: int) -> Ready:
    ready = empty()
    for order in orders:
        ready.add(work(f"j{order}", order=order))
    return ready


def due(order: int, not_before: float) -> Work:
    found = work(f"j{order}", order=order)
    found.not_before = not_before
    return found


def drain(ready: Ready, now: float) -> list[str]:
    taken = []
    while (found := ready.pop(now)) is not None:
        taken.append(found.id)
    return taken


def test_by_submission_whatever_the_order_of_arrival() -> None:
    assert drain(queued(5, 1, 3, 2), 0.0) == ["j1", "j2", "j3", "j5"]


def test_a_job_that_backs_off_is_passed_by_until_it_is_due() -> None:
    ready = queued(2)
    ready.add(due(1, 5.0))
    assert len(ready) == 2
    assert drain(ready, 4.9) == ["j2"]
    assert (len(ready), ready.next_due()) == (1, 5.0)
    assert drain(ready, 5.0) == ["j1"]
    assert (len(ready), ready.next_due()) == (0, None)


def test_when_it_is_due_it_stands_where_it_stood() -> None:
    ready = queued(2, 9)
    ready.add(due(5, 1.0))
    assert drain(ready, 1.0) == ["j2", "j5", "j9"]


def test_next_due() -> None:
    ready = empty()
    assert ready.next_due() is None
    ready.add(due(1, 7.0))
    ready.add(due(2, 3.0))
    assert ready.next_due() == 3.0
    ready.add(work("now", order=3))
    assert ready.next_due() == 0.0, "there is work at once"


def test_a_discarded_job_never_comes_and_may_be_added_again() -> None:
    ready = queued(1, 2)
    gone = ready.discard("j1")
    assert gone is not None
    assert ready.get("j1") is None
    assert ready.discard("j1") is None
    again = due(1, 5.0)
    ready.add(again)
    assert ready.get("j1") is again
    assert drain(ready, 4.0) == ["j2"], "its place in the queue of before is void"
    assert drain(ready, 5.0) == ["j1"]


@given(st.lists(st.tuples(st.sampled_from(["add", "discard", "pop"]), st.integers(0, 5), st.integers(0, 3))))
def test_any_history_gives_each_job_once_and_the_first_that_is_due(history: list[tuple[str, int, int]]) -> None:
    ready, model, now = empty(), dict[str, Work](), 0.0
    for action, order, seconds in history:
        name = f"j{order}"
        if action == "add" and name not in model:
            model[name] = due(order, now + seconds if seconds else 0.0)
            ready.add(model[name])
        elif action == "discard":
            assert ready.discard(name) is model.pop(name, None)
        elif action == "pop":
            now += seconds
            due_now = [found for found in model.values() if found.not_before <= now]
            expected = min(due_now, key=lambda found: found.job.order, default=None)
            assert ready.pop(now) is expected
            if expected is not None:
                del model[expected.id]
        assert len(ready) == len(model)
        dues = [found.not_before for found in model.values()]
        next_due = ready.next_due()
        assert (next_due is None) == (not model)
        assert next_due is None or next_due <= min(dues), (
            "never later than the first: it may wake too soon, not too late"
        )


def test_a_job_that_is_ready_alone_is_one_lane_keeps_its_place_and_may_leave() -> None:
    """The simulator's usual job, which arrives at an empty queue, is not put into a heap until another one comes."""
    ready = empty()
    ready.add(work("second", order=1))
    assert (len(ready), ready.lanes(), ready.next_due()) == (1, 1, 0.0)
    ready.add(work("first", order=0))
    assert [found.id for _ in range(3) if (found := ready.pop(0.0))] == ["first", "second"]
    ready.add(work("again"))
    assert ready.pop(0.0, bound=(-9.0, 0.0, 0)) is None, "a better job may wait elsewhere"
    again = ready.pop(0.0, bound=(9.0, 0.0, 0))
    assert again is not None, "no better one does"
    ready.add(again)
    assert ready.discard("again") is not None
    assert (len(ready), ready.next_due(), ready.pop(0.0), ready.lanes()) == (0, None, None, 0)
    ready.add(work("alone"))
    assert ready.discard("alone") is not None
    ready.add(work("next", order=1))
    ready.add_all([work("later", order=2), work("earlier", order=0)])
    assert drain(ready, 0.0) == ["earlier", "next", "later"]
