"""The shards of MapReduce jobs in memory; ``lua/claim_shard.lua`` and ``lua/end_shard.lua``. Nothing expires.

Of the state of a cell: its `tables` by job, and `learnt` by the name of a job.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from omega.cellstate.memory.state import State
from omega.cellstate.ranges import NONE, Flat, span_add, span_count, span_read, span_split, span_text
from omega.cellstate.resources import LARGEST, MOST_TOGETHER
from omega.cellstate.shards import (
    MAP,
    MOST_IN_A_ROW,
    REDUCE,
    RETRY_MS,
    TRIES,
    Errand,
    PhaseCount,
    Progress,
    ShardDurations,
    Worker,
)


class ShardPhase:
    """The shards of one phase; `waiting`: unclaimed ones."""

    def __init__(self, total: int) -> None:
        """Create with all shards unclaimed."""
        self.total, self.done, self.milliseconds = total, 0, 0
        self.waiting: Flat = (0, total - 1)

    def counted(self) -> PhaseCount:
        """Return the numbers of shards by state."""
        waiting = span_count(self.waiting)
        return PhaseCount(total=self.total, waiting=waiting, done=self.done, milliseconds=self.milliseconds)


class ShardFailures(NamedTuple):
    """Failures of a shard: number, end of the delay (ms), and the machines."""

    times: int
    until: int
    machines: frozenset[int]


class ShardTable:
    """The shards of a job: by phase, claims, failures, finishers, and the one that failed for good.

    `machines`: number of consecutive failed shards on each. `levels`: number of finished maps by level of locality.
    """

    def __init__(self, maps: int, reduces: int) -> None:
        """Create with all shards unclaimed."""
        self.phases = {MAP: ShardPhase(maps), REDUCE: ShardPhase(reduces)}
        self.held: dict[Worker, int] = {}
        self.failures: dict[tuple[str, int], ShardFailures] = {}
        self.machines: Counter[int] = Counter()
        self.levels: Counter[int] = Counter()
        self.finishers: dict[tuple[str, int], str] = {}
        self.failed = ""

    def now(self) -> str | None:
        """Return the current phase; None when all is done."""
        return next((name for name, phase in self.phases.items() if phase.done < phase.total), None)

    def sorted(self, what: str, waiting: Flat) -> tuple[Flat, dict[int, ShardFailures]]:
        """Return unclaimed shards of a phase without failures, and those with failures."""
        fresh, again = waiting, dict[int, ShardFailures]()
        for (phase, shard), failure in self.failures.items():
            if phase == what:
                inside, fresh = span_split(fresh, (shard, shard))
                if inside:
                    again[shard] = failure
        return fresh, again


def claim_shard(
    c: State, job_id: str, worker: Worker, maps: int, reduces: int, at_ms: int, near: Sequence[str] = ()
) -> Errand:  # fmt: skip
    """Claim a shard for a worker; return what it is to do (`Cell.claim_shard`)."""
    c.unfold()
    if not is_live(c, job_id, worker):
        return Errand("fenced")
    known = c.tables.get(job_id)
    table = known or ShardTable(maps, reduces)
    if table.failed:
        phase, number = table.failed.split(" ")
        return Errand("failed", int(number), phase)
    what = table.now()
    if what is None:
        return Errand("done")
    if worker in table.held:
        return Errand(what, table.held[worker])
    good = usable(c, job_id, table) if table.failures else set()
    if table.failures and worker.machine not in good:
        return Errand("out")
    p, sets = table.phases[what], [span_read(each) for each in near] if what == MAP else []
    waiting, gone = p.waiting, list[Worker]()
    fresh, again = table.sorted(what, waiting)
    own = _nearest(fresh, sets)
    if not own:
        gone = [holder for holder in table.held if not is_live(c, job_id, holder)]
        for holder in gone:
            waiting = span_add(waiting, (table.held[holder],) * 2)
        fresh, again = table.sorted(what, waiting)
        own = _nearest(fresh, sets)
    may = NONE
    for each, failure in again.items():
        if failure.until <= at_ms and (worker.machine not in failure.machines or good <= failure.machines):
            may = span_add(may, (each, each))
    retry = _nearest(may, sets)
    tries = [(failure.times, each) for each, failure in again.items() if span_split(retry, (each, each))[0]]
    if not own and not tries:
        return Errand("far" if fresh or may else "wait")
    shard = own[0] if own else min(tries)[1]
    for holder in gone:
        del table.held[holder]
    p.waiting = span_split(waiting, (shard, shard))[1]
    table.held[worker] = shard
    c.tables[job_id] = table
    return Errand(what, shard)


def _nearest(waiting: Flat, sets: Sequence[Flat]) -> Flat:
    """Return what of some shards is in the first set that has any of them; all of them without sets."""
    if not sets:
        return waiting
    return next((inside for each in sets if (inside := span_split(waiting, each)[0]) != NONE), NONE)


def usable(c: State, job_id: str, table: ShardTable) -> set[int]:
    """Return the machines of the job that are not excluded, or all if there are none."""
    runs = [(placement, index) for g in c.J[job_id].groups for placement, index in g.runs.items()]
    live = {index for placement, index in runs if placement > 0}
    return {index for index in live if table.machines[index] < MOST_IN_A_ROW} or live


def is_live(c: State, job_id: str, worker: Worker) -> bool:
    """Return whether a worker's task is placed on its machine and not leaving."""
    m = c.M.get(worker.machine)
    g, tasks = m.runs.get(worker.placement, (None, NONE)) if m and worker.placement > 0 else (None, NONE)
    return g is not None and g.job.id == job_id and span_split(tasks, (worker.task, worker.task))[0] != NONE


def end_shard(  # noqa: PLR0913 - those of the store, and the cell
    c: State, job_id: str, name: str, worker: Worker, phase: str, shard: int, milliseconds: int, *,
    failed_ms: int | None = None, level: int | None = None,
) -> bool:  # fmt: skip
    """Record that a worker finished its shard, or failed on it; False when the shard is no longer its own."""
    table = c.tables.get(job_id)
    if table is None:
        return False
    if table.held.get(worker) != shard or table.now() != phase:
        return table.finishers.get((phase, shard)) == worker.mark and failed_ms is None
    del table.held[worker]
    p = table.phases[phase]
    if failed_ms is not None:
        count, _, machines = table.failures.get((phase, shard), ShardFailures(0, 0, frozenset()))
        until = failed_ms + RETRY_MS * 2**count
        table.failures[phase, shard] = ShardFailures(count + 1, until, machines | {worker.machine})
        _blame(table, worker.machine, count, machines)
        p.waiting = span_add(p.waiting, (shard, shard))
        if count + 1 >= TRIES:
            table.failed = f"{phase} {shard}"
    else:
        p.done += 1
        p.milliseconds = min(p.milliseconds + min(max(0, milliseconds), LARGEST), MOST_TOGETHER)
        del table.machines[worker.machine]
        if level is not None:
            table.levels[level] += 1
        table.finishers[phase, shard] = worker.mark
        if phase == REDUCE and p.done == p.total:
            learn(c, name, table)
    return True


def _blame(table: ShardTable, machine: int, count: int, before: frozenset[int]) -> None:
    """Count a failure of a shard for its machine, until another one fails on it: then take back those of the first.

    `count` failures `before` this one were on those machines.
    """
    if before <= {machine}:
        table.machines[machine] += 1
    elif len(before) == 1:
        (first,) = before
        table.machines[first] = max(0, table.machines[first] - count)
        if not table.machines[first]:
            del table.machines[first]


def learn(c: State, name: str, table: ShardTable) -> None:
    """Store the mean durations of a finished job's shards."""
    known = c.learnt.get(name, ShardDurations(0, 0, 0))
    weight = min(known.runs, 9)
    now = [phase.milliseconds // phase.total for phase in table.phases.values()]
    means = [(before * weight + mean) // (weight + 1) for before, mean in zip(known[1:], now, strict=True)]
    c.learnt[name] = ShardDurations(known.runs + 1, *means)


def progress(c: State, job_id: str) -> Progress | None:
    """Return the progress of a MapReduce job; None before its first worker."""
    table = c.tables.get(job_id)
    if table is None:
        return None
    failing = tuple(sorted(table.machines.items()))
    phases, levels = table.phases, tuple(sorted(table.levels.items()))
    counts = phases[MAP].counted(), phases[REDUCE].counted()
    held = tuple(sorted((worker.placement, worker.task, shard) for worker, shard in table.held.items()))
    return Progress(*counts, held, table.failed, failing, levels, span_text(phases[MAP].waiting))


def finishers(c: State, job_id: str, phase: str, count: int) -> list[str | None]:
    """Return the marks of the workers that finished the first `count` shards of a phase (`Worker.mark`)."""
    table = c.tables.get(job_id)
    return [table.finishers.get((phase, shard)) if table else None for shard in range(count)]
