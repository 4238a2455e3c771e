"""Jobs that a limit keeps out: requeued by what the limits and their use leave, and only when that changed."""

import pytest

from omega.cellstate.model import Gang, Limits
from omega.cellstate.pools import Pool, Pools
from omega.cellstate.pools.records import PoolUse
from omega.cellstate.replies import KindUse
from omega.schedulers.limits import admitted, occupy
from omega.schedulers.ordering.without_pools import Fifo
from omega.schedulers.queue.queue import Limited, PoolRoom
from omega.schedulers.queue.ranks import Ranks
from omega.schedulers.work import Work
from tests.unit.schedulers.drive import group, work


def kept_out(*works: Work) -> Limited:
    limited = Limited(Ranks(Fifo()))
    for found in works:
        limited.add(found)
    return limited


def use(*most: int | None, used: tuple[int, int] = (0, 0), jobs: tuple[int, int | None] = (0, None)) -> KindUse:
    return KindUse(Limits((*most, None)[:2], jobs[1]), jobs[0], used)


def requeued(limited: Limited, now: KindUse) -> list[str]:
    return [found.id for found in limited.requeue(now)]


def test_ten_thousand_jobs_and_room_for_three_wake_three() -> None:
    limited = kept_out(*(work(f"j{i}", group((2, 1), 1), order=i) for i in range(10_000)))
    assert requeued(limited, use(10, used=(10, 0))) == []
    assert requeued(limited, use(10, used=(3, 0))) == ["j0", "j1", "j2"]
    assert requeued(limited, use(10, used=(3, 0))) == [], "nothing changed"
    assert requeued(limited, use(11, used=(3, 0))) == ["j3", "j4", "j5", "j6"], "the limit was raised"


def test_after_one_more_is_kept_out_it_is_looked_at_again_whatever_was_seen() -> None:
    limited = kept_out(work("a"))
    assert requeued(limited, use(5)) == ["a"]
    limited.add(work("b"))
    assert requeued(limited, use(5)) == ["b"]


def test_a_gang_wants_room_for_all_of_it_and_other_jobs_for_a_task() -> None:
    limited = kept_out(work("gang", group((2, 1), 3), gang=Gang.YES), work("many", group((2, 1), 9), order=1))
    assert requeued(limited, use(5)) == ["many"]
    assert requeued(limited, use(6)) == ["gang"]


def test_jobs_admitted_are_counted_and_those_that_run_already_are_not() -> None:
    running = work("runs", group((1, 1), 2, unplaced=1), order=9)
    limited = kept_out(*(work(f"j{i}", order=i) for i in range(4)), running)
    assert requeued(limited, use(None, jobs=(3, 3))) == ["runs"]
    assert requeued(limited, use(None, jobs=(1, 3))) == ["j0", "j1"]


@pytest.mark.parametrize(("low", "high", "names"), [(0, 9, ["low"]), (5, 99, ["high"]), (0, 99, ["low", "high"])])
def test_the_range_of_precedence(low: int, high: int, names: list[str]) -> None:
    jobs = [work(name, precedence=precedence) for name, precedence in (("low", 1), ("high", 50))]
    limited = kept_out(*jobs)
    assert requeued(limited, KindUse(Limits((None, None), None, (low, high)), 0, (0, 0))) == names


def in_pool(name: str, pool: str, order: int = 0, count: int = 2) -> Work:
    return work(name, group((2, 1), count), order=order, spec={"pool": pool, "user": "ada"})


def test_limits_of_pools_admit_what_all_pools_of_a_chain_leave() -> None:
    pools = Pools((
        Pool("top", number=1, limits={"cpu": 10}), Pool("a", "top", number=2, limits={"tasks": 3}),
        Pool("b", "top", number=3), Pool("c", number=4),
    ), version=5)  # fmt: skip
    names = ("xa", "a"), ("yb", "b"), ("zc", "c"), ("va", "a"), ("ub", "b")
    limited = kept_out(*(in_pool(name, pool, at) for at, (name, pool) in enumerate(names)))

    def left(top: int, a: int) -> PoolRoom:
        uses = PoolUse(1, 1, (top, 0), (None, None, 10, None)), PoolUse(1, a, (0, 0), (None, 3, None, None))
        return PoolRoom(pools, dict(zip(("top", "a"), uses, strict=True)))

    def now(top: int, a: int) -> list[tuple[str, list[int] | None]]:
        return [(found.id, found.admitted) for found in limited.requeue(use(None), None, left(top, a))]

    assert now(10, 3) == [("zc", [2])], "it is in no pool that carries limits"
    assert now(10, 3) == [], "nothing changed"
    assert now(4, 2) == [("xa", [1]), ("yb", [2])], "one task by the limit of a, three by that of top"
    assert now(6, 2) == [("va", [1]), ("ub", [1])], "what is requeued together fits together"


@pytest.mark.parametrize(("running", "admits"), [(0, [3]), (1, [3]), (2, [0]), (3, [0])])
def test_a_pool_with_a_limit_of_two_jobs_admits_what_is_left_of_them(running: int, admits: list[int]) -> None:
    """A job that has running tasks is one of them already."""
    pools = Pools((Pool("p", number=1, limits={"jobs": 2}),), version=1)
    room = PoolRoom(pools, {"p": PoolUse(running, 0, (0, 0), (2, None, None, None))})
    found = in_pool("a", "p", 0)
    needs = [each.need for each in found.job.groups]
    assert admitted(room.of(found), needs, [3], fresh=True) == admits
    assert admitted(room.of(found), needs, [3], fresh=False) == [3]
    occupy(room.of(found), needs, [3], fresh=True)
    assert admitted(room.of(found), needs, [3], fresh=True) == ([3] if running == 0 else [0])


def test_groups_of_a_job_share_what_the_limits_of_its_pool_leave() -> None:
    pools = Pools((Pool("p", number=1, limits={"tasks": 5}),), version=1)
    room = PoolRoom(pools, {"p": PoolUse(1, 2, (0, 0), (None, 5, None, None))})
    found = work("a", group((1, 1), 2), group((1, 1), 2), spec={"pool": "p"})
    needs = [each.need for each in found.job.groups]
    assert admitted(room.of(found), needs, [2, 2], fresh=False) == [2, 1]
    assert admitted(room.of(found), needs, [2, 2], fresh=False) == [2, 1], "it deducts nothing"
    occupy(room.of(found), needs, [2, 1], fresh=False)
    assert admitted(room.of(found), needs, [2, 2], fresh=False) == [0, 0]
