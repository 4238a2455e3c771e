"""Jobs of SWIM for a slot cluster: a map for each block of the input, and jobs with one path read the same blocks."""

from collections.abc import Sequence
from random import Random

from omega.simulation.slot_jobs import SlotJobSpec
from omega.simulation.slots import SlotCluster
from omega.traces.swim import SwimJob

BLOCK = 128 * 1024**2
"""Bytes of a block."""


def maps_by_size(jobs: Sequence[SwimJob], most: int | None = None) -> list[int]:
    """Return the maps of each job: one for each block, at least one, at most `most`."""
    counts = [max(1, -(-job.input_bytes // BLOCK)) for job in jobs]
    return counts if most is None else [min(count, most) for count in counts]


def maps_by_bins(jobs: Sequence[SwimJob], bins: Sequence[tuple[int, int]]) -> list[int]:
    """Return the maps of each job by the place of its input among all: bins are (maps, jobs), the smallest first.

    The bytes alone give 88 % of jobs one map, where the paper has 39 %.
    """
    total = sum(count for _, count in bins)
    sizes, passed = list[int](), 0
    for maps, count in bins:
        passed += count
        sizes += [maps] * (round(len(jobs) * passed / total) - len(sizes))
    order = sorted(range(len(jobs)), key=lambda number: (jobs[number].input_bytes, number))
    return [maps for _, maps in sorted(zip(order, sizes, strict=True))]


def slot_jobs(
    jobs: Sequence[SwimJob], maps: Sequence[int], cluster: SlotCluster, replicas: int, times: tuple[float, float],
    rng: Random,
) -> list[SlotJobSpec]:  # fmt: skip
    """Return jobs with so many maps each, of times (seconds) from a range; the first one is submitted at 0 s."""
    files: dict[str, list[list[int]]] = {}
    specs = list[SlotJobSpec]()
    for number, (job, count) in enumerate(zip(jobs, maps, strict=True)):
        blocks = files.setdefault(job.path or f"input of {number}", [])
        blocks += cluster.blocks(count - len(blocks), replicas, rng)
        seconds = [rng.uniform(*times) for _ in range(count)]
        specs.append(SlotJobSpec(f"{number} {job.name}", blocks[:count], seconds, at=job.at - jobs[0].at))
    return specs
