"""A simulated Hadoop cluster: machines with map and reduce slots, racks, replicated blocks, and heartbeats.

A machine offers its free slots with each heartbeat, as Hadoop's task trackers do, and all of them in one. Each slot
goes to the first job by the ordering whose placement takes it. A map without its block on its machine takes `penalty`
times as long. Ordering and placement are those of a scheduler; the placement sees the machine of the offer alone.
"""

from array import array
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from operator import sub
from random import Random

import numpy as np

from omega.cellstate.array_snapshot import ArraySnapshot
from omega.cellstate.errors import BadInput
from omega.cellstate.model import MachineState
from omega.cellstate.pools import Pools
from omega.cellstate.replies import Reply
from omega.cellstate.transaction import Position
from omega.schedulers.comparisons.hadoop import HadoopFair
from omega.schedulers.placement.first_fit import FirstFit
from omega.schedulers.policies import Ordering, Placement
from omega.simulation.engine import Engine, microseconds
from omega.simulation.slot_delay import SlotDelay
from omega.simulation.slot_jobs import MAP, NODE, REDUCE, Blocks, SlotJob, SlotJobSpec, work_of
from omega.simulation.slot_queue import SlotQueue

NEEDS = ((1, 0), (0, 1))
"""The slots of a map and of a reduce."""
NOTHING = (0, 0)


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
        active: int | None = None,
    ) -> None:
        """`placement` makes the placement of the jobs, which it gets by name and may read while they run.

        With `active` so many jobs run at most at a time: the next one is submitted when one has ended.
        """
        _check(cluster, jobs)
        self.cluster, self.engine = cluster, Engine()
        self.snapshot = ArraySnapshot(len(NEEDS))
        self.snapshot.pools, self.snapshot.resources = cluster.pools, ("map_slots", "reduce_slots")
        self._free = [[cluster.map_slots, cluster.reduce_slots] for _ in range(cluster.machines)]
        self._versions = 0
        self._restate(range(cluster.machines), full=True)
        self.snapshot.usage.capacity = self.snapshot.total()
        self._stale: dict[int, None] = {}
        """Machines whose state the snapshot lacks."""
        self._racks = [machine % cluster.racks for machine in range(cluster.machines)]
        self.jobs = {spec.name: self._job(spec, order, str(seed)) for order, spec in enumerate(jobs)}
        self._active, self._later = active, deque[SlotJob]()
        for job in self.jobs.values():
            self.engine.at(microseconds(job.spec.at), self._submit, job)
        self.queue = SlotQueue(HadoopFair() if ordering is None else ordering)
        self.placement, self._rng = placement(self.jobs), Random(f"{seed}/placement")
        self._takes = self._decision()
        self._hash, self._noted = blake2b(digest_size=16), array("q")
        self.launched, self._unfinished = 0, len(self.jobs)
        first = Random(f"{seed}/heartbeats")
        self._interval = microseconds(cluster.heartbeat)
        self._beats = [microseconds(first.uniform(0.0, cluster.heartbeat)) for _ in range(cluster.machines)]
        """The time of each machine's next heartbeat with free slots (microseconds)."""
        self._expected = [True] * cluster.machines
        """Whether this heartbeat is due; a machine without a free slot has nothing to offer."""
        for machine, time in enumerate(self._beats):
            self.engine.at(time, self._heartbeat, machine)

    def _job(self, spec: SlotJobSpec, order: int, seed: str) -> SlotJob:
        waits, maps, reduces = self.cluster.waits, len(spec.blocks), len(spec.reduces)
        work, early = work_of(spec, order, waits), maps - self.cluster.slow_start * maps
        blocks = Blocks(spec.blocks, self._racks, Random(f"{seed}/blocks/{spec.name}"))
        work.ended = done = [0, 0]
        return SlotJob(spec, work, blocks, waits, early, self.snapshot.usage.account(work.whose), done, maps, reduces)

    def run(self) -> "SlotSimulation":
        """Simulate until all jobs have ended; return itself."""
        self.engine.run()
        self._update()
        return self

    @property
    def digest(self) -> str:
        """A hash over all launches and ends, in order."""
        self._hash.update(self._noted.tobytes())
        self._noted = array("q")
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

    @property
    def offers(self) -> int:
        """Free slots that were offered to a job, and taken or refused by it."""
        return sum(job.offers + len(job.spec.reduces) - job.work.left[REDUCE] for job in self.jobs.values())

    # Events

    def _submit(self, job: SlotJob) -> None:
        if self._active is not None:
            if not self._active:
                self._later.append(job)
                return
            self._active -= 1
        for kind, count in ((MAP, len(job.spec.blocks)), (REDUCE, len(job.spec.reduces))):
            self.snapshot.usage.change(job.work.whose, NOTHING, tuple(count * amount for amount in NEEDS[kind]))
        self.queue.join(job)

    def _heartbeat(self, machine: int) -> None:
        self._expected[machine] = False
        self._beats[machine] = self.engine.now + self._interval
        self._offer_slots(machine)
        if self._unfinished:
            self._expect(machine)

    def _expect(self, machine: int) -> None:
        """Make a machine with free slots offer them with its next heartbeat."""
        maps, reduces = self._free[machine]
        if self._expected[machine] or not (maps or reduces):
            return
        late = self.engine.now - self._beats[machine]
        if late > 0:  # heartbeats passed while it had nothing to offer
            self._beats[machine] -= -late // self._interval * self._interval
        self._expected[machine] = True
        self.engine.at(self._beats[machine], self._heartbeat, machine)

    def _offer_slots(self, machine: int) -> None:
        free, queue = self._free[machine], self.queue
        for kind in (MAP, REDUCE):
            while free[kind] and queue.wanted(kind) and self._offer(machine, kind):
                pass

    def _offer(self, machine: int, kind: int) -> bool:
        """Offer a free slot to the jobs in order; return whether one took it."""
        snapshot, now, takes = self.snapshot, self.engine.seconds, self._takes
        snapshot.now = now
        for job in self.queue.in_order(kind, snapshot, now):
            job.offers += kind == MAP
            if takes(job, kind, machine, now):
                self._launch(job, machine, kind)
                return True
        return False

    def _launch(self, job: SlotJob, machine: int, kind: int) -> None:
        work, now = job.work, self.engine.now
        work.left[kind] -= 1
        work.placed += 1
        self.launched += 1
        self._free[machine][kind] -= 1
        self._stale[machine] = None
        need = NEEDS[kind]
        self.snapshot.usage.move(job.account, had=NOTHING, held=need, wanted_before=need, wanted=NOTHING)
        self.queue.change(job)
        block = -1
        if kind == MAP:
            block, level = job.blocks.take(machine)
            job.levels[level] += 1
            seconds = job.spec.seconds[block] * (1.0 if level == NODE else self.cluster.penalty)
            self.engine.at(now + microseconds(seconds), self._map_ended, (job, machine))
        else:
            seconds = job.spec.reduces[work.left[REDUCE]]
            if job.maps_left:
                job.waiting.append((machine, seconds))
            else:
                self._reduce(job, machine, seconds)
        self._noted.extend((now, work.job.order, machine, kind, block))

    def _map_ended(self, ended: tuple[SlotJob, int]) -> None:
        job, machine = ended
        job.maps_left -= 1
        self._end(job, machine, MAP)
        if not job.maps_left:
            waiting, job.waiting = job.waiting, []
            for each, seconds in waiting:
                self._reduce(job, each, seconds)

    def _reduce(self, job: SlotJob, machine: int, seconds: float) -> None:
        self.engine.at(self.engine.now + microseconds(seconds), self._reduce_ended, (job, machine))

    def _reduce_ended(self, ended: tuple[SlotJob, int]) -> None:
        job, machine = ended
        job.reduces_left -= 1
        self._end(job, machine, REDUCE)

    def _end(self, job: SlotJob, machine: int, kind: int) -> None:
        work, need = job.work, NEEDS[kind]
        job.done[kind] += 1
        self._free[machine][kind] += 1
        self._stale[machine] = None
        self.snapshot.usage.move(job.account, had=need, held=NOTHING, wanted_before=NOTHING, wanted=NOTHING)
        self.queue.change(job)
        if not (job.maps_left or job.reduces_left):
            job.ended = self.engine.seconds
            self._unfinished -= 1
            if self._active is not None:
                self._active += 1
                if self._later:
                    self._submit(self._later.popleft())
        self._noted.extend((self.engine.now, work.job.order, machine, -1 - kind))
        if self.cluster.out_of_band:
            self._offer_slots(machine)
        self._expect(machine)

    # Decisions

    def _decision(self) -> Callable[[SlotJob, int, int, float], bool]:
        """Return what decides whether a job takes a slot: without a search of machines where the placement can."""
        placement = self.placement
        if type(placement) is FirstFit:
            return lambda *_: True
        if type(placement) is SlotDelay and type(placement.inner) is FirstFit:
            return placement.takes_slot
        return self._places

    def _places(self, job: SlotJob, kind: int, machine: int, now: float) -> bool:
        """Return whether a placement finds room for a task on a machine alone."""
        self._update()
        snapshot, left = self.snapshot, [0, 0]
        left[kind] = 1
        mark, only = snapshot.mark(), np.arange(snapshot.size) == machine
        claims = self.placement.place(replace(job.work, left=left), snapshot.narrow(only), self._rng)
        snapshot.undo(mark)
        return bool(len(claims))

    def _update(self) -> None:
        """Give the snapshot the state of the machines that changed."""
        if self._stale:
            self._restate([*self._stale])
            self._stale.clear()

    def _restate(self, machines: Sequence[int], *, full: bool = False) -> None:
        """Apply the state of machines, as a store would report it."""
        self._versions += 1
        slots = self.cluster.map_slots, self.cluster.reduce_slots
        rows = [(m, self._versions, MachineState.UP, 0, *slots, *map(sub, slots, self._free[m])) for m in machines]
        self.snapshot.forget_freed()
        self.snapshot.apply(Reply(Position(self._versions, "slots"), full=full, rows=np.array(rows, dtype=np.int64)))


def _check(cluster: SlotCluster, jobs: Sequence[SlotJobSpec]) -> None:
    """Raise BadInput for jobs that the cluster cannot run."""
    if len({spec.name for spec in jobs}) < len(jobs):
        raise BadInput("two jobs have the same name")
    for spec in jobs:
        if not {machine for block in spec.blocks for machine in block} <= set(range(cluster.machines)):
            raise BadInput(f"job {spec.name}: a replica on a machine that is not in the cluster")
        if spec.reduces and not cluster.reduce_slots:
            raise BadInput(f"job {spec.name} has reduces, and the cluster no reduce slot")
