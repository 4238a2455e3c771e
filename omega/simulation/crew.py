"""Worker pools of simulated MapReduce jobs: workers claim shards as live ones; each takes its phase's time."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from cellstate import ranges
from cellstate.cell import Cell
from cellstate.model import Job
from cellstate.resources import Resources
from cellstate.shards import MAP, PHASES, REDUCE, Durations, Errand, Worker
from cellstate.transaction import Ending, How, Placed
from omega.simulation.engine import SECOND, Engine
from schedulers.resizing import PLAN

Ended = Callable[[Sequence[Ending], int, Resources], None]
"""Called when workers leave: their endings, the number of their job, the resources of each."""


@dataclass(slots=True)
class Crew:
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


class Crews:
    """All worker pools of a cell."""

    def __init__(self, engine: Engine, cell: Cell, ended: Ended) -> None:
        """Create an empty set of pools."""
        self.engine, self.cell, self.ended = engine, cell, ended
        self.crews: dict[str, Crew] = {}

    def expect(self, job: Job) -> None:
        """Register an arriving job with its number and duration of shards."""
        plan = job.spec[PLAN]
        spans = {MAP: plan["map_ms"], REDUCE: plan["reduce_ms"]}
        self.crews[job.id] = Crew(job, (plan["maps"], plan["reduces"]), spans, self.engine.now)

    def durations(self, job_id: str) -> Durations:
        """Return the duration of the job's shards."""
        spans = self.crews[job_id].spans
        return Durations(1, spans[MAP], spans[REDUCE])

    def seconds(self) -> dict[str, float]:
        """Return the durations of finished jobs from their arrival."""
        found = self.crews.items()
        return {job_id: (crew.ended - crew.arrived) / SECOND for job_id, crew in found if crew.ended is not None}

    def start(self, job_id: str, placed: Placed) -> None:
        """Start placed workers."""
        crew = self.crews[job_id]
        new = set(placed.placements)
        workers = [each for each in self._workers(crew, placed.machines) if each.placement in new]
        crew.alive.update(workers)
        if placed.group:
            crew.surplus.update(workers)
        self.engine.at(self.engine.now, self._begin, (crew, workers))

    def _workers(self, crew: Crew, machines: Iterable[int]) -> list[Worker]:
        runs = self.cell.runs(sorted(set(machines)))
        return [
            Worker(run.machine, run.placement, task)
            for run in runs if run.job == crew.job.id and not run.leaving
            for task in ranges.indices(run.tasks)
        ]  # fmt: skip

    def lost(self, job: Job) -> None:
        """Remove lost workers of a job; their claimed shards become free."""
        crew = self.crews.get(job.id)
        if crew is not None:
            machines = {machine for group in job.groups for _, machine, leaves in group.runs if not leaves}
            crew.alive.intersection_update(self._workers(crew, machines))
            self.engine.at(self.engine.now, self._begin, (crew, self._awake(crew)))

    def _awake(self, crew: Crew) -> list[Worker]:
        waiting, crew.waiting = crew.waiting, []
        return waiting

    def _begin(self, what: tuple[Crew, list[Worker]]) -> None:
        crew, workers = what
        for worker in workers:
            self._ask(crew, worker)

    def _ask(self, crew: Crew, worker: Worker) -> Errand | None:
        """Request the worker's next shard from the cell, start it, and return it."""
        if worker not in crew.alive:
            return None
        errand = self.cell.claim_shard(crew.job.id, worker, *crew.shards, self.engine.now // 1000)
        if errand.what in PHASES:
            until = self.engine.now + crew.spans[errand.what] * 1000
            self.engine.at(until, self._done, (crew, worker, errand))
        elif errand.what != "wait" or (worker in crew.surplus and self._reducing(crew)):
            self._leave(crew, worker)
        else:
            crew.waiting.append(worker)
        return errand

    def _reducing(self, crew: Crew) -> bool:
        """Return whether a waiting surplus worker may leave."""
        progress = self.cell.progress(crew.job.id)
        return progress is not None and progress.phase == REDUCE

    def _done(self, what: tuple[Crew, Worker, Errand]) -> None:
        crew, worker, (phase, shard, _) = what
        if worker not in crew.alive:
            return
        job = crew.job
        self.cell.end_shard(job.id, job.name, worker, phase, shard, crew.spans[phase])
        errand = self._ask(crew, worker)
        if errand is not None and errand.what not in (phase, "wait"):
            if errand.what == "done" and crew.ended is None:
                crew.ended = self.engine.now
            self._begin((crew, self._awake(crew)))

    def _leave(self, crew: Crew, worker: Worker) -> None:
        crew.alive.discard(worker)
        ending = Ending(worker.machine, worker.placement, How.FINISHED, str(worker.task))
        self.ended([ending], crew.job.order, crew.need)
