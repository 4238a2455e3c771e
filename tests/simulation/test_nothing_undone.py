"""No eviction is undone within 5 s: neither is its victim placed again, nor the task in its room evicted."""

from dataclasses import replace
from random import Random

import pytest

from benchmarks.fair_log import Convergence
from omega.cellstate.pools import Pool
from tests.simulation.pool_ground import QUICK, SLOT, Ground

LATE_SECONDS = 15.3
"""When every other pool comes: what was started by evictions at the beginning then runs for more than 5 s."""


def ground(seed: int, schedulers: int, *, newest_first: bool) -> Ground:
    """Pools with weights and guarantees at random, whose shares are no multiples of a task."""
    rng = Random(f"undone/{seed}")
    count, machines = rng.choice((8, 12, 12, 20)), rng.choice((13, 23, 31))
    rules = replace(
        QUICK, starvation_timeout=rng.choice((1.0, 2.0)), starvation_tolerance=rng.choice((0.8, 1.0)), backoff=0.5
    )
    pools = []
    for number in range(count):
        sure = {"cpu": rng.randint(1, 4 * machines // count) * SLOT} if rng.random() < 0.3 else {}
        pools.append(Pool(f"p{number}", weight=rng.choice((None, 1.0, 2.0, 0.5)), guarantee=sure))
    made = Ground(
        pools,
        machines,
        schedulers=schedulers,
        newest_first=newest_first,
        preemption=rules,
        decision=rng.choice((0.006, 0.02, 0.05)),
    )
    jobs = rng.choice((1, 3, 5))
    for number in range(count):
        for _ in range(jobs):
            made.job(f"p{number}", rng.choice((30, 4 * machines)), at=0.0 if number % 2 else LATE_SECONDS)
    return made


def undone(made: Ground, until: float) -> tuple[int, int]:
    """Evictions, and those that were undone, by the log."""
    story = made.run(until, logged=True)
    log = Convergence(shares={pool.name: story.share(pool.name) for pool in made.pools}, begin_ms=0)
    cell = story.simulation.store.cell
    log.follow(cell.log.facts(), {job.id: str(job.spec["pool"]) for job in cell.jobs.all()})
    return log.evictions, log.undone


@pytest.mark.parametrize("newest_first", [True, False], ids=["newest first", "spread"])
@pytest.mark.parametrize(("seed", "schedulers"), [(0, 4), (1, 4), (2, 4), (2, 8)])
def test_nothing_is_undone(seed: int, schedulers: int, newest_first: bool) -> None:
    evictions, back = undone(ground(seed, schedulers, newest_first=newest_first), 18)
    assert evictions > 0
    assert back == 0


@pytest.mark.chaos
@pytest.mark.parametrize("newest_first", [True, False], ids=["newest first", "spread"])
@pytest.mark.parametrize("schedulers", [4, 8])
def test_of_thousands_of_evictions_at_most_one_in_a_thousand_is_undone(schedulers: int, *, newest_first: bool) -> None:
    found = [undone(ground(seed, schedulers, newest_first=newest_first), 27) for seed in range(20)]
    evictions, back = (sum(each) for each in zip(*found, strict=True))
    assert evictions > 700
    assert back <= evictions / 1_000
