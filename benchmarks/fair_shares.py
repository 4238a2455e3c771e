"""Duration of one update of a generated pool tree with all features."""

from random import Random
from statistics import median
from time import perf_counter

from benchmarks.computer import spread
from benchmarks.launch import Document
from omega import pools

RESOURCES = ("cpu", "memory", "gpu", "user_slots")
LEVELS = 3
"""Levels of pools below the root."""
SIZES = ((60, 500), (1_000, 10_000))
"""Pools and jobs of a tree."""
LONG_QUEUE = 2_000
"""Jobs of the one FIFO pool."""
REPEATS = 5


def tree(number: int, jobs: int, seed: int = 1) -> pools.Tree:
    """Make a tree: guarantees on half of the pools, a tenth of the lowest FIFO, a tenth of the jobs gangs."""
    rng = Random(f"{seed}/tree")
    totals = dict.fromkeys(RESOURCES, jobs * 20.0)
    made: list[pools.Pool] = []
    above = [pools.ROOT]
    sizes = [max(1, round(number ** (level / LEVELS))) for level in range(1, LEVELS)]
    for level, size in enumerate([*sizes, number - sum(sizes)]):
        below = []
        for place in range(size):
            name, lowest = f"{level}-{place}", level == LEVELS - 1
            guarantee = {"cpu": totals["cpu"] / size / 2 * rng.random()} if rng.random() < 0.5 else {}
            weight = rng.choice((None, 1, 2, 3))
            mode = "fifo" if lowest and rng.random() < 0.1 else "fair_share"
            made.append(pools.Pool(name, rng.choice(above), weight=weight, guarantee=guarantee, mode=mode))
            below.append(name)
        above = below
    leaves = [_job(rng, place, rng.choice(above)) for place in range(jobs)]
    return pools.Tree(totals, made, leaves, pools.Options(gang_steps=True))


def queue(jobs: int, seed: int = 1) -> pools.Tree:
    """Make one FIFO pool with so many jobs."""
    rng = Random(f"{seed}/queue")
    totals = dict.fromkeys(RESOURCES, jobs * 20.0)
    return pools.Tree(
        totals, [pools.Pool("queue", mode="fifo")], [_job(rng, number, "queue") for number in range(jobs)]
    )


def _job(rng: Random, number: int, parent: str) -> pools.Job:
    tasks, running = rng.randint(1, 60), rng.random()
    each = {name: rng.randint(1, 4) for name in RESOURCES}
    used = int(tasks * running) if running < 0.5 else 0
    demand = {name: float(tasks * amount) for name, amount in each.items()}
    usage = {name: float(used * amount) for name, amount in each.items()}
    weight = rng.choice((None, 1, 2))
    return pools.Job(f"j{number}", parent, demand, usage=usage, weight=weight, gang=rng.random() < 0.1)


def measure_fair_shares() -> list[Document]:
    """Time updates; milliseconds are medians, `spread` the least and the most."""
    cases = [("tree", number, jobs, tree(number, jobs)) for number, jobs in SIZES]
    cases.append(("fifo", 1, LONG_QUEUE, queue(LONG_QUEUE)))
    return [{"shape": shape, "pools": number, "jobs": jobs, **_timed(made)} for shape, number, jobs, made in cases]


def _timed(made: pools.Tree) -> Document:
    took = []
    for _ in range(REPEATS):
        began = perf_counter()
        pools.fair_shares(pools.Tree(made.totals, made.pools, made.jobs, made.options))
        took.append((perf_counter() - began) * 1000)
    return {"milliseconds": round(median(took), 1), "spread": spread(took, 1)}
