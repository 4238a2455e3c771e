"""The simulations of slots behind the claims of the paper on delay scheduling (Zaharia et al., EuroSys 2010)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from random import Random
from statistics import fmean

from omega.schedulers.comparisons.hadoop import FewestRunning, HadoopFair, HadoopFifo
from omega.schedulers.placement.first_fit import FirstFit
from omega.schedulers.policies import Ordering
from omega.simulation.slot_delay import delayed
from omega.simulation.slot_jobs import SlotJob, SlotJobSpec
from omega.simulation.slot_swim import maps_by_size, slot_jobs
from omega.simulation.slots import SlotCluster, SlotSimulation
from omega.traces.swim import read_swim

REPLICAS = 3
BINS = ((1, 38), (2, 16), (10, 14), (50, 8), (100, 6), (200, 6), (400, 4), (800, 4), (4800, 4))
"""Maps of a job, and jobs of 100, in each bin of the paper's table 1."""
GAP = 14.0
"""Mean seconds between two jobs."""
MAP_SECONDS = (12.0, 26.0)
"""Range of the times of local maps: 19 s in the mean, the median of Facebook's."""
MACRO = SlotCluster(machines=100, racks=4, map_slots=4, reduce_slots=0, waits=(5.0, 5.0))
SMALL_JOBS = SlotCluster(machines=100, racks=4, map_slots=6, reduce_slots=0, waits=(15.0, 15.0))
ORDERINGS: Mapping[str, type[Ordering]] = {"fifo": HadoopFifo, "fair": HadoopFair, "delay": HadoopFair}
"""The policies that are compared; ``delay`` also delays."""


@dataclass(frozen=True, slots=True)
class BinResult:
    """The jobs of a bin: parts of their maps by level, response times (seconds) in order of submission."""

    node: float
    rack: float
    """On a machine with their block, or in its rack."""
    responses: Sequence[float]

    @property
    def mean(self) -> float:
        """Mean response time."""
        return fmean(self.responses)


def simulated(
    cluster: SlotCluster, jobs: Sequence[SlotJobSpec], ordering: Ordering, seed: int, *, delay: bool,
    active: int | None = None,
) -> SlotSimulation:  # fmt: skip
    """Run jobs with or without delay scheduling, in the paper's form."""
    placement = delayed(again=cluster.heartbeat) if delay else (lambda _: FirstFit())
    return SlotSimulation(cluster, jobs, ordering=ordering, placement=placement, seed=seed, active=active).run()


def levels(jobs: Sequence[SlotJob]) -> tuple[float, float]:
    """Return the parts of the maps of jobs that ran on a machine with their block, and in a rack with it."""
    node, rack, anywhere = (sum(job.levels[level] for job in jobs) for level in range(3))
    total = node + rack + anywhere
    return node / total, (node + rack) / total


@lru_cache(maxsize=64)
def macro(seed: int, policy: str, penalty: float = 2.0, part: float = 1.0) -> list[BinResult]:
    """Run 100 jobs of the paper's bins under a policy of `ORDERINGS`, with a penalty of remote maps; result by bin.

    `part` scales the maps of each job.
    """
    rng, cluster = Random(f"{seed}/bins"), replace(MACRO, penalty=penalty)
    order = [number for number, (_, count) in enumerate(BINS) for _ in range(count)]
    rng.shuffle(order)
    at, specs, bins = 0.0, list[SlotJobSpec](), dict[str, int]()
    for count, number in enumerate(order):
        at += rng.expovariate(1 / GAP)
        maps = max(1, round(BINS[number][0] * part))
        seconds = [rng.uniform(*MAP_SECONDS) for _ in range(maps)]
        spec = SlotJobSpec(f"j{count}", cluster.blocks(maps, REPLICAS, rng), seconds, at=at)
        specs.append(spec)
        bins[spec.name] = number
    run = simulated(cluster, specs, ORDERINGS[policy](), seed, delay=policy == "delay")
    results = list[BinResult]()
    for number in range(len(BINS)):
        jobs = [run.jobs[spec.name] for spec in specs if bins[spec.name] == number]
        responses = [(job.ended or 0.0) - job.spec.at for job in jobs]
        results.append(BinResult(*levels(jobs), responses))
    return results


@dataclass(frozen=True, slots=True)
class Compared:
    """Localities (node, rack) and the completion of all jobs (seconds), without and with delay."""

    without: tuple[float, float]
    with_delay: tuple[float, float]
    seconds: tuple[float, float]

    @property
    def gain(self) -> float:
        """Throughput with delay ÷ without."""
        return self.seconds[0] / self.seconds[1]


@lru_cache(maxsize=64)
def small_jobs(seed: int, maps: int, total: int = 6_000) -> Compared:
    """Run jobs of so many maps, all submitted at once: ten times as many maps as there are slots."""
    rng, cluster = Random(f"{seed}/small/{maps}"), SMALL_JOBS
    specs = [
        SlotJobSpec(f"j{i}", cluster.blocks(maps, REPLICAS, rng), [rng.uniform(*MAP_SECONDS) for _ in range(maps)])
        for i in range(total // maps)
    ]
    plain, late = (simulated(cluster, specs, HadoopFair(), seed, delay=delay) for delay in (False, True))
    jobs = [list(run.jobs.values()) for run in (plain, late)]
    return Compared(levels(jobs[0]), levels(jobs[1]), (plain.ended, late.ended))


@lru_cache(maxsize=256)
def sensitivity(seed: int, maps: int, wait: float, heartbeat: float = 3.0, jobs: int = 200) -> float:
    """Return the node locality of jobs of so many maps, 50 at a time, with W1 = `wait` (seconds) and W2 the same."""
    cluster = SlotCluster(reduce_slots=0, heartbeat=heartbeat, waits=(wait, wait))
    rng = Random(f"{seed}/sensitivity/{maps}")
    specs = [
        SlotJobSpec(f"j{i}", cluster.blocks(maps, REPLICAS, rng), [rng.uniform(*MAP_SECONDS) for _ in range(maps)])
        for i in range(jobs)
    ]
    return simulated(cluster, specs, FewestRunning(), seed, delay=True, active=50).local


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysed:
    """A full cluster in which jobs with a number of maps wait for D offers; a background keeps all slots busy."""

    maps: int = 1
    skips: int = 40
    machines: int = 100
    slots: int = 16
    jobs: int = 5_000
    rate: float = 100.0
    """Maps of these jobs that are submitted in a second; 160 slots become free in it."""


@lru_cache(maxsize=64)
def analysed(case: Analysed, seed: int) -> tuple[float, float]:
    """Return the node locality of the jobs of a case, and the mean number of offers that a map got."""
    rng = Random(f"{seed}/analysed/{case.maps}/{case.skips}")
    cluster = SlotCluster(
        machines=case.machines, map_slots=case.slots, reduce_slots=0, out_of_band=True, penalty=1.0
    )  # fmt: skip
    everywhere, count = list(range(case.machines)), case.maps
    span = case.jobs * count / case.rate
    background = round(case.machines * case.slots * (span + 60.0) / 10.0)
    specs = [SlotJobSpec("background", [everywhere] * background, [rng.uniform(5, 15) for _ in range(background)])]
    for number in range(case.jobs):
        blocks = cluster.blocks(count, REPLICAS, rng)
        at, seconds = 20.0 + rng.uniform(0, span), [rng.uniform(5, 15) for _ in range(count)]
        specs.append(SlotJobSpec(f"j{number}", blocks, seconds, at=at, precedence=4))
    placement = delayed((case.skips, 0), again=cluster.heartbeat)
    run = SlotSimulation(cluster, specs, ordering=HadoopFifo(), placement=placement, seed=seed).run()
    jobs = [job for name, job in run.jobs.items() if name != "background"]
    return levels(jobs)[0], sum(job.offers for job in jobs) / (count * case.jobs)


@lru_cache(maxsize=16)
def hot_spots(seed: int, file: Path, most: int = 200) -> tuple[float, float]:
    """Return the node locality of the jobs of a file of SWIM without and with delay; `most` maps of a job."""
    rng, jobs = Random(f"{seed}/swim"), read_swim(file)
    specs = slot_jobs(jobs, maps_by_size(jobs, most), MACRO, REPLICAS, MAP_SECONDS, rng)
    plain, late = (simulated(MACRO, specs, HadoopFair(), seed, delay=delay).local for delay in (False, True))
    return plain, late
