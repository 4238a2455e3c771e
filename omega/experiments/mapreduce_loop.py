"""The sizing policies in the simulator: the scheduler that runs live, on single machines, beside batch and service.

It is slow, because it resizes every running job each second. It checks the quick model (mapreduce.py), which uses sums
and arbitrarily small shards.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from omega.experiments.mapreduce import POLICIES, PolicyResult
from omega.schedulers.placement.first_fit import RandomFit
from omega.schedulers.scheduler import Scheduler
from omega.schedulers.sizing import PLAN
from omega.simulation import Result, Settings, Simulation
from omega.simulation.changing import ChangingWorld
from omega.workload.mapreduce import split, submitted
from omega.workload.workload import Workload


def looped(
    workload: Workload, seed: int, days: float, policies: Iterable[str] = POLICIES
) -> Iterator[tuple[str, Mapping[str, float], Result]]:
    """Simulate a workload with MapReduce jobs sized by each policy; yield the durations of ended jobs (seconds).

    A job runs from its arrival to the end of its last shard.
    """
    others, jobs = split(workload, seed)
    arrivals = sorted([*others, *submitted(jobs)], key=lambda arrival: arrival.at_seconds)
    settings = Settings(days=days, seed=seed)
    t_job, t_task = settings.decision_time("batch")
    for name in policies:
        own = Scheduler(PLAN, placement=RandomFit(), sizing=POLICIES[name], jobs_per_call=1, t_job=t_job, t_task=t_task)
        simulation = Simulation(replace(workload, arrivals=arrivals), settings, own=own)
        result = simulation.run()
        world = simulation.world
        yield name, world.worker_pools.seconds() if isinstance(world, ChangingWorld) else {}, result


def loop_outcomes(workload: Workload, seed: int, days: float) -> Iterator[PolicyResult]:
    """As `evaluate`, from simulations; of use over time only the mean is known."""
    asked: Mapping[str, float] | None = None
    for name, took, result in looped(workload, seed, days):
        asked = took if asked is None else asked
        yield PolicyResult(name, speedups(took, asked), np.array([list(result.utilisation.values())]))


def speedups(took: Mapping[str, float], asked: Mapping[str, float]) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Return the speed-ups of jobs that ended in both simulations."""
    return np.array([asked[job] / took[job] for job in asked if job in took])
