"""Worker pools of simulated MapReduce jobs: workers claim shards as live ones; each takes its phase's time."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from omega.cellstate import ranges
from omega.cellstate.cell import Cell
from omega.cellstate.model import Job
from omega.cellstate.resources import Resources
from omega.cellstate.shards import MAP, PHASES, REDUCE, Errand, ShardDurations, Worker
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Placed
from omega.schedulers.sizing import PLAN
from omega.simulation.engine import SECOND, Engine

Ended = Callable[[Sequence[TaskEnd], int, Resources], None]
"""Called when workers leave: their endings, the number of their job, the resources of each."""


@dataclass(slots=True)
class WorkerPool:
    """The workers of a job. `spans` are the milliseconds of a shard by phase; times are microseconds.

    `waiting` workers found all shards of the phase claimed by others.
    """

    job: Job
    shards: tuple[int, int]
    spans: dict[str, int]
    arrived: int
    ended: int | None = None
    alive: set[Worker] = field(default_factory=set)
    surplus: set[Worker] = field(default_factory=set)
    waiting: list[Worker] = field(default_factory=list)

    @property
    def need(self) -> Resources:
        """The resources of a worker."""
        return self.job.groups[0].need


class WorkerPools:
    """All worker pools of a cell."""

    def __init__(self, engine: Engine, cell: Cell, ended: Ended) -> None:
        """Create an empty set of pools."""
        self.engine, self.cell, self.ended = engine, cell, ended
        self.worker_pools: dict[str, WorkerPool] = {}

    def expect(self, job: Job) -> None:
        """Register an arriving job with its number and duration of shards."""
        plan = job.spec[PLAN]
        spans = {MAP: plan["map_ms"], REDUCE: plan["reduce_ms"]}
        self.worker_pools[job.id] = WorkerPool(job, (plan["maps"], plan["reduces"]), spans, self.engine.now)

    def durations(self, job_id: str) -> ShardDurations:
        """Return the duration of the job's shards."""
        spans = self.worker_pools[job_id].spans
        return ShardDurations(1, spans[MAP], spans[REDUCE])

    def seconds(self) -> dict[str, float]:
        """Return the durations of finished jobs from their arrival."""
        pools = self.worker_pools.items()
        return {job_id: (pool.ended - pool.arrived) / SECOND for job_id, pool in pools if pool.ended is not None}

    def start(self, job_id: str, placed: Placed) -> None:
        """Start placed workers."""
        pool = self.worker_pools[job_id]
        new = set(placed.placements)
        workers = [each for each in self._workers(pool, placed.machines) if each.placement in new]
        pool.alive.update(workers)
        if placed.group:
            pool.surplus.update(workers)
        self.engine.at(self.engine.now, self._begin, (pool, workers))

    def _workers(self, pool: WorkerPool, machines: Iterable[int]) -> list[Worker]:
        runs = self.cell.machines.runs(sorted(set(machines)))
        return [
            Worker(run.machine, run.placement, task)
            for run in runs if run.job == pool.job.id and not run.leaving
            for task in ranges.indices(run.tasks)
        ]  # fmt: skip

    def lost(self, job: Job) -> None:
        """Remove lost workers of a job; their claimed shards become free."""
        pool = self.worker_pools.get(job.id)
        if pool is not None:
            machines = {machine for group in job.groups for _, machine, leaves in group.runs if not leaves}
            pool.alive.intersection_update(self._workers(pool, machines))
            self.engine.at(self.engine.now, self._begin, (pool, self._awake(pool)))

    def _awake(self, pool: WorkerPool) -> list[Worker]:
        waiting, pool.waiting = pool.waiting, []
        return waiting

    def _begin(self, what: tuple[WorkerPool, list[Worker]]) -> None:
        pool, workers = what
        for worker in workers:
            self._ask(pool, worker)

    def _ask(self, pool: WorkerPool, worker: Worker) -> Errand | None:
        """Request the worker's next shard from the cell, start it, and return it."""
        if worker not in pool.alive:
            return None
        errand = self.cell.shards.claim(pool.job.id, worker, *pool.shards, self.engine.now // 1000)
        if errand.what in PHASES:
            until = self.engine.now + pool.spans[errand.what] * 1000
            self.engine.at(until, self._done, (pool, worker, errand))
        elif errand.what != "wait" or (worker in pool.surplus and self._reducing(pool)):
            self._leave(pool, worker)
        else:
            pool.waiting.append(worker)
        return errand

    def _reducing(self, pool: WorkerPool) -> bool:
        """Return whether a waiting surplus worker may leave."""
        progress = self.cell.shards.progress(pool.job.id)
        return progress is not None and progress.phase == REDUCE

    def _done(self, what: tuple[WorkerPool, Worker, Errand]) -> None:
        pool, worker, (phase, shard, _) = what
        if worker not in pool.alive:
            return
        job = pool.job
        self.cell.shards.end(job.id, job.name, worker, phase, shard, pool.spans[phase])
        errand = self._ask(pool, worker)
        if errand is not None and errand.what not in (phase, "wait"):
            if errand.what == "done" and pool.ended is None:
                pool.ended = self.engine.now
            self._begin((pool, self._awake(pool)))

    def _leave(self, pool: WorkerPool, worker: Worker) -> None:
        pool.alive.discard(worker)
        ending = TaskEnd(worker.machine, worker.placement, EndKind.FINISHED, str(worker.task))
        self.ended([ending], pool.job.order, pool.need)
