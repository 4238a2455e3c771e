"""Jobs that are queued and chosen together stand where they would stand one by one."""

import pytest
from hypothesis import given, settings, strategies as st

from omega.schedulers.ordering.without_pools import FairUsers, Fifo, PrecedenceFifo, Rejoin
from omega.schedulers.policies import Ordering
from omega.schedulers.queue import ready as module
from omega.schedulers.queue.ranks import Ranks
from omega.schedulers.queue.ready import Ready
from omega.schedulers.work import Work
from omega.testing.scenes import for_all
from tests.unit.schedulers.drive import job

ORDERINGS: tuple[Ordering, ...] = (PrecedenceFifo(), PrecedenceFifo(ageing=2.0), Fifo(), Rejoin(), FairUsers())


def draw_works(data: st.DataObject, serial: int) -> list[Work]:
    """Return up to eight new jobs, some of which back off."""
    found = []
    for i in range(data.draw(st.integers(0, 8))):
        order, precedence = data.draw(st.integers(0, 5)), data.draw(st.integers(0, 1))
        work = Work.of(job(f"j{serial}-{i}", order=order, precedence=precedence, submitted_ms=1_000 * order))
        work.job.lane = data.draw(st.integers(0, 2))
        work.not_before = data.draw(st.sampled_from([0.0, 0.0, 0.0, 2.0]))
        found.append(work)
    return found


def twin(work: Work) -> Work:
    found = Work.of(work.job)
    found.not_before = work.not_before
    return found


@pytest.mark.parametrize("sorted_up_to", [0, module.SORTED])
@settings(for_all, max_examples=60)
@given(data=st.data())
def test_the_queue_is_that_of_jobs_one_by_one(sorted_up_to: int, data: st.DataObject) -> None:
    ordering = data.draw(st.sampled_from(ORDERINGS))
    together, single = Ready(Ranks(ordering)), Ready(Ranks(ordering))
    for step in range(data.draw(st.integers(1, 6))):
        now, works = float(step), draw_works(data, step)
        for work in works:
            single.add(twin(work))
        together.add_all(works)
        queued = sorted(together.works)
        if data.draw(st.booleans()) and queued:
            gone = data.draw(st.sampled_from(queued))
            assert [each.discard(gone) is None for each in (together, single)] == [False, False]
        most = data.draw(st.integers(0, 5))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "SORTED", sorted_up_to)
            chosen = [work.id for work in together.pop_many(now, None, most)]
        assert chosen == pop_each(single, now, most)
        assert together.counts == single.counts
        assert (together.works.keys(), together.next_due()) == (single.works.keys(), single.next_due())


def pop_each(ready: Ready, now: float, most: int) -> list[str]:
    """Remove the first jobs one by one."""
    found: list[str] = []
    while len(found) < most and (work := ready.pop(now)) is not None:
        found.append(work.id)
    return found
