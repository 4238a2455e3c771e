"""Workloads drawn from the distributions measured on Google's 2011 cell (tables/README.md).

Sizes, durations and requests of a job are drawn independently of one another, as the simulator of
EuroSys 2013 does; cpu and memory of a request together. All tasks of a job are alike.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.errors import BadInput
from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.workload.quantiles import machine_classes, pairs, precedences, quantiles
from omega.workload.workload import (
    LARGEST_CPU,
    LARGEST_MEMORY,
    Arrival,
    Workload,
    array_stream,
    capacity,
    request,
    stream,
)

Floats = NDArray[np.float64]
KINDS = ("batch", "service")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """How much of the measured mix to draw. Give `jobs`, or `seconds`, or both.

    With both, the arrivals are stretched so that the last of `jobs` comes at `seconds`, and
    durations with them; `rate` then only matters beside `service_rate`.
    Raises BadInput when a value makes no sense.
    """

    jobs: int | None = None
    """How many jobs arrive."""
    seconds: float | None = None
    """How long they go on arriving."""
    rate: float = 1.0
    """Arrivals per second relative to the measured cell of 12,477 machines; not scaled to this cell's size."""
    service_rate: float = 1.0
    """As `rate`, for service jobs, on top of it. Measured: 7 in 100."""
    duration: float = 1.0
    """Durations relative to the measured ones."""
    fill: float | None = None
    """When set, durations are multiplied by one more factor: the largest (up to a million) with which jobs
    placed as they arrive would use at most this share of the cell, in any dimension, at any time."""
    longest: float | None = None
    """Tasks that would run longer, in seconds and after all factors, run so long."""
    job_share: float = 0.1
    """The most of the cell that one job may ask for, in any dimension; larger jobs get fewer tasks."""
    largest_cpu: int = LARGEST_CPU
    """Millicores of the largest machine."""
    largest_memory: int = LARGEST_MEMORY
    """MiB of the largest machine."""

    def __post_init__(self) -> None:
        numbers = (self.seconds, self.rate, self.service_rate, self.duration, self.fill, self.longest, self.job_share)
        if self.jobs is None and self.seconds is None:
            raise BadInput("workload: give a number of jobs, or seconds, or both")
        if (self.jobs is not None and self.jobs < 1) or self.largest_cpu < 1 or self.largest_memory < 1:
            raise BadInput("workload: want at least 1 job and a largest machine of at least 1 unit each")
        if any(number is not None and not (isfinite(number) and number > 0) for number in numbers):
            raise BadInput("workload: seconds, rates, durations and shares are finite and above 0")


DEMO = Mix(jobs=1_200, seconds=20.0, fill=0.75, longest=15.0)
"""What `omega demo` submits: about 30,000 tasks in 20 s, for a cell of 1,000 machines."""


def google_machines(seed: int, count: int, *, largest_cpu: int, largest_memory: int) -> list[MachineSpec]:
    """`count` machines in the measured capacity classes, ``m0`` …, classes in random order of names.

    Every class has its share to within one machine; rare ones may be absent from a small cell.
    """
    if count < 1:
        raise BadInput(f"workload: a cell of {count} machines; want at least 1")
    classes = machine_classes()
    exact = [machine.share * count for machine in classes]
    quotas = [int(number) for number in exact]
    by_remainder = sorted(range(len(classes)), key=lambda index: quotas[index] - exact[index])
    for index in by_remainder[: count - sum(quotas)]:
        quotas[index] += 1
    alike = [
        ((capacity(kind.cpu, largest_cpu), capacity(kind.memory, largest_memory)), {"platform": kind.platform})
        for kind in classes
    ]
    drawn = [each for each, quota in zip(alike, quotas, strict=True) for _ in range(quota)]
    stream(seed, "machines").shuffle(drawn)
    return [MachineSpec(f"m{index}", has, attributes) for index, (has, attributes) in enumerate(drawn)]


@dataclass(frozen=True, eq=False)
class Demand:
    """Task groups as arrays: when they arrive, how long their tasks run (seconds), what all tasks want together."""

    at: Floats
    seconds: Floats
    amounts: Floats
    """A row a group, a column a dimension."""

    def offered(self, capacity: Floats) -> Floats:
        """Mean resource-seconds asked for per second of arrivals (at least 1 s), as shares of `capacity`."""
        if not len(self.at):
            return np.zeros(len(capacity))
        asked: Floats = self.seconds @ self.amounts
        return asked / max(float(self.at.max()), 1.0) / capacity

    def peak(self, capacity: Floats) -> Floats:
        """Return the most in use at one time, as shares of `capacity`, if every task started when it arrives."""
        if not len(self.at):
            return np.zeros(len(capacity))
        times = np.concatenate((self.at + self.seconds, self.at))
        # Stable, and ends stand before beginnings: what ends at an instant is free for what begins then.
        order = np.argsort(times, kind="stable")
        used = np.cumsum(np.concatenate((-self.amounts, self.amounts))[order], axis=0)
        return np.asarray(used.max(axis=0) / capacity)


@dataclass(eq=False, slots=True)
class _Jobs:
    """Jobs as arrays, in order of arrival; `service` marks service jobs."""

    at: Floats
    service: NDArray[np.bool_]
    counts: NDArray[np.int64]
    seconds: Floats
    needs: NDArray[np.int64]
    precedence: NDArray[np.int64]


def _times(seed: int, kind: str, rate: float, mix: Mix) -> Floats:
    """When jobs of this kind arrive: the first `jobs`, or as many as come within `seconds`."""
    gaps, rng = quantiles(f"{kind}_interarrival_seconds"), array_stream(seed, f"{kind}/arrivals")
    if mix.jobs is not None:
        return np.asarray(np.cumsum(gaps.sample(rng, mix.jobs)) / rate)
    until = mix.seconds or 0.0
    times, chunk = np.zeros(0), 16 + int(until * rate / gaps.mean)
    while not len(times) or times[-1] <= until:
        last = times[-1] if len(times) else 0.0
        times = np.concatenate((times, last + np.cumsum(gaps.sample(rng, chunk)) / rate))
    return np.asarray(times[times <= until])


def _arrivals(seed: int, mix: Mix) -> tuple[Floats, NDArray[np.bool_], float]:
    """Times in order, which are of service jobs, and by how much time was stretched to meet `seconds`."""
    batch = _times(seed, "batch", mix.rate, mix)
    service = _times(seed, "service", mix.rate * mix.service_rate, mix)
    at = np.concatenate((batch, service))
    is_service = np.arange(len(at)) >= len(batch)
    order = np.argsort(at, kind="stable")[: mix.jobs]
    at, is_service = at[order], is_service[order]
    stretch = mix.seconds / at[-1] if mix.jobs is not None and mix.seconds is not None else 1.0
    return at * stretch, is_service, float(stretch)


def _draw(seed: int, mix: Mix, machines: Sequence[MachineSpec]) -> tuple[_Jobs, float]:
    """Draw every job but the cut of its tasks and the last word on durations; also the factor on them so far."""
    at, service, stretch = _arrivals(seed, mix)
    n = len(at)
    jobs = _Jobs(at, service, np.ones(n, int), np.zeros(n), np.zeros((n, 2), int), np.zeros(n, int))
    shares = [(m.capacity[0] / mix.largest_cpu, m.capacity[1] / mix.largest_memory) for m in machines]
    sizes = sorted(set(shares))
    for kind in KINDS:
        these = np.flatnonzero(service == (kind == "service"))
        rng = array_stream(seed, f"{kind}/tasks")
        counts = quantiles(f"{kind}_tasks_per_job").sample(rng, len(these), even=True)
        jobs.counts[these] = np.maximum(1, np.rint(counts)).astype(int)
        rng = array_stream(seed, f"{kind}/durations")
        jobs.seconds[these] = quantiles(f"{kind}_task_seconds").sample(rng, len(these), even=True)
        wanted = pairs(f"{kind}_requests").within(sizes).sample(array_stream(seed, f"{kind}/requests"), len(these))
        jobs.needs[these] = [
            (request(cpu, mix.largest_cpu), request(memory, mix.largest_memory)) for cpu, memory in wanted.tolist()
        ] or np.zeros((0, 2), int)
        values, weights = precedences(f"{kind}_precedence")
        bounds = np.cumsum(weights) / weights.sum()
        drawn = np.searchsorted(bounds, array_stream(seed, f"{kind}/precedence").random(len(these)), side="right")
        jobs.precedence[these] = values[np.minimum(drawn, len(values) - 1)]
    return jobs, stretch * mix.duration


def _durations(base: Floats, factor: float, longest: float | None) -> Floats:
    """Seconds after the factor and the limit, in whole milliseconds, at least one."""
    seconds = np.minimum(base * factor, np.inf if longest is None else longest)
    return np.asarray(np.maximum(np.rint(seconds * 1000), 1) / 1000)


def _factor(jobs: _Jobs, base: float, mix: Mix, has: Floats) -> float:
    """Return the largest factor on durations with which the peak stays within `fill`, to within a thousandth."""
    if mix.fill is None or not len(jobs.at):
        return base
    amounts = (jobs.needs * jobs.counts[:, None]).astype(float)

    def fits(factor: float) -> bool:
        return bool(Demand(jobs.at, _durations(jobs.seconds, factor, mix.longest), amounts).peak(has).max() <= mix.fill)

    low, high = base / 1e9, base * 1e6
    while high / low > 1.001:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


@dataclass(frozen=True, eq=False, slots=True)
class DrawnJobs:
    """The jobs of a mix, in order of arrival: tasks run `seconds`; `wanted` are their tasks before the cut."""

    seed: int
    jobs: _Jobs
    seconds: Floats
    wanted: NDArray[np.int64]
    factor: float

    def arrival(self, number: int) -> Arrival:
        """Return the job with this number."""
        jobs = self.jobs
        kind = "service" if jobs.service[number] else "batch"
        need = (int(jobs.needs[number, 0]), int(jobs.needs[number, 1]))
        group = TaskGroup(need, int(jobs.counts[number]), round(float(self.seconds[number]) * 1000))
        job = JobSpec(
            id=sha256(f"{self.seed}/google-mix/{number}".encode()).hexdigest()[:12],
            name=f"mix{self.seed}/{kind}-{number}",
            kind=kind,
            groups=(group,),
            precedence=int(jobs.precedence[number]),
        )
        return Arrival(round(float(jobs.at[number]), 6), job)

    def running(self, at: float) -> list[Arrival]:
        """Return the jobs that would still run at a time (s), submitted then, with their remaining durations."""
        left = []
        for number in np.flatnonzero(self.jobs.at + self.seconds > at - 0.01).tolist():
            arrival = self.arrival(number)
            (group,) = arrival.job.groups
            ends_ms = group.duration_ms - round((at - arrival.at_seconds) * 1000)
            if ends_ms > 0:
                left.append(Arrival(0.0, replace(arrival.job, groups=(replace(group, duration_ms=ends_ms),))))
        return left


def draw_jobs(seed: int, machines: Sequence[MachineSpec], mix: Mix) -> DrawnJobs:
    """Draw the jobs of `mix` for a cell of these machines. Raises BadInput when no request fits a machine."""
    jobs, base = _draw(seed, mix, machines)
    has = np.array([sum(spec.capacity[i] for spec in machines) for i in (0, 1)], dtype=float)
    wanted = jobs.counts.copy()
    room = np.floor(mix.job_share * has / np.maximum(jobs.needs, 1)).min(axis=1, initial=np.inf)
    jobs.counts = np.maximum(1, np.minimum(wanted, room)).astype(int)
    factor = _factor(jobs, base, mix, has)
    return DrawnJobs(seed, jobs, _durations(jobs.seconds, factor, mix.longest), wanted, factor)


def google_mix(seed: int, machines: int, mix: Mix) -> Workload:
    """Draw a cell of so many machines and the jobs of `mix` that arrive at it; the same for the same seed.

    `Workload.about` gives the cut jobs and the factor on durations. There are no
    residents. Raises BadInput when no request fits a machine.
    """
    specs = google_machines(seed, machines, largest_cpu=mix.largest_cpu, largest_memory=mix.largest_memory)
    drawn = draw_jobs(seed, specs, mix)
    jobs, seconds = drawn.jobs, drawn.seconds
    arrivals = [drawn.arrival(number) for number in range(len(jobs.at))]
    has = np.array([sum(spec.capacity[i] for spec in specs) for i in (0, 1)], dtype=float)
    load = Demand(jobs.at, seconds, (jobs.needs * jobs.counts[:, None]).astype(float))
    kinds = Counter(arrival.job.kind for arrival in arrivals)
    cut = f", cut at {mix.longest:g} s" if mix.longest is not None else ""
    about = (
        f"drawn (seed {seed}) from distributions measured on Google's 2011 cell;"
        f" 1.0 is {mix.largest_cpu} millicores, {mix.largest_memory} MiB\n"
        f"{int(jobs.counts.sum()):,} tasks in {kinds['batch']:,} batch and {kinds['service']:,} service jobs"
        f" within {jobs.at.max(initial=0.0):,.1f} s, durations multiplied by {drawn.factor:.3g}{cut}\n"
        f"jobs cut to {mix.job_share:.0%} of the cell: {int((jobs.counts < drawn.wanted).sum()):,},"
        f" losing {int((drawn.wanted - jobs.counts).sum()):,} tasks\n"
        f"offered load {_percent(load.offered(has))}; peak if placed as they arrive {_percent(load.peak(has))}"
    )
    return Workload(specs, [], arrivals, about)


def _percent(shares: Floats) -> str:
    cpu, memory = shares.tolist()
    return f"{cpu:.0%} cpu, {memory:.0%} memory"
