"""What every ordering policy keeps to, whichever job it prefers."""

from copy import deepcopy

from hypothesis import given
from hypothesis import strategies as st

from omega.testing.scenes import for_all, work
from schedulers.policies import Ordering
from schedulers.work import Work

NAMES = "abcde"
seconds = st.integers(0, 9).map(float)
added = st.tuples(st.just("add"), st.sampled_from(NAMES), seconds)
taken = st.tuples(st.just("pop"), st.just(""), seconds)
dropped = st.tuples(st.just("discard"), st.sampled_from(NAMES), st.just(0.0))
histories = st.lists(st.one_of(added, added, taken, dropped), max_size=30)
"""(what, name, seconds): a job that is due then joins; the next is taken at that time; a job is taken out."""


class OrderingContract:
    """Inherit, and say which `policy`: an empty queue, of which each test takes a copy."""

    policy: Ordering

    def queue(self) -> Ordering:
        """An empty queue."""
        return deepcopy(self.policy)

    @for_all
    @given(history=histories)
    def test_a_job_comes_out_once_and_when_it_is_due(self, history: list[tuple[str, str, float]]) -> None:
        """Whatever happens: what is queued is what joined and did not leave, and nobody leaves before their time."""
        queue, inside = self.queue(), dict[str, Work]()
        for turn, (what, name, when) in enumerate(history):
            if what == "add" and name not in inside:
                inside[name] = work(((1, 1), 1), name=name, order=turn, submitted=0.0, not_before=when)
                queue.add(inside[name])
            elif what == "discard":
                assert queue.discard(name) is inside.pop(name, None)
            elif what == "pop":
                self._taken(queue.pop(when), inside, when)
            assert len(queue) == len(inside)
            assert all(queue.get(name) is inside.get(name) for name in NAMES)
        self._all_come_out(queue, inside)

    def _taken(self, found: Work | None, inside: dict[str, Work], now: float) -> None:
        if found is not None:
            assert inside.pop(found.id, None) is found, "a job that is not queued came out"
            assert found.not_before <= now, "a job came out before it was due"

    def _all_come_out(self, queue: Ordering, inside: dict[str, Work]) -> None:
        """Whoever goes on at `next_due` when nothing is due meets every job."""
        now, patience = 0.0, 10 * len(NAMES) + 100
        while inside and patience:
            patience -= 1
            found = queue.pop(now)
            self._taken(found, inside, now)
            due = queue.next_due()
            assert (due is None) == (not inside), "next_due is None exactly when nothing is queued"
            if found is None:
                assert due is not None
                assert due > now, "nothing came out, so the next is due later"
                now = due
        assert not inside, "a queued job never came out"
        assert (queue.pop(1e9), queue.next_due(), len(queue)) == (None, None, 0)

    @for_all
    @given(history=histories)
    def test_the_same_history_gives_the_same_order(self, history: list[tuple[str, str, float]]) -> None:
        """No dice and no clock: the order follows from what happened."""
        assert self._played(history) == self._played(history)

    def _played(self, history: list[tuple[str, str, float]]) -> list[str]:
        queue, out = self.queue(), list[str]()
        for turn, (what, name, when) in enumerate(history):
            if what == "add" and queue.get(name) is None:
                queue.add(work(((1, 1), 1), name=name, order=turn, not_before=when))
            elif what == "discard":
                queue.discard(name)
            elif what == "pop" and (found := queue.pop(when)) is not None:
                out.append(found.id)
        while (found := queue.pop(float("inf"))) is not None:
            out.append(found.id)
        return out

    def test_all_come_out_at_the_end_of_time(self) -> None:
        """A scheduler that gives jobs away empties its queue so."""
        queue = self.queue()
        for turn, name in enumerate(NAMES):
            queue.add(work(((1, 1), 1), name=name, order=turn, not_before=float(turn * 1000)))
        out = [queue.pop(float("inf")) for _ in NAMES]
        assert sorted(each.id for each in out if each is not None) == sorted(NAMES)
        assert queue.pop(float("inf")) is None
