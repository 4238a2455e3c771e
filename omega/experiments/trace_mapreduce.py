"""Figures 15 and 16 of the Omega paper from a trace: sizing policies on stand-ins for the cells A, C and D (§6).

The cell is its sums (mapreduce.py). MapReduce jobs come from a file of SWIM, or are a fifth of the cell's batch jobs.
No trace holds worker counts: users ask for one of the counts that the paper calls frequent, each equally often.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from omega.experiments.bootstrap import Interval, of_sample
from omega.experiments.mapreduce import GAIN, POLICIES, PolicyResult, run_policy
from omega.experiments.trace_run import TraceRun
from omega.schedulers.sizing import Phase
from omega.traces.swim import MAP_SECONDS, REDUCE_SECONDS, SwimJob, drawn_maps, read_swim
from omega.workload.mapreduce import POPULAR, MapReduceJob, load, split
from omega.workload.presets import draw
from omega.workload.workload import Workload, array_stream

STEP_SECONDS = 60.0
HOURS = 24.0
QUICK_STEP = 120.0


@dataclass(frozen=True, slots=True)
class StandIn:
    """A cell like one of the paper: a part of the machines and jobs of C, and how much other jobs use beside C's."""

    name: str
    about: str
    size: float = 1.0
    fill: float = 1.0


STAND_INS = (
    StandIn("A", "busier", fill=1.25),
    StandIn("C", "as it is"),
    StandIn("D", "a quarter, little used", size=0.25, fill=0.5),
)


@dataclass(frozen=True, slots=True)
class MapReduceForm:
    """What figures 15 and 16 are computed from; times are in hours and seconds."""

    run: TraceRun
    """The trace, its options and the seed."""
    swim: str | None = None
    """File of SWIM jobs; None: a fifth of the batch jobs, with fitted numbers of maps."""
    hours: float = HOURS
    step: float = STEP_SECONDS


@dataclass(frozen=True, slots=True)
class MapReduceOutcome:
    """Results by stand-in and policy."""

    form: MapReduceForm
    results: Mapping[str, Mapping[str, PolicyResult]]
    source: str
    """Where the load of other jobs comes from."""
    dimensions: Sequence[str]
    """Names of the resources."""

    def benefit(self, cell: str, policy: str) -> Interval:
        """Return the share of jobs that are faster than with the workers that their users ask for."""
        return of_sample(self.results[cell][policy].speedups, lambda speedups: float((speedups >= GAIN).mean()))

    def speedup(self, cell: str, policy: str, share: float = 0.8) -> Interval:
        """Return the speed-up at a quantile of the jobs."""
        return of_sample(self.results[cell][policy].speedups, lambda speedups: float(np.quantile(speedups, share)))

    def variation(self, cell: str, policy: str) -> Interval:
        """Return the standard deviation of the cpu in use (points of per cent); hours are resampled."""
        use = 100 * self.results[cell][policy].use[:, 0]
        length = max(1, round(3600 / self.form.step))
        whole = use[: max(1, len(use) // length) * length].reshape(-1, min(length, len(use)))
        return of_sample(whole, lambda drawn: float(drawn.std()))

    def points(self) -> Iterator[dict[str, Any]]:
        """Yield the figures of each stand-in and policy as plain values."""
        for cell, results in self.results.items():
            for policy, result in results.items():
                use = dict(zip(self.dimensions, result.use.mean(axis=0).tolist(), strict=True))
                yield {
                    "cell": cell, "policy": policy, "jobs": len(result.speedups),
                    "benefit": self.benefit(cell, policy), "speedup_p80": self.speedup(cell, policy),
                    "variation": self.variation(cell, policy), "utilisation": use,
                }  # fmt: skip


def simulated_policies(form: MapReduceForm) -> MapReduceOutcome:
    """Run the MapReduce jobs under every policy on each stand-in. Raises BadInput."""
    workload, seconds = form.run.workload()
    source = f"{seconds / 3600:.1f} hours of the trace"
    wanted = form.hours * 3600
    if seconds < 0.98 * wanted:
        workload = draw("C", form.run.seed, form.hours / 24)
        source = f"drawn from the tables measured on Google's cell C, as the trace has {seconds / 3600:.1f} hours"
        seconds = wanted
    seconds = min(seconds, wanted)
    others, jobs = split(workload, form.run.seed)
    if form.swim is not None:
        jobs = swim_jobs(read_swim(Path(form.swim)), workload, form.run.seed, seconds)
    background = load([*workload.residents, *others], form.step, ceil(seconds / form.step))
    results: dict[str, Mapping[str, PolicyResult]] = {}
    for cell in STAND_INS:
        mine = _part(jobs, cell.size, form.run.seed)
        capacity = tuple(int(amount * cell.size) for amount in workload.capacity)
        used = background * cell.size * cell.fill
        results[cell.name] = {name: run_policy(name, mine, used, capacity, form.step) for name in POLICIES}
    return MapReduceOutcome(form, results, source, workload.dimensions.names)


def swim_jobs(jobs: Sequence[SwimJob], workload: Workload, seed: int, seconds: float) -> list[MapReduceJob]:
    """Return the jobs of SWIM that arrive within `seconds`: maps and reduces by the published bins, at mean durations.

    Requested workers are one of `POPULAR`, drawn evenly. A worker needs what a task of a random batch job needs.
    """
    needs = [each.job.groups[0].need for each in workload.arrivals if each.job.kind == "batch"]
    rng = array_stream(seed, "swim/workers")
    asked = rng.choice(POPULAR, len(jobs)).tolist()
    chosen = rng.integers(max(1, len(needs)), size=len(jobs)).tolist()
    begin = jobs[0].at if jobs else 0.0
    lengths = [sum(each) / 2 for each in (MAP_SECONDS, REDUCE_SECONDS)]
    return [
        MapReduceJob(
            job.at - begin,
            workers,
            tuple(Phase(count, each) for count, each in zip(counts, lengths, strict=True)),
            needs[need] if needs else (1_000, 2_048),
        )
        for job, counts, workers, need in zip(jobs, drawn_maps(jobs, seed), asked, chosen, strict=True)
        if job.at - begin < seconds
    ]


def _part(jobs: Sequence[MapReduceJob], size: float, seed: int) -> list[MapReduceJob]:
    kept = array_stream(seed, "stand-in").random(len(jobs)) < size
    return [job for job, mine in zip(jobs, kept.tolist(), strict=True) if mine]
