"""A scheduler's own claims by leaf pool: their sums follow every claim that comes or goes."""

from collections import Counter
from random import Random

import pytest

from omega.cellstate.usage import Usage


@pytest.mark.parametrize("seed", range(20))
def test_sums_of_claims_follow_each_change(seed: int) -> None:
    rng, usage = Random(seed), Usage(1)
    promised, opened, flights = dict[int, tuple[str, int]](), list[tuple[str, int]](), list[list[tuple[str, int]]]()
    seen = set[tuple[int, ...]]()
    for _ in range(300):
        step, pool, key, tasks = rng.randrange(9), rng.choice("ab"), rng.randrange(4), rng.randint(1, 2)
        if step < 3 and key not in promised:
            promised[key] = pool, tasks
            usage.promise((pool, ""), (tasks,), key)
        elif step < 5 and key in promised:
            pool, tasks = promised.pop(key)
            opened.append((pool, tasks))
            usage.take("", pool, (tasks,), key)
        elif step == 5:
            promised = {}
            usage.forget_promises()
        elif step == 6:
            flights.append(opened)
            opened = []
            usage.launch()
        elif step == 7 and flights:
            flights.pop(0)
            usage.land()
        elif step == 8 and rng.random() < 0.3:
            opened = []
            usage.settle()
        sums = Counter[str]()
        for name, count in (each for claims in (promised.values(), opened, *flights) for each in claims):
            sums[name] += count
        assert [usage.claimed_by_leaf(pool) for pool in "abc"] == [(sums[pool],) for pool in "abc"]
        seen.add((sums["a"], sums["b"]))
    assert len(seen) > 9
