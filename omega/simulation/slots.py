"""A simulated Hadoop cluster: machines with map and reduce slots, racks, replicated blocks, and heartbeats.

A machine offers its free slots with each heartbeat, as Hadoop's task trackers do, and all of them in one. Each slot
goes to the first job by the ordering whose placement takes it. A map without its block on its machine takes `penalty`
times as long. Ordering and placement are those of a scheduler; the placement sees the machine of the offer alone.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from random import Random

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.array_snapshot import ArraySnapshot
from omega.cellstate.errors import BadInput
from omega.cellstate.model import MachineState
from omega.cellstate.pools import Pools
from omega.cellstate.replies import Reply
from omega.cellstate.transaction import Position
from omega.schedulers.ordering.hadoop import HadoopFair
from omega.schedulers.placement.first_fit import FirstFit
from omega.schedulers.policies import Ordering, Placement
from omega.simulation.engine import Engine, microseconds
from omega.simulation.slot_jobs import MAP, NODE, REDUCE, SlotJob, SlotJobSpec, job_of

NEEDS = ((1, 0), (0, 1))
"""The slots of a map and of a reduce."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotCluster:
    """Size and rules of a cluster; times in seconds.

    `penalty`: how many times as long a map takes without its block on its machine. `waits` are those of jobs that a
    placement delays: for machines with blocks, then for their racks. `slow_start`: the part of a job's maps that must
    have ended before its reduces start. `out_of_band`: a machine also sends a heartbeat when a task ends (the option of
    that name of Hadoop).
    """

    machines: int = 100
    racks: int = 4
    map_slots: int = 4
    reduce_slots: int = 2
    heartbeat: float = 3.0
    penalty: float = 2.0
    waits: Sequence[float] = (15.0, 15.0)
    slow_start: float = 0.05
    out_of_band: bool = False
    pools: Pools = field(default_factory=Pools)

    def __post_init__(self) -> None:
        if min(self.machines, self.racks, self.map_slots) < 1 or self.reduce_slots < 0:
            raise BadInput("a slot cluster wants at least a machine, a rack and a map slot")
        if not (self.heartbeat > 0 and self.penalty >= 1 and min(self.waits, default=0.0) >= 0):
            raise BadInput("heartbeat wants more than 0 s, penalty at least 1, waits at least 0 s")

    def blocks(self, count: int, replicas: int, rng: Random) -> list[list[int]]:
        """Return the machines of so many blocks, each on different machines."""
        return [sorted(rng.sample(range(self.machines), min(replicas, self.machines))) for _ in range(count)]


class SlotSimulation:
    """The jobs of a cluster until all have ended. The same arguments give the same `digest`."""

    def __init__(
        self,
        cluster: SlotCluster,
        jobs: Sequence[SlotJobSpec],
        *,
        ordering: Ordering | None = None,
        placement: Callable[[dict[str, SlotJob]], Placement] = lambda _: FirstFit(),
        seed: int = 0,
    ) -> None:
        """`placement` makes the placement of the jobs, which it gets by name and may read while they run."""
        _check(cluster, jobs)
        self.cluster, self.engine = cluster, Engine()
        self.ordering = HadoopFair() if ordering is None else ordering
        self.racks: NDArray[np.intp] = np.arange(cluster.machines) % cluster.racks
        self.jobs = {
            spec.name: job_of(spec, order, self.racks, cluster.waits, str(seed)) for order, spec in enumerate(jobs)
        }
        for job in self.jobs.values():
            self.engine.at(microseconds(job.spec.at), self._submit, job)
        self.placement, self._rng = placement(self.jobs), Random(f"{seed}/placement")
        self.snapshot = ArraySnapshot(len(NEEDS))
        self.snapshot.pools, self.snapshot.resources = cluster.pools, ("map_slots", "reduce_slots")
        self._free = [[cluster.map_slots, cluster.reduce_slots] for _ in range(cluster.machines)]
        self._versions = 0
        self.snapshot.apply(self._reply(range(cluster.machines), full=True))
        self.snapshot.usage.capacity = self.snapshot.total()
        self._queued: dict[str, SlotJob] = {}
        self._hash = blake2b(digest_size=16)
        self.launched = 0
        first = Random(f"{seed}/heartbeats")
        for machine in range(cluster.machines):
            self.engine.at(microseconds(first.uniform(0.0, cluster.heartbeat)), self._heartbeat, machine)

    def run(self) -> "SlotSimulation":
        """Simulate until all jobs have ended; return itself."""
        self.engine.run()
        return self

    @property
    def digest(self) -> str:
        """A hash over all launches and ends, in order."""
        return self._hash.hexdigest()

    @property
    def ended(self) -> float:
        """When the last job ended (seconds)."""
        return max((job.ended or 0.0 for job in self.jobs.values()), default=0.0)

    @property
    def local(self) -> float:
        """The part of all maps with their block on their machine."""
        launched = [sum(job.levels[level] for job in self.jobs.values()) for level in range(3)]
        return launched[NODE] / sum(launched)

    # Events

    def _submit(self, job: SlotJob) -> None:
        self._queued[job.spec.name] = job
        self._wants(job, MAP, len(job.spec.blocks))
        self._wants(job, REDUCE, job.spec.reduces)

    def _heartbeat(self, machine: int) -> None:
        if any(job.ended is None for job in self.jobs.values()):
            self.engine.at(self.engine.now + microseconds(self.cluster.heartbeat), self._heartbeat, machine)
        self._offer_slots(machine)

    def _offer_slots(self, machine: int) -> None:
        for kind in (MAP, REDUCE):
            while self._free[machine][kind] and self._offer(machine, kind):
                pass

    def _offer(self, machine: int, kind: int) -> bool:
        """Offer a free slot to the jobs in order; return whether one took it."""
        snapshot = self.snapshot
        snapshot.now = self.engine.seconds
        self.ordering.observe(snapshot, snapshot.now)
        only = np.arange(snapshot.size) == machine
        for job in self._in_order(kind):
            work, left = job.work, [0, 0]
            left[kind] = 1
            job.offers += kind == MAP
            claims = self.placement.place(replace(work, left=left), snapshot.narrow(only), self._rng)
            if len(claims):
                snapshot.launch()
                self._launch(job, machine, kind)
                return True
        return False

    def _in_order(self, kind: int) -> Iterator[SlotJob]:
        ordering = self.ordering
        wanting = [job for job in self._queued.values() if job.work.left[kind] and self._may_start(job, kind)]
        places = [
            (ordering.rank(ordering.lane(job.work)), ordering.key(job.work), job.work.job.order, job) for job in wanting
        ]
        return (job for *_, job in sorted(places, key=lambda place: place[:3]))

    def _may_start(self, job: SlotJob, kind: int) -> bool:
        ended = len(job.spec.blocks) - job.maps_left
        return kind == MAP or ended >= self.cluster.slow_start * len(job.spec.blocks)

    def _launch(self, job: SlotJob, machine: int, kind: int) -> None:
        work, now = job.work, self.engine.now
        work.left[kind] -= 1
        work.placed += 1
        self.launched += 1
        self._free[machine][kind] -= 1
        self.snapshot.land(self._reply((machine,)))
        self._holds(job, kind, 1)
        block = -1
        if kind == MAP:
            block, level = job.blocks.take(machine)
            job.levels[level] += 1
            seconds = job.spec.seconds[block] * (1.0 if level == NODE else self.cluster.penalty)
            self.engine.at(now + microseconds(seconds), self._map_ended, (job, machine))
        elif job.maps_left:
            job.waiting.append(machine)
        else:
            self._reduce(job, machine)
        self._note(now, work.job.order, machine, kind, block)
        if not any(work.left):
            del self._queued[job.spec.name]

    def _map_ended(self, ended: tuple[SlotJob, int]) -> None:
        job, machine = ended
        job.maps_left -= 1
        self._end(job, machine, MAP)
        if not job.maps_left:
            waiting, job.waiting = job.waiting, []
            for each in waiting:
                self._reduce(job, each)

    def _reduce(self, job: SlotJob, machine: int) -> None:
        self.engine.at(self.engine.now + microseconds(job.spec.reduce_seconds), self._reduce_ended, (job, machine))

    def _reduce_ended(self, ended: tuple[SlotJob, int]) -> None:
        job, machine = ended
        job.reduces_left -= 1
        self._end(job, machine, REDUCE)

    def _end(self, job: SlotJob, machine: int, kind: int) -> None:
        job.work.ended = [count + (group == kind) for group, count in enumerate(job.work.ended)]
        self._free[machine][kind] += 1
        self.snapshot.apply(self._reply((machine,)))
        self._holds(job, kind, -1)
        if not (job.maps_left or job.reduces_left):
            job.ended = self.engine.seconds
        self._note(self.engine.now, job.work.job.order, machine, -1 - kind)
        if self.cluster.out_of_band:
            self._offer_slots(machine)

    # The snapshot

    def _reply(self, machines: Sequence[int], *, full: bool = False) -> Reply:
        """Return the state of machines as a store would."""
        self._versions += 1
        self.snapshot.forget_freed()
        slots = self.cluster.map_slots, self.cluster.reduce_slots
        rows = [
            (
                m,
                self._versions,
                MachineState.UP,
                0,
                *slots,
                *(has - free for has, free in zip(slots, self._free[m], strict=True)),
            )
            for m in machines
        ]
        return Reply(Position(self._versions, "slots"), full=full, rows=np.array(rows, dtype=np.int64))

    def _wants(self, job: SlotJob, kind: int, count: int) -> None:
        wanted = tuple(count * amount for amount in NEEDS[kind])
        self.snapshot.usage.change(job.work.whose, (0, 0), wanted)

    def _holds(self, job: SlotJob, kind: int, sign: int) -> None:
        """Count a task as held and no longer wanted, or with -1 as ended."""
        need, none = NEEDS[kind], (0, 0)
        self.snapshot.usage.change(job.work.whose, need, none, sign)
        if sign > 0:
            self.snapshot.usage.change(job.work.whose, none, need, -1)

    def _note(self, *numbers: int) -> None:
        self._hash.update(np.array(numbers, dtype=np.int64).tobytes())


def _check(cluster: SlotCluster, jobs: Sequence[SlotJobSpec]) -> None:
    """Raise BadInput for jobs that the cluster cannot run."""
    if len({spec.name for spec in jobs}) < len(jobs):
        raise BadInput("two jobs have the same name")
    for spec in jobs:
        if not {machine for block in spec.blocks for machine in block} <= set(range(cluster.machines)):
            raise BadInput(f"job {spec.name}: a replica on a machine that is not in the cluster")
        if spec.reduces and not cluster.reduce_slots:
            raise BadInput(f"job {spec.name} has reduces, and the cluster no reduce slot")
