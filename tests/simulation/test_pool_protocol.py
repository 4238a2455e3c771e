"""Fair sharing by several schedulers at once, without a central allocator: what a model of the protocol showed."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from omega.cellstate.model import Gang, JobSpec, TaskGroup
from omega.cellstate.pools import Pool
from omega.schedulers.instruments import Figures
from omega.workload.workload import Arrival
from tests.simulation.pool_ground import QUICK, SLOT, Ground, PoolRun

CHAOS = pytest.mark.chaos
SEVERAL = pytest.mark.parametrize("schedulers", [pytest.param(1, marks=CHAOS), 4, pytest.param(8, marks=CHAOS)])
ORDERS = pytest.mark.parametrize("newest_first", [True, False], ids=["newest first", "spread"])


def equal(pools: int, slots: float) -> Mapping[str, float]:
    return {f"p{i}": slots / pools for i in range(pools)}


@pytest.mark.parametrize(("schedulers", "slots"), [
    (1, 60), (4, 60), (8, 60), *(pytest.param(n, 400, marks=CHAOS) for n in (1, 4, 8)),
])  # fmt: skip
@ORDERS
def test_late_burst(schedulers: int, slots: int, newest_first: bool) -> None:
    """Three pools, one holds all slots until the others come: shares within 10 s, and nothing is undone."""
    ground = Ground([Pool(f"p{i}") for i in range(3)], slots // 4, schedulers=schedulers, newest_first=newest_first)
    for i in range(3):
        for _ in range(4):
            ground.job(f"p{i}", slots, at=3.3 if i else 0.0)
    story = ground.run(14)
    assert story.within(equal(3, slots)) <= 3.3 + 10
    assert slots * 2 // 3 - 1 <= story.evicted <= slots * 2 // 3 + 4
    assert max(story.peak("p1"), story.peak("p2")) <= 2


@SEVERAL
@pytest.mark.parametrize(("slots", "sure"), [(68, 18), pytest.param(100, 26, marks=CHAOS)])
def test_shares_that_are_no_multiples_of_a_task_undo_nothing(schedulers: int, slots: int, sure: int) -> None:
    """Every pool stays within a task of its share, and no task is evicted that was started for a pool just before."""
    pools = [Pool("p0"), Pool("p1", guarantee={"cpu": sure * 1_000}), Pool("p2")]
    ground = Ground(pools, slots // 4, schedulers=schedulers)
    for i in range(3):
        for _ in range(4):
            ground.job(f"p{i}", slots // 2, at=3.3 if i else 0.0)
    story = ground.run(12)
    assert story.share("p0") % 1 == pytest.approx(2 / 3)
    assert all(abs(story.held(f"p{i}") - story.share(f"p{i}")) < 1 for i in range(3))
    assert story.evicted == slots - story.held("p0")


def test_a_whole_task_goes_from_pools_that_exceed_their_shares_by_a_part_of_one() -> None:
    """Of 4 slots, 1.5 are the share of each of two pools: each holds 2. The third comes late."""
    ground = Ground([Pool("p0", weight=3.0), Pool("p1", weight=3.0), Pool("p2", weight=2.0)], 1)
    for i in range(3):
        ground.job(f"p{i}", 4, at=3.3 if i == 2 else 0.0)
    story = ground.run(12)
    assert (sorted(story.held(f"p{i}") for i in range(2)), story.held("p2"), story.evicted) == ([1, 2], 1, 1)


@SEVERAL
def test_jobs_alike_reach_the_share_of_their_pool_one_after_the_other(schedulers: int) -> None:
    """Nine of ten equal jobs are blocked beside the first without an attempt; each has its turn to evict."""
    ground = Ground([Pool("p0"), Pool("p1")], 15, schedulers=schedulers)
    for i in range(2):
        for _ in range(10):
            ground.job(f"p{i}", 12, at=3.3 if i else 0.0)
    story = ground.run(14)
    assert story.held("p1") == 30


@SEVERAL
def test_half_of_many_pools_come_late(schedulers: int) -> None:
    ground = Ground([Pool(f"p{i}") for i in range(12)], 15, schedulers=schedulers)
    for i in range(12):
        for _ in range(3):
            ground.job(f"p{i}", 30, at=0.0 if i < 6 else 5.3)
    story = ground.run(14, watch=[5.2])
    assert story.within(equal(12, 60)) <= 5.3 + 10
    assert story.evicted - story.evictions[5.2] <= 32, "30 for the late pools"


@SEVERAL
@ORDERS
def test_small_shares(schedulers: int, newest_first: bool) -> None:
    """Pools with a share of 1.5 slots: each holds one or two."""
    ground = Ground([Pool(f"p{i}") for i in range(12)], 6, 3, schedulers=schedulers, newest_first=newest_first)
    for i in range(12):
        ground.job(f"p{i}", 5, at=0.0 if i < 6 else 5.3)
    story = ground.run(13, watch=[5.2])
    assert {round(story.held(f"p{i}")) for i in range(12)} == {1, 2}
    assert story.evicted - story.evictions[5.2] <= 12


@SEVERAL
def test_shares_below_one_task_are_no_reason_to_change_places(schedulers: int) -> None:
    ground = Ground([Pool(f"p{i}") for i in range(10)], 8, 1, schedulers=schedulers)
    for i in range(10):
        ground.job(f"p{i}", 1 if i < 8 else 2, at=0.0 if i < 8 else 3.3)
    assert ground.run(10).evicted == 0


@SEVERAL
def test_a_strict_gang_is_evicted_as_a_whole(schedulers: int) -> None:
    """Evicting a gang of eight for one task leaves room that evictions do not fill above the share."""
    ground = Ground([Pool("gangs"), Pool("single")], 10, 4, schedulers=schedulers)
    for _ in range(5):
        ground.job("gangs", 8, gang=Gang.STRICT)
    for _ in range(4):
        ground.job("single", 20, at=3.3)
    story = ground.run(14)
    assert round(story.held("gangs")) in (16, 24), "a multiple of the gang, less than one gang below its share"
    assert story.held("single") == pytest.approx(40 - story.held("gangs"))
    assert story.evicted <= 32


@SEVERAL
def test_a_tolerance_does_not_end_starvation(schedulers: int) -> None:
    loose = replace(QUICK, starvation_tolerance=0.8)
    ground = Ground([Pool("p0"), Pool("p1")], 10, schedulers=schedulers, preemption=loose)
    ground.job("p0", 80)
    ground.job("p1", 80, at=3.3)
    assert ground.run(10).within(equal(2, 40)) <= 10


@SEVERAL
def test_short_tasks_reach_their_share_from_free_room(schedulers: int) -> None:
    """All jobs of p1 belong to one scheduler; tasks end all the time, so its share needs no eviction."""
    slow = replace(QUICK, starvation_timeout=30.0)
    ground = Ground([Pool("p0"), Pool("p1")], 10, schedulers=schedulers, preemption=slow)
    for i in range(40):
        ground.job("p0", 20, seconds=1.1 + 0.037 * i)
    for i in range(8):
        ground.job("p1", 60, at=4.0, seconds=1.2 + 0.09 * i, owner=0)
    story = ground.run(12)
    held = [each.usage[0] * 40 for each in story.simulation.clock.samples["p1"] if each.at > 6]
    assert sum(held) / len(held) == pytest.approx(20, abs=3)
    assert story.evicted == 0


@CHAOS
def test_flickering_demand_moves_nobody_twice() -> None:
    ground = Ground([Pool("p0"), Pool("p1")], 25, schedulers=4)
    ground.job("p0", 400)
    for at in (5, 25, 45):
        ground.job("p1", 60, at=at, seconds=10)
    story = ground.run(60)
    assert story.evicted <= 3 * 52
    assert story.held("p0") + story.held("p1") == pytest.approx(100)


@SEVERAL
def test_damping_does_not_keep_a_pool_from_its_share(schedulers: int) -> None:
    """Tasks run for 5 s at least, and a pool loses at most 40 tasks a minute: its share is 20."""
    damped = replace(QUICK, minimum_runtime=5.0, evictions_per_minute=40)
    ground = Ground([Pool("p0"), Pool("p1")], 10, schedulers=schedulers, preemption=damped)
    ground.job("p0", 80)
    ground.job("p1", 80, at=8.3)
    story = ground.run(24)
    assert story.within(equal(2, 40)) <= 8.3 + 14
    assert story.evicted <= 21


def test_a_budget_bounds_evictions() -> None:
    tight = replace(QUICK, evictions_per_minute=6)
    ground = Ground([Pool("p0"), Pool("p1")], 10, preemption=tight)
    ground.job("p0", 80)
    ground.job("p1", 80, at=3.3)
    assert ground.run(30).evicted == 6


def gang_for_one(cost: float) -> PoolRun:
    """Eight slots of a strict gang would go for single tasks of another pool."""
    ground = Ground([Pool("gangs"), Pool("single")], 4, preemption=replace(QUICK, eviction_cost=cost))
    for _ in range(2):
        ground.job("gangs", 8, gang=Gang.STRICT)
    ground.job("single", 20, at=3.3)
    return ground.run(12)


def test_an_eviction_that_starts_too_little_for_its_cost_is_not_planned() -> None:
    assert gang_for_one(0.0).evicted == 8
    assert gang_for_one(0.1).evicted == 8, "a task for eight"
    assert gang_for_one(0.2).evicted == 0


@pytest.mark.parametrize(("large", "placed", "evicted"), [(2, 3, 3), (3, 0, 0)])
def test_a_gang_of_two_groups_evicts_as_one_set(large: int, placed: int, evicted: int) -> None:
    """Its tasks of one slot and of several take 4 slots of 8, its pool's share, or 5; one slot is free.

    A set that the store would refuse is not sent to it.
    """
    figures = Figures()
    ground = Ground([Pool("a"), Pool("b")], 2, compose=lambda scheduler: replace(scheduler, instruments=[figures]))
    ground.job("a", 7)
    groups = TaskGroup((SLOT, 0), 2, 10**9), TaskGroup((large * SLOT, 0), 1, 10**9)
    ground.jobs.append(Arrival(3.3, JobSpec("gang", "gang", "batch", groups, 0, Gang.YES, {"pool": "b"})))
    story = ground.run(12)
    assert (story.placed("gang"), story.evicted) == (placed, evicted)
    assert figures.unfair == 0
