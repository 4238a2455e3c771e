"""Fair shares of a full cell with short tasks: three pools of weights 1, 2 and 3, sampled once per second."""

from random import Random

import pytest

from omega.cellstate.pools import Pool
from tests.simulation.pool_ground import Ground

LATEST = 10
WEIGHTS = {"p0": 1.0, "p1": 2.0, "p2": 3.0}
CHAOS = pytest.mark.chaos
SAMPLED_AT = 0.53
"""Part of a second: nothing else happens at such times."""


def deviations(schedulers: int, begin: float, slots: int, seconds: int) -> list[float]:
    """Return the largest distance of a pool from its share, in points, once per second after all jobs are there.

    Tasks run for 2 to 20 s. With a `begin` (seconds) the first pool fills the cell before the others come.
    """
    rng = Random("tasks of 2 to 20 s")
    made = Ground([Pool(name, weight=weight) for name, weight in WEIGHTS.items()], slots // 4, schedulers=schedulers)
    for pool in WEIGHTS:
        for _ in range(60):
            made.job(pool, round(0.12 * slots), at=0.0 if pool == "p0" else begin, seconds=2 + 18 * rng.random())
    times = [begin + second + SAMPLED_AT for second in range(seconds)]
    story = made.run(begin + seconds, watch=times)
    found = []
    for at in times:
        held = dict.fromkeys(WEIGHTS, 0)
        for job, tasks in story.seen[at].items():
            held[job.partition("-")[0]] += tasks
        parts = ((held[pool] / slots, weight / sum(WEIGHTS.values())) for pool, weight in WEIGHTS.items())
        found.append(max(100 * abs(has - share) for has, share in parts))
    return found


@pytest.mark.parametrize(("schedulers", "begin", "slots", "seconds"), [
    (1, 10.3, 300, 30),
    *(pytest.param(n, begin, 1_000, 60, marks=CHAOS) for n in (1, 4, 8) for begin in (0.0, 10.3)),
])  # fmt: skip
def test_shares_within_two_points_after_ten_seconds_and_never_four_outside(
    schedulers: int, begin: float, slots: int, seconds: int
) -> None:
    found = deviations(schedulers, begin, slots, seconds)
    assert min(found[:LATEST]) <= 2
    assert max(found[LATEST:]) <= 4
