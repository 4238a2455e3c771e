"""Effect of the sizing policies on MapReduce jobs of a cell (Omega §6, figures 15 and 16).

Machines are not simulated: a cell is its sums, the only input of a sizing policy. Every few seconds of simulated time
each running job is resized by the policy, in order of arrival, and continues at the speed of the phase model. Jobs
never wait for the workers that they requested.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.resources import Resources
from omega.schedulers.policies import Sizing
from omega.schedulers.sizing import AsAsked, GlobalCap, MaxParallelism, Phase, Profile, RelativeSize, Totals
from omega.workload.mapreduce import MapReduceJob, load, split
from omega.workload.workload import DIMENSIONS, Workload

POLICIES: dict[str, Sizing] = {
    "as-asked": AsAsked(),
    "max-parallelism": MaxParallelism(),
    "relative-size": RelativeSize(),
    "global-cap": GlobalCap(),
}
STEP_SECONDS = 20.0
GAIN = 1.01
"""A job with at least this speed-up benefits."""


@dataclass(frozen=True, slots=True)
class PolicyResult:
    """Result of a policy: the speed-up of each ended job, and the cell's utilisation step by step."""

    policy: str
    speedups: NDArray[np.float64]
    use: NDArray[np.float64]
    """Share of each dimension in use: (steps, dimensions)."""

    @property
    def benefit(self) -> float:
        """Share of jobs that were faster than with the requested workers."""
        return float((self.speedups >= GAIN).mean()) if len(self.speedups) else 0.0

    def quantile(self, share: float) -> float:
        """Return the speed-up at this quantile of the jobs; 1 without jobs."""
        return float(np.quantile(self.speedups, share)) if len(self.speedups) else 1.0

    def as_json(self) -> dict[str, object]:
        """Figures as plain values."""
        return {
            "policy": self.policy,
            "jobs": len(self.speedups),
            "benefit": self.benefit,
            **{f"speedup_p{share}": self.quantile(share / 100) for share in (50, 80, 95)},
            "utilisation": {
                name: {"mean": float(use.mean()), **({"deviation": float(use.std())} if len(use) > 1 else {})}
                for name, use in zip(DIMENSIONS.names, self.use.T, strict=True)
            },
        }


@dataclass(slots=True)
class _RunningJob:
    """A running job: start, remaining phases, workers."""

    job: MapReduceJob
    began: float
    left: list[float] = field(init=False)
    has: int = 0

    def __post_init__(self) -> None:
        self.left = [float(phase.activities) for phase in self.job.phases]

    def resize(self, policy: Sizing, totals: Totals) -> int:
        """Resize it to the policy's size; returns the number of additional workers.

        Workers that are of no more use are kept to its end, as the live scheduler does.
        """
        phases = [Phase(ceil(left), phase.seconds) for phase, left in zip(self.job.phases, self.left, strict=True)]
        profile = Profile(self.job.asked, phases, self.job.need, self.has)
        size = policy.size(profile, totals)
        if size < self.has and size >= (profile.useful() or 0):
            size = self.has
        more, self.has = size - self.has, size
        return more

    def advance(self, seconds: float) -> float | None:
        """Work for `seconds`; return the rest of them when the job ended, None when it continues."""
        for i, phase in enumerate(self.job.phases):
            if self.left[i] and phase.seconds:
                speed = min(self.has, phase.activities) / phase.seconds
                if self.left[i] > seconds * speed:
                    self.left[i] -= seconds * speed
                    return None
                seconds -= self.left[i] / speed
                self.left[i] = 0.0
        return seconds


def evaluate(
    workload: Workload, seed: int, days: float, fill: float = 1.0, step: float = STEP_SECONDS
) -> Iterator[PolicyResult]:
    """Run the MapReduce jobs of a workload under every policy; `fill` multiplies what all other jobs take."""
    others, jobs = split(workload, seed)
    background = load([*workload.residents, *others], step, ceil(days * 86_400 / step)) * fill
    for name in POLICIES:
        yield run_policy(name, jobs, background, workload.capacity, step)


def run_policy(
    name: str, jobs: Sequence[MapReduceJob], background: NDArray[np.float64], capacity: Resources, step: float
) -> PolicyResult:
    """Run jobs, in order of arrival, under a policy; `background` is what others take, every `step` seconds."""
    policy, waiting = POLICIES[name], list(reversed(jobs))
    running: list[_RunningJob] = []
    speedups, use = list[float](), list[list[int]]()
    for tick, others in enumerate(background.astype(np.int64).tolist()):
        now, allocated = tick * step, list(others)
        while waiting and waiting[-1].at <= now:
            running.append(_RunningJob(waiting.pop(), now))
        for each in running:
            _add(allocated, each.job.need, each.has)
        for each in running:
            _add(allocated, each.job.need, each.resize(policy, Totals(capacity, tuple(allocated))))
        use.append(allocated)
        left = [(each, each.advance(step)) for each in running]
        speedups += [each.job.seconds / (now + step - over - each.began) for each, over in left if over is not None]
        running = [each for each, over in left if over is None]
    return PolicyResult(name, np.array(speedups), np.array(use) / np.array(capacity))


def _add(amounts: list[int], need: Resources, count: int) -> None:
    for d, amount in enumerate(need):
        amounts[d] += amount * count
