"""Jobs of one pool share it, whatever the number of schedulers (docs/shares-of-jobs.md)."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from omega.cellstate.model import Gang
from omega.cellstate.pools import Pool
from tests.simulation.pool_ground import QUICK, Ground, PoolRun

CHAOS = pytest.mark.chaos
SEVERAL = pytest.mark.parametrize("schedulers", [1, 4, pytest.param(8, marks=CHAOS)])
EVICTING = replace(QUICK, threshold=None)
"""Jobs of one pool may evict tasks of each other by their shares."""
SHORT = 2.0, 20.0


def ground(schedulers: int, slots: int, lengths: tuple[float, float] | None = None, mode: str = "fair_share") -> Ground:
    """One pool over machines of one slot."""
    return Ground([Pool("p", mode=mode)], slots, 1, schedulers=schedulers, preemption=EVICTING, lengths=lengths)


def held(story: PoolRun, jobs: Sequence[str]) -> list[list[int]]:
    """The running tasks of jobs at each time that was watched."""
    return [[seen.get(job, 0) for job in jobs] for seen in story.seen.values()]


@SEVERAL
@pytest.mark.parametrize(("slots", "jobs"), [
    (40, 10), (45, 10), (40, 30), pytest.param(400, 10, marks=CHAOS), (400, 30),
])  # fmt: skip
def test_equal_jobs_of_long_tasks_differ_by_one_task(schedulers: int, slots: int, jobs: int) -> None:
    at = ground(schedulers, slots)
    names = [at.job("p", 2 * slots) for _ in range(jobs)]
    story = at.run(6, watch=[2.0, 3.5, 5.9])
    for tasks in held(story, names):
        assert (sum(tasks), max(tasks) - min(tasks)) == (slots, 1 if slots % jobs else 0)
    assert story.evicted == 0


@SEVERAL
@pytest.mark.parametrize(("slots", "jobs"), [
    (40, 10), (45, 10), pytest.param(40, 30, marks=CHAOS), pytest.param(400, 10, marks=CHAOS),
    pytest.param(400, 30, marks=CHAOS),
])  # fmt: skip
def test_equal_jobs_of_short_tasks_differ_by_two_and_leave_no_room_idle(schedulers: int, slots: int, jobs: int) -> None:
    at = ground(schedulers, slots, SHORT)
    names = [at.job("p", 20 * slots) for _ in range(jobs)]
    story = at.run(30, watch=[2 + 0.25 * sample for sample in range(110)])
    samples = held(story, names)
    spreads = sorted(max(tasks) - min(tasks) for tasks in samples)
    assert spreads[-1] <= 4
    assert spreads[int(0.99 * len(spreads)) - 1] <= (3 if slots > 100 else 2)
    assert sum(sum(tasks) for tasks in samples) >= 0.99 * slots * len(samples)
    assert story.evicted == 0


@SEVERAL
@pytest.mark.parametrize("lengths", [None, SHORT], ids=["long", "short"])
def test_a_fifo_pool_keeps_its_order(schedulers: int, lengths: tuple[float, float] | None) -> None:
    at = ground(schedulers, 40, lengths, "fifo")
    names = [at.job("p", 15 if lengths is None else 100) for _ in range(4)]
    story = at.run(12, watch=[2.0, 5.0, 8.0, 11.9])
    for tasks in held(story, names):
        assert tasks == ([15, 15, 10, 0] if lengths is None else [40, 0, 0, 0])
    assert story.evicted == 0


@SEVERAL
def test_jobs_of_higher_precedence_come_first_and_those_of_one_precedence_share(schedulers: int) -> None:
    at = ground(schedulers, 40)
    names = [at.job("p", 15, precedence=number % 3) for number in range(6)]
    story = at.run(4, watch=[2.0, 3.9])
    assert held(story, names) == [[0, 5, 15, 0, 5, 15]] * 2
    assert story.evicted == 0


@SEVERAL
def test_the_room_of_a_job_that_ended_goes_to_its_siblings(schedulers: int) -> None:
    at = ground(schedulers, 40)
    short = [at.job("p", 10, seconds=4) for _ in range(2)]
    names = [at.job("p", 90) for _ in range(2)]
    story = at.run(7, watch=[3.0, 6.5])
    before, after = held(story, [*short, *names])
    assert before == [10] * 4
    assert sum(after) == 40
    assert abs(after[2] - after[3]) <= 8, "20 slots were freed at once, before the next epoch"
    assert story.evicted == 0


@SEVERAL
def test_a_job_alone_takes_all_room_at_once_and_one_task_of_each_waits_for_nobody(schedulers: int) -> None:
    at = ground(schedulers, 40)
    alone = at.job("p", 90)
    assert at.run(0.5).placed(alone) == 40
    at = ground(schedulers, 40, (0.9, 1.1))
    for _ in range(300):
        at.job("p", 1)
    story = at.run(6, watch=[2 + 0.1 * sample for sample in range(40)])
    assert sum(sum(seen.values()) for seen in story.seen.values()) >= 0.97 * 40 * 40


@SEVERAL
def test_jobs_of_several_resources_and_gangs_share_as_well(schedulers: int) -> None:
    at = Ground([Pool("p")], 40, 1, schedulers=schedulers, preemption=EVICTING, memory=4_000)
    large = [at.job("p", 90, slots=0.25, memory=2_000) for _ in range(4)]
    small = [at.job("p", 90, slots=0.25, memory=1_000) for _ in range(4)]
    gangs = [at.job("p", 4, slots=0.25, memory=1_000, gang=Gang.STRICT) for _ in range(2)]
    story = at.run(5, watch=[2.0, 4.9])
    for tasks in held(story, large), held(story, small), held(story, gangs):
        assert all(max(sample) - min(sample) <= 2 for sample in tasks)
        assert all(min(sample) >= 4 for sample in tasks)
    assert story.evicted == 0


@SEVERAL
@pytest.mark.parametrize(("pool", "seconds"), [("p", 0.1), ("q", 1.6)])
def test_an_important_job_behind_blocked_jobs_of_other_room(schedulers: int, pool: str, seconds: float) -> None:
    """One slot of each machine is free; a thousand jobs of 300 shapes need more.

    It waits 100 ms at most; in a pool above its share until the others were tried and a second longer: room is kept for
    them.
    """
    at = Ground([Pool("p"), Pool("q")], 20, 4, schedulers=schedulers)
    at.job("q", 20, slots=3)
    for number in range(1_000):
        at.job("p", 1, slots=2 + 0.001 * (number % 300), at=1.0)
    important = at.job(pool, 1, precedence=9, at=4.037)
    assert at.run(4.037 + seconds).placed(important) == 1
