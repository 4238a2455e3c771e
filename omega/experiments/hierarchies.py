"""Hierarchical dominant resource fairness while tasks end: the failure of the naive form, and what its successor gains.

Per step a part of what jobs hold ends, and is given out again by the method, with divisible demand.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from statistics import fmean

from omega import pools

METHODS = ("naive-hdrf", "min-satisfaction-hdrf")
ENDING = 0.1
"""Part of the tasks of every job of a random tree that end in one step."""
STEPS = 60
RESTART = 20
"""Step at which the job of the example loses all its tasks."""
RESTARTS = 0.03
"""Probability that a job of a random tree restarts at a step."""
TREES = 40
Usage = Mapping[str, Mapping[str, float]]


def example() -> pools.Tree:
    """Return the lecture's tree: job n1 beside a pool of two jobs with different resources."""
    jobs = [
        pools.Job("n1", pools.ROOT, {"gpu": 10}),
        pools.Job("n2.1", "n2", {"cpu": 10}),
        pools.Job("n2.2", "n2", {"gpu": 10}),
    ]
    return pools.Tree({"cpu": 10, "gpu": 10}, [pools.Pool("n2")], jobs)


def over_time(tree: pools.Tree, method: str, restarts: Sequence[Sequence[str]], ending: float = ENDING) -> list[Usage]:
    """Return the shares of all elements after each step; at step i the jobs `restarts[i]` lose all tasks."""
    held: dict[str, dict[str, float]] = {job.name: {} for job in tree.jobs}
    history = list[Usage]()
    for lost in restarts:
        jobs = [
            replace(
                job,
                usage={
                    name: 0.0 if job.name in lost else amount * (1 - ending) for name, amount in held[job.name].items()
                },
            )
            for job in tree.jobs
        ]
        elements = pools.computed(replace(tree, jobs=jobs), method=method)["elements"]
        shares = {name: of["fair_share"] for name, of in elements.items()}
        held = {
            job.name: {
                name: min(share * tree.totals[name], job.demand.get(name, 0.0))
                for name, share in shares[job.name].items()
            }
            for job in tree.jobs
        }
        history.append(shares)
    return history


def random_tree(rng: Random) -> pools.Tree:
    """Return two levels of pools with jobs of different dominant resources that want more than there is."""
    totals = dict.fromkeys(("cpu", "memory", "gpu"), 100)
    inner = [pools.Pool(f"p{number}", weight=rng.choice((1, 2))) for number in range(rng.randint(2, 4))]
    jobs = []
    for number in range(rng.randint(6, 12)):
        shape = {name: rng.choice((0, 0, 1, 2, 4)) for name in totals}
        if not any(shape.values()):
            shape["cpu"] = 1
        demand = {name: 12.0 * amount for name, amount in shape.items()}
        jobs.append(pools.Job(f"j{number}", rng.choice(inner).name, demand))
    return pools.Tree(totals, inner, jobs)


@dataclass(frozen=True, slots=True)
class Gain:
    """What a method reaches over random trees and steps.

    `used`: mean part of the resources that is in use, of those somebody wants; `kept`: mean part of its promise that a
    job holds, at most all of it; `starved`: part of the jobs that hold less than half of their promise. The promise
    is the dominant share by weights, at most the demand.
    """

    method: str
    used: float
    kept: float
    starved: float


def gains(trees: int = TREES, steps: int = STEPS) -> list[Gain]:
    """Compare the methods on the same trees and the same restarts."""
    rows = []
    for method in METHODS:
        used, kept = list[float](), list[float]()
        for number in range(trees):
            rng = Random(f"hierarchies/{number}")
            tree = random_tree(rng)
            restarts = [[job.name for job in tree.jobs if rng.random() < RESTARTS] for _ in range(steps)]
            promised = _promised(tree)
            wanted = [name for name in tree.totals if sum(job.demand.get(name, 0.0) for job in tree.jobs) > 0]
            for shares in over_time(tree, method, restarts):
                used.append(fmean(shares[pools.ROOT][name] for name in wanted))
                kept += [min(1.0, max(shares[name].values()) / share) for name, share in promised.items()]
        rows.append(Gain(method, fmean(used), fmean(kept), fmean(part < 0.5 for part in kept)))
    return rows


def _promised(tree: pools.Tree) -> dict[str, float]:
    """Dominant share that the weights promise to each job, at most its demand."""
    whole = sum(pool.weight or 1.0 for pool in tree.pools if any(job.parent == pool.name for job in tree.jobs))
    promised = {}
    for job in tree.jobs:
        pool = tree.pool(tree.numbers[job.parent])
        siblings = sum(1 for other in tree.jobs if other.parent == job.parent)
        wants = max(job.demand[name] / tree.totals[name] for name in tree.totals)
        promised[job.name] = min((pool.weight or 1.0) / whole / siblings, wants)
    return promised
