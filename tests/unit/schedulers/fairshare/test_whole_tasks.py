"""Shares of jobs as whole tasks: they sum to the pool's share, whatever the order, the precedences and the needs."""

from collections.abc import Mapping

import pytest

from omega.cellstate.job_demands import JobDemand
from omega.cellstate.lanes import Lane
from omega.cellstate.pools import Pool, Pools, PoolTree
from omega.schedulers.epochs import epoch_of
from omega.schedulers.fairshare.standings import EpochShares
from omega.schedulers.fairshare.whole_tasks import JobShare, shares_of_jobs


def job(
    order: int, pending: int, placed: int = 0, *, precedence: int = 0, gang: bool = False, need: int = 1, least: int = 0
) -> JobDemand:
    lane = Lane("batch", precedence, "p", "")
    return JobDemand(f"j{order}", lane, order, gang, False, (((need, 0), pending, placed),), least=least)


def shares(total: int, *jobs: JobDemand, mode: str = "fair_share") -> Mapping[str, JobShare]:
    pools = Pools((Pool("p", mode=mode),), (PoolTree(),))
    epoch = epoch_of(pools, jobs, {"default": (total, 10)}, ("cpu", "memory"))
    return shares_of_jobs(EpochShares(pools, epoch), "p")


def numbers(total: int, *jobs: JobDemand, mode: str = "fair_share") -> list[float]:
    return [round(each.amounts[0], 6) for each in shares(total, *jobs, mode=mode).values()]


@pytest.mark.parametrize(("total", "jobs"), [(40, 10), (45, 10), (400, 30), (7, 30)])
def test_equal_jobs_differ_by_one_task_and_the_oldest_get_the_rest(total: int, jobs: int) -> None:
    found = numbers(total, *(job(order, 400) for order in range(jobs)))
    assert found == sorted(found, reverse=True)
    assert (sum(found), max(found) - min(found)) == (total, 1 if total % jobs else 0)


def test_a_job_that_wants_no_more_has_what_it_holds_and_the_others_the_rest() -> None:
    assert numbers(12, job(0, 0, 2), job(1, 9), job(2, 9)) == [2, 5, 5]


def test_the_share_of_a_pool_is_rounded_to_tasks() -> None:
    assert numbers(9, job(0, 9, need=4), job(1, 9, need=4)) == [4, 4]
    found = shares(10, job(0, 9, need=4), job(1, 9, need=4))
    assert [each.amounts[0] for each in found.values()] == pytest.approx([8, 4])


def test_a_fifo_pool_serves_its_jobs_in_order() -> None:
    found = shares(40, *(job(order, 15) for order in range(4)), mode="fifo")
    assert [each.amounts[0] for each in found.values()] == pytest.approx([15, 15, 10, 0])
    assert [each.ahead for each in found.values()] == [0, 1, 2, 3]


def test_higher_precedence_comes_first_and_jobs_of_one_precedence_share() -> None:
    jobs = [job(order, 15, precedence=order % 3) for order in range(6)]
    found = shares(40, *jobs)
    assert {name: each.amounts[0] for name, each in found.items()} == pytest.approx(
        {"j2": 15, "j5": 15, "j1": 5, "j4": 5, "j0": 0, "j3": 0}
    )
    assert {name: each.ahead for name, each in found.items()} == {"j2": 0, "j5": 0, "j1": 1, "j4": 1, "j0": 2, "j3": 2}
    assert found["j0"].starting[0] == pytest.approx(40), "all room is for the others at first"


def test_a_job_leaves_room_only_to_those_that_start_a_task_for_each_that_ends() -> None:
    found = shares(4, *(job(order, 1) for order in range(9)))
    assert not any(each.rivals for each in found.values()), "single tasks: whoever comes next takes the room"
    assert all(each.rivals for each in shares(4, job(0, 9), job(1, 9)).values())


def test_a_gang_may_start_as_a_whole_while_some_of_the_share_is_left() -> None:
    assert numbers(10, job(0, 8, gang=True), job(1, 9)) == [8, 5]
    assert numbers(10, job(0, 8, gang=True), job(1, 8, gang=True), job(2, 8, gang=True)) == [8, 0, 0]


@pytest.mark.parametrize(
    ("total", "jobs", "expected"),
    [
        (10, [job(0, 20, least=8), job(1, 9)], [8, 5]),
        (10, [job(0, 20, least=8), job(1, 20, least=8)], [8, 0]),
        (20, [job(0, 20, least=8), job(1, 20)], [10, 10]),
        (10, [job(0, 15, 5, least=8), job(1, 20)], [5, 5]),
        (30, [job(0, 12, 8, least=8), job(1, 20)], [15, 15]),
    ],
)
def test_a_gang_with_a_minimum_may_start_with_it_and_shares_what_is_more(
    total: int, jobs: list[JobDemand], expected: list[float]
) -> None:
    assert numbers(total, *jobs) == expected


@pytest.mark.parametrize(("total", "expected"), [(12, [0, 8]), (15, [0, 8]), (17, [8.5, 8.5]), (30, [15, 15])])
def test_with_steps_its_share_is_nothing_or_that_of_its_minimum_at_least(total: int, expected: list[float]) -> None:
    pools = Pools((Pool("p"),), (PoolTree(gang_steps=True),))
    epoch = epoch_of(
        pools, (job(0, 20, least=8), job(1, 20)), {"default": (total, 10)}, ("cpu", "memory")
    )  # fmt: skip
    due = {each: round(share[0] * total, 6) for each, share in epoch.jobs.items()}
    assert [due["j0"], due["j1"]] == expected
