"""Fair shares of a full cell with short tasks: three pools of weights 1, 2 and 3, sampled once per second."""

from random import Random

import pytest

from omega.cellstate.pools import Pool
from tests.simulation.pool_ground import Ground

SLOTS, SECONDS, LATEST = 1_000, 60, 10
WEIGHTS = {"p0": 1.0, "p1": 2.0, "p2": 3.0}
SAMPLED_AT = 0.53
"""Part of a second: nothing else happens at such times."""


def deviations(schedulers: int, begin: float) -> list[float]:
    """Return the largest distance of a pool from its share, in points, once per second after all jobs are there.

    Tasks run for 2 to 20 s. With a `begin` (seconds) the first pool fills the cell before the others come.
    """
    rng = Random("tasks of 2 to 20 s")
    made = Ground([Pool(name, weight=weight) for name, weight in WEIGHTS.items()], SLOTS // 4, schedulers=schedulers)
    for pool in WEIGHTS:
        for _ in range(60):
            made.job(pool, 120, at=0.0 if pool == "p0" else begin, seconds=2 + 18 * rng.random())
    times = [begin + second + SAMPLED_AT for second in range(SECONDS)]
    story = made.run(begin + SECONDS, watch=times)
    found = []
    for at in times:
        held = dict.fromkeys(WEIGHTS, 0)
        for job, tasks in story.seen[at].items():
            held[job.partition("-")[0]] += tasks
        parts = ((held[pool] / SLOTS, weight / sum(WEIGHTS.values())) for pool, weight in WEIGHTS.items())
        found.append(max(100 * abs(has - share) for has, share in parts))
    return found


@pytest.mark.parametrize("begin", [0.0, 10.3], ids=["at once", "late"])
@pytest.mark.parametrize(
    "schedulers", [1, pytest.param(4, marks=pytest.mark.chaos), pytest.param(8, marks=pytest.mark.chaos)]
)
def test_shares_within_two_points_after_ten_seconds_and_never_four_outside(schedulers: int, begin: float) -> None:
    found = deviations(schedulers, begin)
    assert min(found[:LATEST]) <= 2
    assert max(found[LATEST:]) <= 4
