"""The jobs of a call are placed in one call of the placement, as they are one after another."""

from collections.abc import Callable, Sequence
from itertools import takewhile
from random import Random

import pytest
from hypothesis import given, settings, strategies as st

from omega.cellstate.array_snapshot import ArraySnapshot
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Claim
from omega.schedulers.constrained import Constrained
from omega.schedulers.placement.first_fit import FirstFit
from omega.schedulers.policies import as_places_all
from omega.schedulers.scheduler import Scheduler
from omega.schedulers.work import Work
from omega.testing.placement import COPIES, cells
from omega.testing.scenes import filled, for_all, room, snapshot, work


def jobs_of_one_group(dimensions: int) -> st.SearchStrategy[list[Work]]:
    """Return jobs of one group, whose tasks need the same or not: what is free for equal ones is read at once."""
    needs = st.lists(st.tuples(*[st.integers(0, 5)] * dimensions), min_size=1, max_size=2)

    def of(needs: list[tuple[int, ...]]) -> st.SearchStrategy[list[Work]]:
        one = st.tuples(st.sampled_from(needs), st.integers(1, 20), st.booleans())
        return st.lists(one, min_size=2, max_size=6).map(works_of)

    return needs.flatmap(of)


def works_of(drawn: list[tuple[tuple[int, ...], int, bool]]) -> list[Work]:
    return [work((need, count), gang=gang, name=f"j{i}") for i, (need, count, gang) in enumerate(drawn)]


@pytest.mark.parametrize("kind", COPIES, ids=lambda kind: kind.__name__)
@settings(for_all, max_examples=40)
@given(data=st.data())
def test_the_result_is_that_of_one_job_after_another(kind: Callable[[int], Snapshot], data: st.DataObject) -> None:
    dimensions, window = data.draw(st.integers(1, 3)), data.draw(st.sampled_from([0, 1, 3, 64]))
    free, works = data.draw(cells(dimensions)), data.draw(jobs_of_one_group(dimensions))
    together, single = filled(kind(dimensions), free), filled(kind(dimensions), free)
    placed, size = FirstFit(window).place_all(works, together, Random(1), 40)
    rng, expected, claims = Random(1), list[Sequence[Claim]](), 0
    for each in works:
        if claims >= 40 or not free:
            break
        expected.append(FirstFit(window).place(each, single, rng))
        claims += len(expected[-1])
        if not expected[-1]:
            break
    assert [list(each) for each in placed] == [list(each) for each in expected]
    assert (size, together.mark(), room(together)) == (claims, single.mark(), room(single))


@settings(for_all, max_examples=40)
@given(cells(2), jobs_of_one_group(2), st.booleans())
def test_a_scheduler_decides_the_same_with_and_without(
    free: list[tuple[int, ...]], works: list[Work], counts_use: bool
) -> None:
    """Up to the first job that fits nowhere: random numbers that were drawn ahead are lost there."""
    found = []
    for together in (True, False):
        scheduler = Scheduler("batch", placement=Constrained(), jobs_per_call=8, rng=Random(3))
        scheduler.counts_use = counts_use
        if not together:
            scheduler.places_all = None
        copy = filled(ArraySnapshot(2), free)
        mine = [Work.of(each.job) for each in works]
        decided = scheduler.decide(mine, copy, 1.0)
        claims = [(each.job, list(each.claims), each.mode) for each in decided]
        pairs = zip((job for job, *_ in claims), mine, strict=False)
        fitted = len(list(takewhile(lambda pair: pair[0] == pair[1].id, pairs)))
        found.append((fitted, claims[:fitted], [each.attempts for each in mine]))
        assert set(scheduler.working) == set()
        assert scheduler.queue.blocked_jobs == len(works) - len(decided)
    assert found[0] == found[1]


def test_a_job_with_demands_ends_the_call() -> None:
    works = [work(((1, 1), 2), name="a"), work(((1, 1), 2), name="b", spec={"groups": [{"constraints": ["x = 1"]}]})]
    placed, size = Constrained().place_all(works, snapshot((9, 9)), Random(0), 100)
    assert ([list(each) for each in placed], size) == ([[Claim(0, 0, 2)]], 1)
    assert Constrained().place_all(works[1:], snapshot((9, 9)), Random(0), 9) == ([], 0)


def test_jobs_of_pools_are_placed_together() -> None:
    """Their pool and user demand nothing of a machine."""
    works = [work(((1, 1), 2), name=name, pool=name, user="u") for name in "ab"]
    placed, size = Constrained().place_all(works, snapshot((9, 9)), Random(0), 100)
    assert ([list(each) for each in placed], size) == ([[Claim(0, 0, 2)]] * 2, 2)


class Reversed(FirstFit):
    """A policy that changes one job's placement alone."""

    def place(self, work: Work, snapshot: Snapshot, rng: Random) -> Sequence[Claim]:
        snapshot.take(snapshot.size - 1, work.need(0), 1)
        return [Claim(snapshot.size - 1, 0, 1)]


def test_a_policy_that_overrides_place_alone_is_asked_for_each_job() -> None:
    assert as_places_all(FirstFit()) is not None
    assert as_places_all(Reversed()) is None
    scheduler = Scheduler("batch", placement=Reversed(), jobs_per_call=8)
    works = [work(((1, 1), 1), name="a"), work(((1, 1), 1), name="b")]
    decided = scheduler.decide(works, snapshot((9, 9), (9, 9), (9, 9)), 1.0)
    assert [list(each.claims) for each in decided] == [[Claim(2, 0, 1)], [Claim(2, 0, 1)]]
    assert Constrained(Reversed()).place_all(works, snapshot((9, 9)), Random(0), 9) == ([], 0)


def test_a_job_that_begins_where_another_one_ended_gets_the_rest() -> None:
    copy = snapshot((1, 1), (2, 2), (9, 9))
    assert copy.fill_all((1, 1), [2, 2], [0, 1], 3) == [([0, 1], [1, 1], 0), ([1, 2], [1, 1], 0)]
    assert room(copy) == [[0, 0, 8], [0, 0, 8]]


def test_jobs_that_begin_at_one_machine_share_it() -> None:
    works = [work(((1, 1), 2), name=name) for name in "abcd"]
    copy = snapshot((5, 5), (3, 3), (0, 0))
    found = copy.fill_all((1, 1), [2, 2, 2, 2], [0, 0, 0, 0], 3)
    assert found == [([0], [2], 0), ([0], [2], 0), ([0, 1], [1, 1], 0), ([1], [2], 0)]
    assert room(copy) == [[0, 0, 0], [0, 0, 0]]
    placed, size = FirstFit().place_all(works, snapshot((5, 5), (3, 3)), Random(0), 100)
    assert (sum(claim.count for claims in placed for claim in claims), len(placed)) == (8, 4)
    assert size == sum(map(len, placed))
