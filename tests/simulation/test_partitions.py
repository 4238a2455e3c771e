"""Evictions by the partition of jobs' tasks: within a pool, in stages, and everywhere with an option (rules 10, 11)."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from omega.cellstate.model import Gang
from omega.cellstate.pools import Pool, PreemptionSettings
from omega.schedulers.preemption.fair_share import FairSharePreemption
from tests.simulation.pool_ground import Ground, PoolRun

FAIR = PreemptionSettings(starvation_timeout=1.0, starvation_tolerance=1.0, backoff=0.5)
STAGED = replace(FAIR, aggressive_starvation=True, aggressive_starvation_timeout=6.0, aggressive_threshold=0.25)


def late_job(
    preemption: PreemptionSettings, *, schedulers: int = 1, memory: int = 0
) -> PoolRun:  # fmt: skip
    """One pool: a job holds all 24 slots from the beginning, another one comes after 6 s."""
    ground = Ground([Pool("p")], 6, preemption=preemption, schedulers=schedulers, memory=memory)
    ground.job("p", 24)
    ground.job("p", 24, at=6.0)
    return ground.run(20, watch=[5.9, 6.5])


@pytest.mark.parametrize("schedulers", [1, 4])
def test_jobs_of_a_pool_share_it(schedulers: int) -> None:
    story = late_job(FAIR, schedulers=schedulers)
    assert (story.placed("p-0"), story.placed("p-1"), story.evicted) == (12, 12, 12)
    assert story.evictions[6.5] == 0, "it starves first"


def test_a_threshold_protects_more() -> None:
    assert late_job(replace(FAIR, threshold=1.5)).placed("p-1") == 6
    assert late_job(replace(FAIR, threshold=1000.0)).placed("p-1") == 0


def test_protected_amounts_stay() -> None:
    assert late_job(replace(FAIR, non_preemptible_usage={"cpu": 20_000})).placed("p-1") == 4
    assert late_job(replace(FAIR, non_preemptible_usage={"memory": 1}), memory=8).placed("p-1") == 0, "cpu: all"


def test_a_lower_precedence_takes_nothing_and_loses_all() -> None:
    ground = Ground([Pool("p")], 6, preemption=FAIR, by_precedence=True)
    ground.job("p", 24, precedence=5)
    ground.job("p", 24, at=6.0, precedence=1)
    assert ground.run(20).evicted == 0
    ground = Ground([Pool("p")], 6, preemption=FAIR, by_precedence=True)
    ground.job("p", 24, precedence=1)
    ground.job("p", 20, at=6.0, precedence=5)
    assert ground.run(20).placed("p-1") == 20, "precedence first, whatever the shares"


def fifo(gang: Gang, urgent: int) -> PoolRun:
    """A FIFO pool: the second job is due nothing while the first wants all, so its tasks are preemptible."""
    ground = Ground([Pool("p", mode="fifo")], 6, preemption=FAIR)
    ground.job("p", 24, at=0.0, seconds=3)
    ground.job("p", 24, gang=gang)
    ground.job("p", urgent, at=12.0, precedence=1)
    return ground.run(24)


@pytest.mark.parametrize(("gang", "urgent", "gone"), [(Gang.NO, 6, 6), (Gang.STRICT, 6, 0), (Gang.STRICT, 24, 24)])
def test_in_a_fifo_pool_the_later_job_gives_way(gang: Gang, urgent: int, gone: int) -> None:
    """A strict gang goes only when none of its tasks is within its share."""
    story = fifo(gang, urgent)
    assert (story.placed("p-1"), story.placed("p-2"), story.evicted) == (24 - gone, gone, gone)


def test_a_pool_may_forbid_it() -> None:
    assert late_job(replace(FAIR, allow_regular_preemption=False)).evicted == 0


def scattered(
    preemption: PreemptionSettings, pools: tuple[str, str] = ("p", "p"), *, everywhere: bool = False
) -> PoolRun:
    """A job has a task on each of two machines, all that it wants; a second one wants a whole machine of its share."""
    ground = Ground([Pool(name) for name in dict.fromkeys(pools)], 2, 4, preemption=preemption, memory=8)
    ground.everywhere = everywhere
    ground.job(pools[0], 2, memory=8)
    ground.job(pools[1], 1, at=6.0, slots=4)
    return ground.run(20, watch=[11.9])


def test_the_aggressive_stage_takes_aggressively_preemptible_tasks() -> None:
    assert scattered(FAIR).evicted == 0, "a job that has all its demand as its share loses nothing in the normal stage"
    story = scattered(STAGED)
    assert story.evictions[11.9] == 0, "not before the aggressive timeout"
    assert (story.placed("p-0"), story.placed("p-1"), story.evicted) == (1, 1, 1)
    assert scattered(replace(STAGED, aggressive_threshold=0.75)).evicted == 0, "the second task crosses that bound"
    assert scattered(replace(STAGED, allow_aggressive_preemption=False)).evicted == 0


def test_regular_preemption_forbidden_does_not_keep_the_aggressive_stage_out() -> None:
    assert scattered(replace(STAGED, allow_regular_preemption=False)).placed("p-1") == 1


def test_the_newest_tasks_go() -> None:
    """Three jobs began one after the other; of the first two the younger half goes, and nothing twice."""
    ground = Ground([Pool("p")], 6, preemption=FAIR)
    ground.job("p", 12)
    ground.job("p", 12, at=0.5)
    ground.job("p", 24, at=8.0)
    story = ground.run(22)
    assert [story.placed(f"p-{i}") for i in range(3)] == [8, 8, 8]
    assert story.evicted == 8
    runs = [run for job in story.simulation.store.cell.jobs.all() if job.id != "p-2" for run in job.groups[0].runs]
    assert len({machine for _, machine, _ in runs}) <= 6


def test_everywhere_partitions_decide_between_pools() -> None:
    """Two pools of equal weight, 16 slots: of the two jobs of the first each keeps its share."""
    for everywhere in (True, False):
        ground = Ground([Pool("a"), Pool("b")], 4, preemption=FAIR, everywhere=everywhere)
        ground.job("a", 8)
        ground.job("a", 8, at=0.5)
        ground.job("b", 16, at=8.0)
        story = ground.run(24)
        assert [story.placed(job) for job in ("a-0", "a-1", "b-2")] == [4, 4, 8]


def test_everywhere_the_aggressive_stage_reaches_other_pools() -> None:
    """Between pools the rule on sets keeps the victim's pool at its share; the partition goes down to the threshold."""
    for everywhere, placed in ((True, 1), (False, 0)):
        assert scattered(STAGED, ("a", "b"), everywhere=everywhere).placed("b-1") == placed


def test_everywhere_an_upper_pool_that_starves_takes_its_own_deficit() -> None:
    """Pool `a` lacks 2 of its 8 slots, and `a1` below it 4, as `a2` holds 6; only `a` starves, others hold 4 more."""
    patient = PreemptionSettings(starvation_timeout=1000.0)
    pools = [Pool("a"), Pool("a1", "a", preemption=patient), Pool("a2", "a"), Pool("d", preemption=patient),
             Pool("b"), Pool("c")]  # fmt: skip
    ground = Ground(pools, 8, preemption=FAIR, everywhere=True)
    for pool, tasks in ("a2", 6), ("d", 6), ("b", 10), ("c", 10):
        ground.job(pool, tasks)
    late = [ground.job(pool, 8, at=6.0) for pool in ("a1", "d")]
    story = ground.run(20)
    assert [story.share(pool) for pool in ("a", "a1", "a2", "d", "b", "c")] == pytest.approx([8, 4, 4, 8, 8, 8])
    assert ([story.placed(job) for job in late], story.evicted) == ([2, 0], 2)


def test_a_job_of_a_starving_pool_takes_nothing_of_its_siblings_before_it_starves_itself() -> None:
    """Pool `p` has lacked slots for 9 s, which `q` keeps; its second job lacks a slot that the first has too many."""
    slow = replace(FAIR, starvation_timeout=3.0)
    pools = [Pool("p"), Pool("q", preemption=replace(slow, allow_regular_preemption=False))]
    ground = Ground(pools, 4, preemption=slow)
    for pool, tasks, at in ("q", 11, 0.0), ("p", 16, 0.5), ("p", 16, 10.0):
        ground.job(pool, tasks, at=at)
    story = ground.run(20, watch=[12.5])
    assert (story.evictions[12.5], story.evicted) == (0, 1)
    assert (story.placed("p-1"), story.placed("p-2")) == (4, 1)


@pytest.mark.parametrize("everywhere", [False, True])
@pytest.mark.parametrize("held", [("short", "long"), ("long", "short")])
def test_a_job_is_tried_again_at_the_first_time_at_which_a_victim_may_go(everywhere: bool, held: Sequence[str]) -> None:
    """Tasks that are known from 7 s on stay for 10 s, or for 40; until the first may go nothing else happens."""
    long = replace(FAIR, minimum_runtime=40.0)
    pools = [Pool("short"), Pool("long", preemption=long), Pool("late")]
    ground = Ground(pools, 6, preemption=replace(FAIR, minimum_runtime=10.0), everywhere=everywhere)
    for pool in held:
        ground.job(pool, 12)
    ground.job("late", 12, at=6.0)
    story = ground.run(20, watch=[17.0, 17.6])
    assert (story.evictions[17.0], story.evictions[17.6]) == (0, 4)


def test_a_scheduler_reports_starving_pools() -> None:
    """A pool that waits for its timeout is not starving, one that may evict is."""
    seen = {}
    for timeout in (60.0, 1.0):
        ground = Ground([Pool("a", preemption=PreemptionSettings(allow_regular_preemption=False)), Pool("b")], 4)
        ground.preemption = replace(FAIR, starvation_timeout=timeout)
        ground.job("a", 16)
        ground.job("b", 16, at=2.0)
        story = ground.run(8)
        preemption = story.simulation.simulated_schedulers[0].scheduler.preemption
        assert isinstance(preemption, FairSharePreemption)
        seen[timeout] = preemption.starving()
    assert seen == {60.0: {}, 1.0: {"b": "starving"}}
