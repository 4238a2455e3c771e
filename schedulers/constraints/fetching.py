"""Data beyond the snapshot: attributes of machines, the machines of other jobs, and running tasks.

It is fetched only when a current job needs it, as an effect of the attempt loop, so that placement stays a function
of its arguments.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omega.cellstate import ranges
from omega.cellstate.lanes import Lane
from omega.cellstate.model import Gang
from omega.cellstate.replies import CommitRequest, KindUse
from omega.cellstate.snapshot import Resident, Snapshot
from omega.schedulers.constraints.demands import asks_anything, demands
from omega.schedulers.constraints.locality import locality
from omega.schedulers.work import Work

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell

MOST_OTHERS = 10_000
"""Maximum number of other jobs for which the machines are kept."""
NO_WORKS: Mapping[str, Work] = {}


@dataclass(frozen=True, slots=True)
class Fetch:
    """Fetch missing attributes, the machines of the jobs `placed` (ids) and `others` (names), the running tasks of the
    machines `residents` (indices), the limits and use of the job type `use`, and how many tasks of `held` (ids) run.
    """

    attributes: bool = False
    placed: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    residents: tuple[int, ...] = ()
    use: str = ""
    held: tuple[str, ...] = ()


def wanted(works: Sequence[Work], snapshot: Snapshot, *, always: bool = False) -> Fetch | None:
    """Return the data that must be fetched before these jobs are decided; None when all is there.

    `always`: a policy needs attributes whatever the jobs demand.
    """
    always = always or snapshot.pools.divided
    for work in works:
        if always or work.job.spec:
            break
    else:
        return None
    asking = [work for work in works if asks_anything(work.job)]
    if not (asking or always):
        return None
    attributes, placed, others = always, set[str](), set[str]()
    for work in asking:
        for group, left in enumerate(work.left):
            wants = demands(work.job, group)
            if left:
                attributes |= wants.attributes or locality(work.job, group) is not None
                others |= {relation.job for relation in (*wants.near, *wants.apart)}
                if wants.counts and (
                    work.placed or work.places or work.id in snapshot.placed or any(g.placed for g in work.job.groups)
                ):
                    placed.add(work.id)
    attributes = attributes and lacking(snapshot)
    if not (attributes or placed or others):
        return None
    return Fetch(attributes, tuple(sorted(placed)), tuple(sorted(others)))


def lacking(snapshot: Snapshot) -> bool:
    """Return whether attributes of some machine may be out of date."""
    return not snapshot.attributes.used or bool(len(snapshot.attributes.wanting(snapshot.rows[2])))


def fetch(
    asked: Fetch,
    cell: "Cell",
    snapshot: Snapshot,
    flight: CommitRequest | None = None,
    working: Mapping[str, Work] = NO_WORKS,
) -> None:
    """Fetch data from the cell into the snapshot; jobs that do not exist have no machines.

    The read may overtake the commit in `flight`: its claims, of the jobs `working`, count as tasks of other jobs.
    """
    if asked.attributes:
        machines = snapshot.attributes.wanting(snapshot.rows[2])
        snapshot.describe(machines, cell.machines.described(machines.tolist()))
    if asked.residents:
        snapshot.residents.learn(asked.residents, snapshot.number, residents_on(asked.residents, cell, snapshot.now))
    if asked.use:
        snapshot.use = cell.pools.kinds().get(asked.use) or KindUse.none(len(cell.dimensions))
        snapshot.pool_use = cell.pools.use() if snapshot.pools.limited else {}
    if asked.held:
        snapshot.held = cell.jobs.running(asked.held)
    if asked.placed:
        snapshot.placed = {job_id: cell.jobs.tasks_by_machine(job_id) for job_id in asked.placed}
    if asked.others:
        _look_for(asked.others, cell, snapshot)
        for transaction in flight.transactions if flight is not None else ():
            if (work := working.get(transaction.job)) is not None:
                snapshot.take_other(work.job.name, transaction.claims)


def _look_for(names: tuple[str, ...], cell: "Cell", snapshot: Snapshot) -> None:
    """Fetch the number of runs of jobs by machine, in two calls."""
    ids = cell.jobs.ids_by_name(names)
    jobs = cell.jobs.by_id(sorted(set(ids.values())))
    known, snapshot.others = snapshot.others, {}
    for name in names:
        job = jobs.get(ids.get(name, ""))
        runs = [machine for group in job.groups for _, machine, leaving in group.runs if not leaving] if job else []
        snapshot.others[name] = Counter(runs)
        if known.get(name, {}).keys() != snapshot.others[name].keys():
            snapshot.changed_others.add(name)
    if len(known) < MOST_OTHERS:
        snapshot.others = {**known, **snapshot.others}


def residents_on(machines: Sequence[int], cell: "Cell", now: float) -> Iterator[Resident]:
    """Yield the running tasks that hold room on some machines at a time (seconds)."""
    runs = [run for run in cell.machines.runs(machines) if not run.leaving]
    jobs = cell.jobs.by_id(sorted({run.job for run in runs}))
    lanes = cell.schedulers.lanes(sorted({job.lane for job in jobs.values()}))
    times = sorted(cell.log.placed_by())
    last = [placement for _, placement in times]
    for run in runs:
        job = jobs.get(run.job)
        if job is not None:
            at = bisect_left(last, run.placement)
            started = times[at][0] / 1000 if at < len(times) else now
            together = job.together
            group, tasks = job.groups[run.group], ranges.count(run.tasks)
            precedence = 0 if group.optional and job.gang is not Gang.STRICT else job.precedence
            _, lane = lanes.get(job.lane, (0, Lane(job.kind, job.precedence)))
            yield Resident(
                machine=run.machine, placement=run.placement, job=run.job, precedence=precedence, need=group.need,
                tasks=tasks, together=together, user=lane.user, pool=lane.pool, started=started,
            )  # fmt: skip
