"""First in, first out: by submission; jobs that back off come back when they are due."""

from hypothesis import given
from hypothesis import strategies as st

from schedulers.ordering.fifo import Fifo
from schedulers.work import Work
from tests.unit.schedulers.drive import work


def queued(*orders: int) -> Fifo:
    fifo = Fifo()
    for order in orders:
        fifo.add(work(f"j{order}", order=order))
    return fifo


def due(order: int, not_before: float) -> Work:
    found = work(f"j{order}", order=order)
    found.not_before = not_before
    return found


def drain(fifo: Fifo, now: float) -> list[str]:
    taken = []
    while (found := fifo.pop(now)) is not None:
        taken.append(found.id)
    return taken


def test_by_submission_whatever_the_order_of_arrival() -> None:
    assert drain(queued(5, 1, 3, 2), 0.0) == ["j1", "j2", "j3", "j5"]


def test_a_job_that_backs_off_is_passed_by_until_it_is_due() -> None:
    fifo = queued(2)
    fifo.add(due(1, 5.0))
    assert len(fifo) == 2
    assert drain(fifo, 4.9) == ["j2"]
    assert (len(fifo), fifo.next_due()) == (1, 5.0)
    assert drain(fifo, 5.0) == ["j1"]
    assert (len(fifo), fifo.next_due()) == (0, None)


def test_when_it_is_due_it_stands_where_it_stood() -> None:
    fifo = queued(2, 9)
    fifo.add(due(5, 1.0))
    assert drain(fifo, 1.0) == ["j2", "j5", "j9"]


def test_next_due() -> None:
    fifo = Fifo()
    assert fifo.next_due() is None
    fifo.add(due(1, 7.0))
    fifo.add(due(2, 3.0))
    assert fifo.next_due() == 3.0
    fifo.add(work("now", order=3))
    assert fifo.next_due() == 0.0, "there is work at once"


def test_a_discarded_job_never_comes_and_may_be_added_again() -> None:
    fifo = queued(1, 2)
    gone = fifo.discard("j1")
    assert gone is not None
    assert fifo.get("j1") is None
    assert fifo.discard("j1") is None
    again = due(1, 5.0)
    fifo.add(again)
    assert fifo.get("j1") is again
    assert drain(fifo, 4.0) == ["j2"], "its place in the queue of before is void"
    assert drain(fifo, 5.0) == ["j1"]


@given(st.lists(st.tuples(st.sampled_from(["add", "discard", "pop"]), st.integers(0, 5), st.integers(0, 3))))
def test_any_history_gives_each_job_once_and_the_first_that_is_due(history: list[tuple[str, int, int]]) -> None:
    fifo, model, now = Fifo(), dict[str, Work](), 0.0
    for action, order, seconds in history:
        name = f"j{order}"
        if action == "add" and name not in model:
            model[name] = due(order, now + seconds if seconds else 0.0)
            fifo.add(model[name])
        elif action == "discard":
            assert fifo.discard(name) is model.pop(name, None)
        elif action == "pop":
            now += seconds
            ready = [found for found in model.values() if found.not_before <= now]
            expected = min(ready, key=lambda found: found.job.order, default=None)
            assert fifo.pop(now) is expected
            if expected is not None:
                del model[expected.id]
        assert len(fifo) == len(model)
        dues = [found.not_before for found in model.values()]
        next_due = fifo.next_due()
        assert (next_due is None) == (not model)
        assert next_due is None or next_due <= min(dues), (
            "never later than the first: it may wake too soon, not too late"
        )
