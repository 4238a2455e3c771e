"""Sticky slots (Zaharia et al., EuroSys 2010, section 3.2): many concurrent jobs read one replicated data set.

A job whose task ends has the fewest running tasks, so Algorithm 1 gives it the same slot again, on a machine whose
blocks it soon has read. With delay scheduling it waits for other machines. Two inputs are calibrated: the `penalty` of
a map without its block, and heartbeats out of band. The latter were chosen after the first results: with periodic
heartbeats alone so many slots are free at a time that jobs change them, and locality stays high. What holds only with
them is no evidence for the paper.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from omega.schedulers.comparisons.hadoop import FewestRunning
from omega.schedulers.placement.first_fit import FirstFit
from omega.simulation.slot_delay import delayed
from omega.simulation.slot_jobs import SlotJobSpec
from omega.simulation.slots import SlotCluster, SlotSimulation

JOBS = (5, 10, 20, 50)
REPLICAS = 3
ABOVE, BELOW = 0.80, 0.35
"""Expected locality without delay: more with 5 jobs, less with 50."""
WITH_DELAY = 0.99
"""Least expected locality with delay."""
TOLERANCE = 0.05
"""Of the completion time without delay ÷ with delay, from p + (1 - p) × penalty at a locality p without delay."""
CLUSTER = SlotCluster(reduce_slots=0, out_of_band=True, waits=(10.0, 10.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sticky:
    """Locality and completion (seconds) of so many concurrent jobs, without and with delay."""

    jobs: int
    without: float
    with_delay: float
    seconds_without: float
    seconds_with: float
    penalty: float

    @property
    def gain(self) -> float:
        """Completion time without delay ÷ with delay."""
        return self.seconds_without / self.seconds_with

    @property
    def expected_gain(self) -> float:
        """The gain that follows from the locality without delay, if all map slots are used."""
        return self.without + (1 - self.without) * self.penalty

    def failures(self) -> list[str]:
        """Return the expectations that do not hold."""
        wanted = {
            f"more than {ABOVE:.0%} without delay, measured {self.without:.1%}": self.jobs != min(JOBS)
            or self.without > ABOVE,
            f"less than {BELOW:.0%} without delay, measured {self.without:.1%}": self.jobs != max(JOBS)
            or self.without < BELOW,
            f"at least {WITH_DELAY:.0%} with delay, measured {self.with_delay:.1%}": self.with_delay >= WITH_DELAY,
            f"a gain of {self.expected_gain:.2f}, measured {self.gain:.2f}": abs(self.gain / self.expected_gain - 1)
            <= TOLERANCE,
        }
        return [f"{self.jobs} jobs: {text}" for text, holds in wanted.items() if not holds]


def bound(jobs: int, slots: int = CLUSTER.map_slots) -> float:
    """Return the locality that sticky slots allow at most: 1 - (1 - 1/jobs)^(replicas × slots)."""
    return 1 - (1 - 1 / jobs) ** (REPLICAS * slots)


def sticky(jobs: int, seed: int, maps: int = 360, cluster: SlotCluster = CLUSTER) -> Sticky:
    """Simulate so many jobs of `maps` maps each, which read the same blocks, without and with delay."""
    rng = Random(f"{seed}/sticky")
    blocks = cluster.blocks(maps, REPLICAS, rng)
    specs = [SlotJobSpec(f"j{i}", blocks, _seconds(maps, rng)) for i in range(jobs)]
    plain, late = (
        SlotSimulation(cluster, specs, ordering=FewestRunning(), placement=placement, seed=seed).run()
        for placement in (lambda _: FirstFit(), delayed(again=cluster.heartbeat))
    )
    return Sticky(
        jobs=jobs, without=plain.local, with_delay=late.local, seconds_without=plain.ended, seconds_with=late.ended,
        penalty=cluster.penalty,
    )  # fmt: skip


def _seconds(maps: int, rng: Random) -> Sequence[float]:
    """Return the times of local maps: 10 s, up to a tenth more or less."""
    return [rng.uniform(9.0, 11.0) for _ in range(maps)]
