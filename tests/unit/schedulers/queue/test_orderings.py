"""Parameters of the orderings that come with Omega, and the places that they give jobs."""

from collections.abc import Hashable
from math import inf, nan

import pytest

from omega.cellstate.errors import BadInput
from omega.schedulers.ordering.without_pools import FairUsers, PrecedenceFifo, Rejoin, ShortestFirst
from omega.schedulers.policies import Ordering
from omega.schedulers.queue.queue import Queue
from omega.schedulers.work import Work
from omega.testing import snapshot, work

ONE = ((1, 1), 1)


class LowestFirst(Ordering):
    """The least important job first."""

    def lane(self, work: Work) -> int:
        return work.job.precedence

    def rank(self, lane: Hashable) -> float:
        return float(str(lane))


def chosen(ordering: Ordering, *works: Work, now: float = 100.0) -> str:
    queue = Queue(ordering)
    queue.observe(snapshot((99, 99)), now)
    for found in works:
        queue.ready.add(found)
    return " ".join(found.id for found in queue.choose(now, 99))


def test_a_job_that_is_retried_joins_when_it_is_due() -> None:
    """Not when it was put back, and not where it was first."""
    again, later = work(ONE, name="again", not_before=10.0), work(ONE, name="later", order=1, submitted=5.0)
    assert chosen(Rejoin(), again, later) == "later again"
    soon = work(ONE, name="soon", not_before=4.0)
    assert chosen(Rejoin(), work(ONE, name="later", order=1, submitted=5.0), soon) == "soon later"


def test_jobs_that_were_never_retried_stand_by_submission() -> None:
    jobs = [work(ONE, name=name, submitted=at) for name, at in (("c", 3.0), ("a", 1.0), ("b", 2.0))]
    assert chosen(Rejoin(), *jobs) == "a b c"


@pytest.mark.parametrize("weight", [1e-9, 0.5, 1.0, 1e9])
def test_any_weight_above_0_is_a_weight(weight: float) -> None:
    assert FairUsers({"ada": weight}).weights == {"ada": weight}


@pytest.mark.parametrize("weight", [0.0, -1.0, inf, nan])
def test_a_weight_that_is_none_is_refused(weight: float) -> None:
    with pytest.raises(BadInput, match="of user ada; want more than 0"):
        FairUsers({"ada": weight})


@pytest.mark.parametrize("ageing", [1e-3, 0.5, 1.0, 1e9])
def test_any_time_above_0_is_an_ageing(ageing: float) -> None:
    assert PrecedenceFifo(ageing=ageing).ageing == ageing


@pytest.mark.parametrize("ageing", [0.0, -1.0, inf, nan])
def test_an_ageing_that_is_none_is_refused(ageing: float) -> None:
    with pytest.raises(BadInput, match="want more than 0"):
        PrecedenceFifo(ageing=ageing)


@pytest.mark.parametrize("ageing", [-1.0, inf, nan])
def test_the_ageing_of_the_shortest_may_be_0_but_no_less(ageing: float) -> None:
    assert ShortestFirst(ageing=0.0).ageing == 0.0
    with pytest.raises(BadInput, match="want 0 or more"):
        ShortestFirst(ageing=ageing)


def test_precedence_decides_without_ageing_and_age_makes_up_for_it_with_ageing() -> None:
    def jobs() -> list[Work]:
        important = work(ONE, name="important", order=1, precedence=2, submitted=20.0)
        return [work(ONE, name="old"), important, work(ONE, name="young", order=2, submitted=20.0)]

    assert chosen(PrecedenceFifo(), *jobs()) == "important old young"
    assert chosen(PrecedenceFifo(ageing=9.0), *jobs()) == "old important young"
    assert chosen(PrecedenceFifo(ageing=11.0), *jobs()) == "important old young"


def test_within_a_user_precedence_and_ageing_decide() -> None:
    def jobs() -> list[Work]:
        return [work(ONE, name="old", user="ada"),
                work(ONE, name="important", order=1, user="ada", precedence=2, submitted=20.0)]  # fmt: skip

    assert chosen(FairUsers(), *jobs()) == "important old"
    assert chosen(FairUsers(ageing=9.0), *jobs()) == "old important"


def test_short_jobs_come_first_unless_others_wait_for_long() -> None:
    def jobs() -> list[Work]:
        long, short = work(ONE, name="long", expected=60.0), work(ONE, name="short", order=1, expected=5.0)
        short.submitted = 100.0
        return [long, short, work(ONE, name="unknown", order=2)]

    assert chosen(ShortestFirst(), *jobs()) == "short long unknown"
    assert chosen(ShortestFirst(ageing=1.0), *jobs()) == "long short unknown"
    assert chosen(ShortestFirst(unknown=10.0), *jobs()) == "short unknown long"


def test_another_ordering_ranks_the_jobs_that_are_queued_already() -> None:
    """Lanes of both have equal names: no rank of the first one may stay."""
    queue = Queue(PrecedenceFifo())
    queue.observe(snapshot((99, 99)), 0.0)
    for name, precedence in (("a", 1), ("b", 2), ("c", 3)):
        queue.ready.add(work(ONE, name=name, precedence=precedence))
    assert [found.id for found in queue.choose(0.0, 1)] == ["c"]
    queue.follow(LowestFirst())
    assert [found.id for found in queue.choose(0.0, 3)] == ["a", "b"]
