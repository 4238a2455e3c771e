"""A simulated cell of equal slots with pools: who holds how many at which time, and what was evicted."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from omega.cellstate.cell import Cell
from omega.cellstate.model import Gang, Job, JobSpec, MachineSpec, TaskGroup
from omega.cellstate.pools import Pool, Pools, PoolTree, PreemptionSettings
from omega.cellstate.transaction import Placed
from omega.schedulers.ordering.cell_pools import CellPools
from omega.schedulers.placement.first_fit import FirstFit
from omega.schedulers.preemption.fair_share import FairSharePreemption
from omega.schedulers.preemption.precedence import PrecedencePreemption
from omega.schedulers.scheduler import Scheduler
from omega.schedulers.sharing import rendezvous
from omega.simulation import Settings, Simulation
from omega.simulation.run import SPREAD, spread_of
from omega.simulation.simulated_store import MemoryStore
from omega.workload.workload import Arrival, Workload

SLOT = 1000
QUICK = PreemptionSettings(starvation_timeout=2.0, starvation_tolerance=1.0, backoff=0.5, threshold=1000.0)
"""The settings under which 2 % in 10 s is wanted; between jobs of one pool nothing is evicted."""


@dataclass
class Ground:
    """Pools over machines of so many slots each; times in seconds, amounts in slots."""

    pools: Sequence[Pool]
    machines: int = 20
    slots: int = 4
    schedulers: int = 1
    preemption: PreemptionSettings = QUICK
    jobs: list[Arrival] = field(default_factory=list)
    memory: int = 0
    """Memory of a machine, in MiB."""
    newest_first: bool = True
    everywhere: bool = False
    """Whether the partition of jobs' tasks also decides between pools."""
    by_precedence: bool = False
    """Whether jobs evict by precedence within their pool."""
    decision: float = 0.006
    """Seconds of a decision."""
    lengths: tuple[float, float] | None = None
    """Seconds between which the length of each task is drawn; None: the length that its job states."""
    compose: Callable[[Scheduler], Scheduler] = lambda scheduler: scheduler
    """Changes the schedulers' composition."""

    def job(
        self, pool: str, tasks: int, *, at: float = 0.0, seconds: float = 1e6, slots: float = 1, gang: Gang = Gang.NO,
        precedence: int = 0, memory: int = 0, owner: int | None = None,
    ) -> str:  # fmt: skip
        """Submit a job, perhaps one that belongs to a certain scheduler; returns its id."""
        name = f"{pool}-{len(self.jobs)}"
        owners = rendezvous(tuple(sorted(f"batch/{i}" for i in range(self.schedulers))), SPREAD)
        while owner is not None and owners[spread_of(name)] != f"batch/{owner}":
            name += "x"
        group = TaskGroup((round(slots * SLOT), memory), tasks, round(seconds * 1000))
        spec = JobSpec(name, name, "batch", (group,), precedence, gang, {"pool": pool})
        self.jobs.append(Arrival(at, spec))
        return name

    def run(
        self, until: float, seed: int = 0, watch: Sequence[float] = (), *, logged: bool = False,
        cell: Cell | None = None,
    ) -> "PoolRun":  # fmt: skip
        """Simulate; the schedulers are batch schedulers with short decision times.

        `logged`: the cell keeps its log. `cell`: a cell of its own, whose log also has what commits were decided on.
        """
        specs = [MachineSpec(f"m{i}", (self.slots * SLOT, self.memory)) for i in range(self.machines)]
        jobs = sorted(self.jobs, key=lambda each: each.at_seconds)
        tree = PoolTree(preemption=self.preemption, partition_everywhere=self.everywhere)
        pools = Pools(tuple(self.pools), (tree,))
        workload = Workload(specs, [], jobs, "slots", pools)
        settings = Settings(days=until / 86_400, seed=seed, batch_schedulers=self.schedulers)
        own = self.compose(Scheduler(
            "batch", CellPools(), FirstFit(),
            FairSharePreemption(PrecedencePreemption() if self.by_precedence else None, newest_first=self.newest_first),
            jobs_per_call=8, t_job=self.decision,
        ))  # fmt: skip
        simulation = Simulation(workload, settings, own=own, cell=cell)
        if logged:
            assert isinstance(simulation.store, MemoryStore)
            simulation.store.cell.logs = True
        if self.lengths is not None:
            draw_lengths(simulation, self.lengths, Random(f"{seed}/lengths"))
        story = PoolRun(simulation, self.machines * self.slots)
        for at in watch:
            simulation.world.engine.at(round(at * 1e6), story.look, at)
        simulation.run()
        return story


def draw_lengths(simulation: Simulation, lengths: tuple[float, float], rng: Random) -> None:
    """Give each task of a simulation a length of its own."""
    world = simulation.world
    start = world._start

    def start_each(number: int, job: Job, placed: Placed) -> None:
        group = job.groups[placed.group]
        stated = group.duration_ms
        for place, machine in zip(placed.placements, placed.machines, strict=True):
            group.duration_ms = round(1000 * rng.uniform(*lengths))
            start(number, job, Placed(range(place, place + 1), [machine], None, placed.group))
        group.duration_ms = stated

    world._start = start_each  # type: ignore[method-assign]


@dataclass
class PoolRun:
    """Result of a run: tasks held by pools over time, and evictions."""

    simulation: Simulation
    slots: int
    seen: dict[float, dict[str, int]] = field(default_factory=dict)
    """Running tasks by job, at the times that were watched."""
    evictions: dict[float, int] = field(default_factory=dict)
    """Tasks evicted until then."""

    def look(self, at: float) -> None:
        """Record the running tasks now."""
        self.evictions[at] = self.evicted
        self.seen[at] = {
            job.id: sum(group.placed for group in job.groups) for job in self.simulation.store.cell.jobs.all()
        }

    def held(self, pool: str, at: float | None = None) -> float:
        """Slots that a pool held at the epoch that began last before a time, or at the end."""
        samples = [each for each in self.simulation.clock.samples[pool] if at is None or each.at <= at]
        return round(samples[-1].usage[0] * self.slots, 9)

    def share(self, pool: str) -> float:
        """The fair share of a pool at the end, in slots."""
        return self.simulation.clock.samples[pool][-1].fair_share[0] * self.slots

    def peak(self, pool: str) -> float:
        """The most that a pool held above its share at the end, in slots."""
        return max(each.usage[0] for each in self.simulation.clock.samples[pool]) * self.slots - self.share(pool)

    def within(self, shares: Mapping[str, float], tolerance: float = 0.02) -> float:
        """The time from which on every pool holds its share within a part of it, or one slot; infinite for never."""
        since = float("inf")
        series = [self.simulation.clock.samples[pool] for pool in shares]
        for row in zip(*series, strict=False):
            fits = all(
                abs(each.usage[0] * self.slots - share) <= max(1.0, tolerance * share) + 1e-9
                for each, share in zip(row, shares.values(), strict=True)
            )
            since = min(since, row[0].at) if fits else float("inf")
        return since

    @property
    def evicted(self) -> int:
        """Tasks that were evicted."""
        return sum(self.simulation.world.evicted.values())

    def placed(self, job: str) -> int:
        """Running tasks of a job at the end."""
        found = self.simulation.store.cell.jobs.get(job)
        return 0 if found is None else sum(group.placed for group in found.groups)
