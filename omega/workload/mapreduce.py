"""MapReduce jobs in a workload: a fifth of the batch jobs, with worker counts as users pick them (Omega §6).

How many workers such a job could use, relative to the request, was not published. That ratio is
drawn from a lognormal distribution fitted to where the paper's figure 15 stands with max-parallelism: 50 to 70 % of
the jobs gain, and at the 80th percentile they are three to four times as fast. These two figures are inputs; the
results are the comparison of policies, and the effect of a fuller cell.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.model import JobSpec, TaskGroup
from omega.cellstate.resources import Resources
from omega.schedulers.sizing import PLAN, Phase, Profile
from omega.workload.workload import DIMENSIONS, Arrival, Workload, array_stream

SHARE = 0.2
"""Of the jobs of a cell, those that are MapReduce (Omega §6)."""
POPULAR = (5, 11, 200, 1_000)
"""How many workers users ask for (Omega §6)."""
RATIO_MEDIAN, RATIO_SIGMA = 1.5, 1.25
"""Maps per worker asked for: the fitted distribution."""
REDUCES_MEDIAN, REDUCES_SIGMA = 0.5, 0.8
"""Reduces per map: a guess; most jobs have fewer reduces than maps."""
MAP_TIME = 0.7
"""Share of its time that a job sized as asked spends on maps: a guess."""
KIND = "batch"


@dataclass(frozen=True, slots=True)
class MapReduceJob:
    """A job: arrival (seconds), requested workers, phases, resources of a worker."""

    at: float
    asked: int
    phases: tuple[Phase, ...]
    need: Resources

    @property
    def seconds(self) -> float:
        """Return the duration with the requested workers."""
        return Profile(self.asked, self.phases).seconds(self.asked) or 0.0


def split(workload: Workload, seed: int, share: float = SHARE) -> tuple[list[Arrival], list[MapReduceJob]]:
    """Make a share of the arriving batch jobs MapReduce jobs; returns the others, and these.

    A job asks for the popular number of workers that is nearest to its tasks and does the same work as before: as
    many worker seconds.
    """
    rng = array_stream(seed, "mapreduce")
    chosen = rng.random(len(workload.arrivals)) < share
    ratios = rng.lognormal(log(RATIO_MEDIAN), RATIO_SIGMA, len(chosen))
    reduces = rng.lognormal(log(REDUCES_MEDIAN), REDUCES_SIGMA, len(chosen))
    others, jobs = [], []
    for arrival, mine, ratio, more in zip(workload.arrivals, chosen, ratios, reduces, strict=True):
        if mine and arrival.job.kind == KIND:
            jobs.append(_job(arrival, float(ratio), float(more)))
        else:
            others.append(arrival)
    return others, jobs


def _job(arrival: Arrival, ratio: float, reduces_per_map: float) -> MapReduceJob:
    group = arrival.job.groups[0]
    asked = min(POPULAR, key=lambda number: abs(log(number / group.count)))
    seconds = max(1.0, group.count * group.duration_ms / 1000 / asked)
    maps = max(1, round(ratio * asked))
    reduces = max(1, round(reduces_per_map * maps))
    phases = tuple(
        Phase(count, share * seconds * min(asked, count) / count)
        for count, share in ((maps, MAP_TIME), (reduces, 1 - MAP_TIME))
    )
    return MapReduceJob(arrival.at_seconds, asked, phases, group.need)


def submitted(jobs: Sequence[MapReduceJob]) -> list[Arrival]:
    """Return the jobs as their users submit them: workers, none beyond those asked for, and how long shards take."""
    return [Arrival(job.at, _spec(f"mapreduce-{i}", job)) for i, job in enumerate(jobs)]


def _spec(name: str, job: MapReduceJob) -> JobSpec:
    maps, reduces = job.phases
    plan = {
        "maps": maps.activities,
        "reduces": reduces.activities,
        "map_ms": round(1000 * (maps.seconds or 0)),
        "reduce_ms": round(1000 * (reduces.seconds or 0)),
    }
    groups = (TaskGroup(job.need, job.asked), TaskGroup(job.need, 0, optional=True))
    return JobSpec(name, name, PLAN, groups, spec={PLAN: plan})


def load(arrivals: Sequence[Arrival], step: float, ticks: int) -> NDArray[np.float64]:
    """Return the resources of all jobs every `step` seconds: (ticks, dimensions). Each task runs from its arrival."""
    dimensions = len(arrivals[0].job.groups[0].need) if arrivals else len(DIMENSIONS)
    changes = np.zeros((ticks + 1, dimensions))
    for arrival in arrivals:
        begin = min(ticks, int(arrival.at_seconds / step))
        for number, group in enumerate(arrival.job.groups):
            need = np.array(group.need, dtype=float)
            changes[begin] += need * group.count
            if arrival.durations:
                ends = (arrival.at_seconds + arrival.durations[number] / 1e6) / step
                np.add.at(changes, np.minimum(ticks, ends.astype(np.int64)), -need)
            else:
                end = (arrival.at_seconds + group.duration_ms / 1000) / step
                changes[min(ticks, int(end))] -= need * group.count
    return changes[:ticks].cumsum(axis=0)
