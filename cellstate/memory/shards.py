"""The shards of MapReduce jobs in memory; ``lua/claim_shard.lua`` and ``lua/end_shard.lua``. Nothing expires."""

from cellstate.memory.publish import MemoryPublish
from cellstate.memory.ranges import NONE, Spans, span_add, span_count, span_split, span_take
from cellstate.shards import MAP, REDUCE, TRIES, Durations, Errand, PhaseCount, Progress, Worker


class _Phase:
    """The shards of one phase; `waiting`: nobody works on them."""

    def __init__(self, total: int) -> None:
        self.total, self.done, self.milliseconds = total, 0, 0
        self.waiting: Spans = (0, total - 1)

    def counted(self) -> PhaseCount:
        return PhaseCount(self.total, span_count(self.waiting), self.done, self.milliseconds)


class Table:
    """The shards of a job: by phase, in whose hands, failures of each, who finished each, which one failed for good."""

    def __init__(self, maps: int, reduces: int) -> None:
        """Nobody works on any."""
        self.phases = {MAP: _Phase(maps), REDUCE: _Phase(reduces)}
        self.held: dict[Worker, int] = {}
        self.tries: dict[tuple[str, int], int] = {}
        self.finishers: dict[tuple[str, int], str] = {}
        self.failed = ""

    def now(self) -> str | None:
        """The phase that runs; None when all is done."""
        return next((name for name, phase in self.phases.items() if phase.done < phase.total), None)


class MemoryShards(MemoryPublish):
    """What the workers of MapReduce jobs ask of the cell; `tables` by job, `learnt` by its name."""

    tables: dict[str, Table]
    learnt: dict[str, Durations]

    def claim_shard(self, job_id: str, worker: Worker, maps: int, reduces: int) -> Errand:
        """See Cell.claim_shard."""
        self.unfold()
        if not self.is_live(job_id, worker):
            return Errand("fenced")
        known = self.tables.get(job_id)
        table = known or Table(maps, reduces)
        if table.failed:
            phase, shard = table.failed.split(" ")
            return Errand("failed", int(shard), phase)
        what = table.now()
        if what is None:
            return Errand("done")
        if worker in table.held:
            return Errand(what, table.held[worker])
        p = table.phases[what]
        if not p.waiting:
            for holder in [holder for holder in table.held if not self.is_live(job_id, holder)]:
                shard_back = table.held.pop(holder)
                p.waiting = span_add(p.waiting, (shard_back, shard_back))
        if not p.waiting:
            return Errand("wait")
        (shard_taken, _), p.waiting = span_take(p.waiting, 1)
        table.held[worker] = shard_taken
        self.tables[job_id] = table
        return Errand(what, shard_taken)

    def is_live(self, job_id: str, worker: Worker) -> bool:
        """Whether a worker's task is placed where it says, and not leaving."""
        m = self.M.get(worker.machine)
        g, tasks = m.runs.get(worker.placement, (None, NONE)) if m and worker.placement > 0 else (None, NONE)
        return g is not None and g.job.id == job_id and span_split(tasks, (worker.task, worker.task))[0] != NONE

    def end_shard(
        self, job_id: str, name: str, worker: Worker, phase: str, shard: int, milliseconds: int, *, failed: bool = False
    ) -> bool:
        """See Cell.end_shard."""
        table = self.tables.get(job_id)
        if table is None:
            return False
        if table.held.get(worker) != shard or table.now() != phase:
            return table.finishers.get((phase, shard)) == worker.mark and not failed
        del table.held[worker]
        p = table.phases[phase]
        if failed:
            count = table.tries[phase, shard] = table.tries.get((phase, shard), 0) + 1
            p.waiting = span_add(p.waiting, (shard, shard))
            if count >= TRIES:
                table.failed = f"{phase} {shard}"
        else:
            p.done, p.milliseconds = p.done + 1, p.milliseconds + milliseconds
            table.finishers[phase, shard] = worker.mark
            if phase == REDUCE and p.done == p.total:
                self.learn(name, table)
        return True

    def learn(self, name: str, table: Table) -> None:
        """Remember how long the activities of a job that is done took."""
        known = self.learnt.get(name, Durations(0, 0, 0))
        weight = min(known.runs, 9)
        now = [phase.milliseconds // phase.total for phase in table.phases.values()]
        means = [(before * weight + mean) // (weight + 1) for before, mean in zip(known[1:], now, strict=True)]
        self.learnt[name] = Durations(known.runs + 1, *means)

    def progress(self, job_id: str) -> Progress | None:
        """See Cell.progress."""
        table = self.tables.get(job_id)
        if table is None:
            return None
        return Progress(table.phases[MAP].counted(), table.phases[REDUCE].counted(), len(table.held), table.failed)

    def finishers(self, job_id: str, phase: str, count: int) -> list[str | None]:
        """See Cell.finishers."""
        table = self.tables.get(job_id)
        return [table.finishers.get((phase, shard)) if table else None for shard in range(count)]

    def durations(self, name: str) -> Durations | None:
        """See Cell.durations."""
        return self.learnt.get(name)
