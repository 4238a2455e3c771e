"""A simulation: a workload, settings and a seed become a result."""

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from itertools import cycle
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np

from omega.cellstate.cell import Cell
from omega.cellstate.errors import BadInput
from omega.cellstate.model import Job, JobSpec
from omega.cellstate.pools import Pools
from omega.cellstate.transaction import Detection, Mode, Transaction
from omega.schedulers.job_fields import JobField
from omega.schedulers.ordering.without_pools import Fifo, Rejoin
from omega.schedulers.placement.arranging import arranged
from omega.schedulers.placement.first_fit import Draws, FirstFit, RandomFit
from omega.schedulers.placement.service import BestFit
from omega.schedulers.policies import Placement
from omega.schedulers.retrying import RetryPolicy
from omega.schedulers.scheduler import Scheduler
from omega.schedulers.sharing import Ownership, divided, leaf_of_job, rendezvous
from omega.schedulers.sizing import PLAN
from omega.schedulers.work import Work
from omega.simulation.architectures import Monolithic, Partitioned, Shared, parts
from omega.simulation.changing import ChangingWorld
from omega.simulation.drive import Architecture, SimulatedScheduler, work_of
from omega.simulation.engine import SECOND
from omega.simulation.events import Events
from omega.simulation.owners import Owners
from omega.simulation.packed_snapshot import PackedSnapshot
from omega.simulation.records import Recorder
from omega.simulation.residents import roomy, standing, waiting, waiting_last
from omega.simulation.result import Result, Tally, summed_up
from omega.simulation.settings import KINDS, Settings
from omega.simulation.simulated_store import RESIDENTS, MemoryStore, ServerStore, SimulatedStore
from omega.simulation.two_level import TwoLevel
from omega.simulation.world import RESIDENT, World, spans_of
from omega.workload.job_fields import with_fields
from omega.workload.workload import Arrival, Workload, stream

if TYPE_CHECKING:
    from omega.simulation.pool_history import PoolClock

JOBS_PER_CALL = 512
"""Jobs are written into the cell so many at a time, ahead of their arrival at a scheduler."""
SPREAD = 256
"""Simulated schedulers of a kind share its jobs in so many parts."""
REFERENCE_RETRIES = RetryPolicy(seconds=1.0, attempts=1_001, fruitless=101)
"""Given up after more than 1,000 attempts, or more than 100 with nothing placed (the authors' simulator)."""
OFFERS_RETRIES = RetryPolicy(seconds=0.0, attempts=1_000)
"""A scheduler that sees only offers cannot wait for room: 1,000 attempts a job (Omega §4.2)."""
PLACEMENT: Mapping[str, Callable[[], Placement]] = {
    "random": RandomFit, "first-fit": FirstFit, "best-fit": lambda: BestFit(apart=1),
}  # fmt: skip

Progress = Callable[[float], None]
Seconds = Callable[[Job, int, int, int], float]
"""Returns how long a task runs (seconds): job, group, index of the task, machine."""


class Simulation:
    """One run of a workload.

    `cell`, an empty cell on a real store, keeps the authoritative state instead of one in memory; the result
    is the same. `progress` is called with the share of time that passed, a hundred times. `own` are
    other schedulers: they decide on the jobs of their kinds, beside the others or in place of those of a kind, and
    several of one kind share its jobs; a single one may be the monolithic scheduler, which decides on all jobs.
    `pools` are those of the workload when not given; with pools all schedulers follow the tree. `seconds` returns how
    long a task runs, by job, group, index of the task and machine, instead of the workload. With `records` the result
    has a record of every task.
    """

    def __init__(
        self, workload: Workload, settings: Settings, *, own: Scheduler | Sequence[Scheduler] | None = None,
        cell: Cell | None = None, progress: Progress | None = None, pools: Pools | None = None,
        seconds: Seconds | None = None, records: bool = False,
    ) -> None:  # fmt: skip
        """Raises BadInput when the workload has jobs that no scheduler is for, or an architecture cannot take one."""
        owned = [] if own is None else [own] if isinstance(own, Scheduler) else list(own)
        self.own = {kind: [each for each in owned if each.kind == kind] for kind in {each.kind: 0 for each in owned}}
        self.kinds = (*KINDS, *(kind for kind in self.own if kind not in KINDS))
        _check_own(owned, settings.architecture)
        unknown = {arrival.job.kind for arrival in workload.arrivals} - set(self.kinds)
        if unknown:
            kinds = ", ".join(sorted(unknown))
            raise BadInput(f"workload: jobs of kind {kinds}; there are schedulers for {', '.join(self.kinds)}")
        if copied := next((each.job.name for each in workload.arrivals if "speculation" in each.job.spec), None):
            raise BadInput(f"workload: job {copied} has speculation; omega sim copies simulates that, with slow tasks")
        self.settings, self._progress = settings, progress
        workload = replace(workload, residents=[waiting_last(each) for each in workload.residents])
        self.workload = with_fields(workload, self._fields_of)
        moves = settings.releases_move
        self.pools = workload.pools if pools is None else pools
        pooled = self.pools.configured
        evicts = pooled or any(each.preemption.evicts for each in owned)
        sizes = any(each.sizing is not None for each in owned)
        # A scheduler that evicts needs numbers to detect that a machine's tasks are unchanged.
        changing = evicts or sizes or bool(workload.events)
        numbered = evicts or Detection.COARSE in (settings.detection, *(each.detection for each in owned))
        counted = pooled or any(each.counts_use for each in owned)
        self.store: SimulatedStore = (
            MemoryStore(
                "simulation",
                workload.dimensions,
                release_moves_number=moves,
                numbered=numbered,
                counted=counted,
                keeps=any(each.job.after for each in workload.arrivals),
            )
            if cell is None
            else ServerStore(cell, release_moves_number=moves)
        )
        self.world = self._world(numbered=numbered, changing=changing)
        self.world.spans = spans_of(workload, seconds)
        self.recorder = self.world.recorder = Recorder() if records else None
        self.world.ends_abandoned = not settings.reference_rules
        self.tally = Tally()
        self._resident_draws = stream(settings.seed, "residents")
        self._written = self._arrived = 0
        # Measurements of pending jobs and demand must not include jobs before their arrival.
        self._ahead = 1 if counted or sizes else JOBS_PER_CALL
        self.world.pools = self.pools
        self.architecture = self._architecture()
        self.simulated_schedulers = self._simulated()
        self._route = self._routes()
        self.world.deliver = self._deliver_again
        self.world.residents = len(workload.residents)
        if isinstance(self.world, ChangingWorld):
            self.world.scheduler_of = self._scheduler_of
            self.world.waiting_residents = frozenset(each.job.id for each in workload.residents if any(waiting(each)))

    def _fields_of(self, kind: str) -> Sequence[JobField]:
        """Return the fields of jobs of a kind; a monolithic scheduler decides on all kinds."""
        alone = self.settings.architecture.startswith("monolithic")
        own = next(iter(self.own.values()), []) if alone else self.own.get(kind, [])
        return list(dict.fromkeys(field for each in own for field in each.job_fields))

    def _world(self, *, numbered: bool, changing: bool) -> World:
        completed, horizon = self.settings.reference_rules, self.settings.horizon
        if not changing:
            return World(self.store, horizon, completed=completed, numbered=numbered)
        return ChangingWorld(self.store, horizon, completed=completed, numbered=numbered)

    @cached_property
    def clock(self) -> "PoolClock":
        """The epochs of a cell with pools."""
        from omega.simulation.pool_history import PoolClock  # noqa: PLC0415 - few simulations compute fair shares

        return PoolClock(self.world, self.store, self.pools, self.workload.capacity)

    def _scheduler_of(self, job: Job) -> SimulatedScheduler | None:
        """Return the scheduler of a job; None when no scheduler serves its kind."""
        return self._route(job) if job.kind in self.kinds else None

    def _deliver_again(self, job: Job) -> None:
        """Deliver a job that is pending again, or not before now."""
        if (simulated := self._scheduler_of(job)) is not None:
            simulated.tell(job)

    def run(self) -> Result:
        """Simulate from beginning to end."""
        with _uncollected():
            return self._run()

    def _run(self) -> Result:
        world, engine = self.world, self.world.engine
        self._begin()
        if self.pools.configured:
            self._divide_pools()
            self.clock.start()
        if isinstance(self.architecture, TwoLevel):
            self.architecture.open()
            world.on_end = self.architecture.ended
        for simulated in self.simulated_schedulers:
            simulated.start()
        arrivals = self.workload.arrivals
        times: list[int] = np.rint(np.array([each.at_seconds for each in arrivals]) * SECOND).astype(np.int64).tolist()
        engine.feed(times, [each.job for each in arrivals], self._arrive)
        if self._progress is not None:
            for i in range(1, 101):
                engine.at(world.horizon * i // 100, self._progress, i / 100)
        engine.run(world.horizon)
        engine.now, engine.seconds = world.horizon, world.horizon / SECOND
        for simulated in self.simulated_schedulers:
            simulated.close()
        self.tally.submit([arrival.job for arrival in self.workload.arrivals[: self._arrived]])
        result = summed_up(self.workload, self.settings, world, self.tally, self.simulated_schedulers, self.kinds)
        if self.recorder is not None:
            arrivals = self.workload.arrivals[: self._arrived]
            result = replace(result, records=self.recorder.records(self.workload.residents, arrivals))
        return replace(result, pools=self.clock.history()) if self.pools.configured else result

    # Schedulers

    def _architecture(self) -> Architecture:
        name = self.settings.architecture
        if name == "two-level":
            return TwoLevel(self.world, self.settings.offered)
        if name == "partitioned":
            return Partitioned(dict(enumerate(parts(len(self.workload.machines), self._partitions()).values())))
        return Shared() if name == "shared-state" else Monolithic()

    def _simulated(self) -> list[SimulatedScheduler]:
        settings = self.settings
        if settings.architecture.startswith("monolithic"):
            names = ["monolithic/0"]
        else:
            # The parts of a partitioned cell are in the order of its shares.
            kinds = self._shares() if settings.architecture == "partitioned" else self.kinds
            names = [f"{kind}/{i}" for kind in kinds for i in range(self._number(kind))]
        simulated = [
            SimulatedScheduler(number, name, self._scheduler(name), self.world, self.architecture)
            for number, name in enumerate(names)
        ]
        if self.recorder is not None:
            for each in simulated:
                each.scheduler.instruments.append(self.recorder)
        return simulated

    def _number(self, kind: str) -> int:
        """Return the number of schedulers of a kind."""
        return max(self.settings.number_of(kind), len(self.own.get(kind, ())))

    def _scheduler(self, name: str) -> Scheduler:
        settings, (kind, _, number) = self.settings, name.partition("/")
        own = next(iter(self.own.values()), []) if kind == "monolithic" else self.own.get(kind, [])
        if own:
            scheduler = own[int(number) % len(own)].fresh(f"{settings.seed}/{name}")
            scheduler.follows_pools |= type(scheduler.ordering) is type(
                Scheduler(kind).ordering
            )  # it has none of its own
            scheduler.ownership = self._ownership(name)
            if settings.architecture == "two-level":
                scheduler.retry_policy, scheduler.detection = scheduler.retry_policy or OFFERS_RETRIES, Detection.FINE
            return scheduler
        paths = {each: settings.decision_time(each) for each in KINDS}
        offers = settings.architecture == "two-level"
        retry_policy = REFERENCE_RETRIES if settings.reference_rules else OFFERS_RETRIES if offers else None
        return Scheduler(
            kind, ordering=Rejoin() if retry_policy else Fifo(), placement=PLACEMENT[settings.placement](),
            mode=settings.commit, detection=Detection.FINE if offers else settings.detection,  # no offer conflicts
            jobs_per_call=1_000_000 if offers and settings.offered.several_jobs else 1,
            paths=paths, retry_policy=retry_policy,
            rng=Draws(f"{settings.seed}/{name}"), follows_pools=retry_policy is None, ownership=self._ownership(name),
        )  # fmt: skip

    def _ownership(self, name: str) -> Ownership:
        """Which jobs are a scheduler's own among those of its kind."""
        kind, _, _ = name.partition("/")
        number, pools = 1 if kind == "monolithic" else self._number(kind), self.pools
        members = (name,) if number == 1 else tuple(f"{kind}/{each}" for each in range(number))
        return Ownership(name, members, divided(pools.leaves, members) if pools.configured else None)

    def _partitions(self) -> dict[str, float]:
        """Return the share of each scheduler's partition: those of a kind share the kind's part."""
        numbers = {kind: self._number(kind) for kind in self._shares()}
        shares = self._shares().items()
        return {f"{kind}/{i}": share / numbers[kind] for kind, share in shares for i in range(numbers[kind])}

    def _shares(self) -> dict[str, float]:
        """Return the parts of a partitioned cell; a kind of one's own has a mean one."""
        shares = dict(self.settings.shares)
        return {kind: shares.get(kind, sum(shares.values()) / len(shares)) for kind in self.kinds}

    def _divide_pools(self) -> None:
        """Let several schedulers of a kind divide the leaf pools by what these cost them, as live."""
        world = self.world
        for kind in self.kinds:
            each = [simulated for simulated in self.simulated_schedulers if simulated.name.startswith(f"{kind}/")]
            if len(each) > 1:
                Owners(
                    each, self.pools.leaves, world.engine, self.store.job,
                    lambda job: self._deliver_again(world.numbered_as_arrived(job)),
                ).start()  # fmt: skip

    def _routes(self) -> Callable[[JobSpec | Job], SimulatedScheduler]:
        """Which scheduler a job goes to."""
        by_kind = {
            kind: [simulated for simulated in self.simulated_schedulers if simulated.name.startswith(f"{kind}/")]
            for kind in self.kinds
        }
        if not by_kind["batch"]:
            only = self.simulated_schedulers[0]
            return lambda _: only
        if self.settings.shared_by == "round-robin":
            turns = {kind: cycle(simulated_schedulers) for kind, simulated_schedulers in by_kind.items()}
            return lambda spec: next(turns[spec.kind])
        if all(len(simulated_schedulers) == 1 for simulated_schedulers in by_kind.values()):
            alone = {kind: simulated_schedulers[0] for kind, simulated_schedulers in by_kind.items()}
            return lambda spec: alone[spec.kind]
        names = {each.name: each for each in self.simulated_schedulers}

        def owner(spec: JobSpec | Job) -> SimulatedScheduler:
            """The owner of a job, as live; among several by rendezvous hashing, but finer: there are no lanes here."""
            owners = by_kind[spec.kind][0].scheduler.ownership.owners_of(leaf_of_job(spec.spec))
            return names[rendezvous(owners, SPREAD)[spread_of(spec.id)]]

        return owner

    # Jobs

    def _begin(self) -> None:
        """Build the cell: machines, residents, and the events to come."""
        workload, world, store = self.workload, self.world, self.store
        if workload.events:
            if isinstance(self.architecture, TwoLevel) or not isinstance(world, ChangingWorld):
                raise BadInput(f"simulation: {self.settings.architecture}: its allocator knows no events of machines")
            events = Events(world)
            for event in workload.events:
                events.at(event)
        placed = [each for each in workload.residents if each.machines]
        store.join(roomy(workload) if placed and store.checks_residents else workload.machines)
        specs = [each.job for each in workload.residents]
        for start in range(0, len(specs), JOBS_PER_CALL):
            store.submit(specs[start : start + JOBS_PER_CALL], 0)
        self.tally.resident_tasks = sum(spec.total for spec in specs)
        copy = world.copy()
        for order, each in enumerate(workload.residents):
            work = work_of(each.job, -1 - order, 0)
            if each.machines:
                self._settle(each, work.job)
            else:
                self._scatter(work, copy)
        if placed and store.checks_residents:
            store.join(workload.machines)
        for each in placed:
            if sum(waiting(each)):
                self.tally.waits(each.job.kind, sum(waiting(each)))
                self._deliver_resident(each.job.id)

    def _settle(self, resident: Arrival, job: Job) -> None:
        """Place the running tasks of a resident on their machines."""
        world = self.world
        for group, machines in standing(resident, len(self.workload.machines)):
            run = self.store.put(job.id, group, machines)
            world.start_resident(job, run)
            self.tally.residents_placed += len(machines)

    def _scatter(self, work: Work, copy: PackedSnapshot) -> None:
        """Place each task of a resident on a random machine."""
        self.store.refresh(copy)
        claims = arranged(RandomFit(), work, copy, self._resident_draws)
        if claims:
            mode = Mode.GANG if work.job.gang else Mode.INCREMENTAL
            transaction = Transaction(work.id, claims, mode, Detection.FINE)
            outcome = self.world.commit(RESIDENT, RESIDENTS, work.job, transaction, copy)
            copy.settle(stands=outcome.accepted)
            self.tally.residents_placed += outcome.placed

    def _deliver_resident(self, job_id: str) -> None:
        """Give a resident with waiting tasks to its scheduler, when the run begins."""
        job = self.store.job(job_id)
        if job is not None and job.kind in self.kinds and job.pending:
            self.world.engine.at(0, lambda work: self._route(work.job).deliver(work), Work.of(job))

    def _arrive(self, spec: JobSpec) -> None:
        arrived, now = self._arrived, self.world.engine.now
        if arrived == self._written:
            last = arrived + self._ahead
            # Jobs of one instant are submitted by one call.
            at = self.workload.arrivals[last - 1 : last][0].at_seconds if self._ahead == 1 else None
            while (
                at is not None and last < len(self.workload.arrivals) and self.workload.arrivals[last].at_seconds == at
            ):
                last += 1
            chunk = self.workload.arrivals[arrived:last]
            self.store.submit([arrival.job for arrival in chunk], now // 1000)
            self._written += len(chunk)
        self._arrived = arrived + 1
        if spec.spec and PLAN in spec.spec and isinstance(self.world, ChangingWorld):
            self.world.arrived(spec.id)
        elif spec.after and self.world.follows(spec.id):
            pass  # it is delivered when the jobs that it waits for have ended
        else:
            self._route(spec).deliver(work_of(spec, arrived + 1, now))


def _check_own(own: Sequence[Scheduler], architecture: str) -> None:
    """Raise BadInput for schedulers that an architecture cannot take."""
    if architecture.startswith("monolithic") and len(own) > 1:
        raise BadInput(f"simulation: {len(own)} schedulers of your own; {architecture} has one for all jobs")
    for each in own:
        if architecture == "two-level" and (each.preemption.evicts or each.sizing is not None):
            what = "evicts" if each.preemption.evicts else "sizes jobs"
            raise BadInput(f"simulation: scheduler {each.kind} {what}, and sees only offers in two-level")


@contextmanager
def _uncollected() -> Iterator[None]:
    """Let the collector of cycles rest: a run leaves none, and it would go over all live objects again and again."""
    ran = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if ran:
            gc.enable()


def spread_of(job_id: str) -> int:
    """Where a job is among `SPREAD`: a hash of its id."""
    return crc32(job_id.encode()) % SPREAD
