"""Ordering and delay together: the tasks that a simulated slot cluster launches per second of processor time.

The set-up is that of the scheduler overhead in the paper on delay scheduling (Zaharia et al., EuroSys 2010, section
5.5), 3,200 tasks per second there: 2,500 machines with 4 slots, 100 jobs of 1,000 maps and 1,000 reduces in 20 pools.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from statistics import median
from time import process_time

from benchmarks.launch import Document, progress
from omega.cellstate.pools import Pool, Pools
from omega.schedulers.comparisons.hadoop import HadoopFair
from omega.simulation.slot_delay import delayed
from omega.simulation.slot_jobs import SlotJobSpec
from omega.simulation.slots import SlotCluster, SlotSimulation

LEAST = {"own": 10_000, "equal": 40_000}
"""Tasks per second of processor time to be reached, by the durations of tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotCase:
    """The size of the measurement; half of the slots are map slots."""

    machines: int = 2_500
    slots: int = 4
    jobs: int = 100
    tasks: int = 1_000
    """Maps of a job, and as many reduces."""
    pools: int = 20
    """Pools with the weights 1 to 4."""

    def cluster(self) -> SlotCluster:
        """Return the cluster."""
        pools = Pools(tuple(Pool(f"p{i}", weight=1.0 + i % 4) for i in range(self.pools)))
        each = self.slots // 2
        return SlotCluster(
            machines=self.machines, racks=max(1, self.machines // 40), map_slots=each, reduce_slots=each, pools=pools,
            waits=(5.0, 5.0),
        )  # fmt: skip

    def specs(self, cluster: SlotCluster, durations: str) -> list[SlotJobSpec]:
        """Return the jobs: each map with three replicas of its own; tasks of 10 to 30 s each, or all of 20 s."""
        rng, count = Random("slots"), self.tasks
        specs = list[SlotJobSpec]()
        for number in range(self.jobs):
            maps, reduces = (
                [20.0 if durations == "equal" else rng.uniform(10, 30) for _ in range(count)] for _ in range(2)
            )
            blocks = cluster.blocks(count, min(3, self.machines), rng)
            specs.append(SlotJobSpec(f"j{number}", blocks, maps, reduces=reduces, pool=f"p{number % self.pools}"))
        return specs


def measure_slots(repeat: int, case: SlotCase | None = None) -> Iterator[Document]:
    """Yield a row for each form of delay and each kind of durations: medians of processor time over the runs."""
    case = case or SlotCase()
    cluster = case.cluster()
    for durations, least in LEAST.items():
        specs = case.specs(cluster, durations)
        for form, skips in (("D", (case.machines // 2, case.machines // 10)), ("W1, W2", None)):
            rates = list[float]()
            for _ in range(repeat):
                began = process_time()
                run = SlotSimulation(cluster, specs, ordering=HadoopFair(), placement=delayed(skips)).run()
                rates.append(run.launched / (process_time() - began))
            yield {
                "form": form, "durations": durations, "tasks": run.launched, "tasks_per_second": median(rates),
                "spread": [min(rates), max(rates)], "attempts_per_launch": run.offers / run.launched,
                "locality": run.local, "seconds": run.ended, "least": least, "met": median(rates) >= least,
                "digest": run.digest,
            }  # fmt: skip
            progress(f"sim: slots, {form}, {durations} durations: {median(rates):,.0f} tasks/s")
