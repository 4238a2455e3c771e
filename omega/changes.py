"""Changes of jobs by users: authorization, and calls with several steps."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from omega.cellstate import model
from omega.cellstate.errors import NotOwner, Overtaken, Refused
from omega.cellstate.model import JobState
from omega.cellstate.pages import own_groups
from omega.queries.job_state import ended, gone, group_names, state
from omega.users import user_of

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell
    from omega.cellstate.model import Job, JobSpec
    from omega.updating import JobUpdate

ATTEMPTS = 5
"""Maximum number of attempts at an update of a job that is modified concurrently."""
RUNS_PER_CALL = 1_000
"""Runs ended per call: 10 to 20 ms of the server's time."""
MOST_DIGITS = 15


def check_owner(me: str, cell: "Cell", jobs: "Iterable[Job]", *, force: bool) -> None:
    """Raise NotOwner for a job of another user than `me`, unless forced; a job without a user is open to all."""
    me, _ = user_of(cell, me)
    for job in () if force else jobs:
        owner = job.spec.get("user")
        if owner not in (None, me):
            raise NotOwner(f"job {job.name}: belongs to {owner}, and you are {me}; --force changes it")


def group_of(job: "Job", asked: str | None) -> int:
    """Return the position of a task group. Refused when there are several and none is named, or for an unknown name."""
    from omega.schedulers.rolling import named_groups

    called, current = group_names(job), named_groups(job)
    names = [called[number] for number in current]
    there = f"job {job.name} has the groups {', '.join(names)}"
    if asked is None:
        if len(names) > 1:
            raise Refused(f"{there}; name one")
        return current[0]
    if asked in names:
        return current[names.index(asked)]
    if asked.isdecimal() and len(asked) <= MOST_DIGITS and int(asked) < len(names):
        return current[int(asked)]
    raise Refused(f"{there}, and none called {asked}; name one of them")


def end(cell: "Cell", stopped: "Job", now_ms: Callable[[], int], by: str) -> Iterator[int]:
    """End the runs of a stopped job in batches (semantics 4); yields the number of tasks of each batch."""
    from omega.cellstate.tasks import EndKind, TaskEnd

    if cell.dry:
        yield sum(cell.jobs.tasks_by_machine(stopped.id).values())
        return
    job: Job | None = stopped
    while job is not None:
        runs = [run for group in job.groups for run in group.runs if not run[2]]
        took_effect = 0
        for start in range(0, len(runs), RUNS_PER_CALL):
            some = runs[start : start + RUNS_PER_CALL]
            endings = [TaskEnd(machine, placement, EndKind.STOPPED) for placement, machine, _ in some]
            count = sum(cell.executors.end(endings, now_ms(), by))
            took_effect += count
            yield count
        if not took_effect:  # nothing runs, or others ended it meanwhile
            return
        job = cell.jobs.get(stopped.id)


def update(
    cell: "Cell", spec: "JobSpec", check: int | None, me: str, now_ms: Callable[[], int], by: str, *, force: bool
) -> "tuple[Job, JobUpdate]":
    """Begin the update of the job that has the id or name of `spec`. Refused, Overtaken, BadInput.

    A service that ended restarts: as a new job of its name, whose tasks must prove themselves like those of an update.
    """
    from omega.updating import job_update

    for attempt in range(ATTEMPTS):
        job = to_update(cell, spec)
        check_owner(me, cell, [job], force=force)
        check_index(cell, job, check)
        if job.state > JobState.HELD and ended(job):
            return _restart(cell, job, spec, now_ms(), by)
        again = cell.jobs.update_state(job.id).startswith("stalled")
        wanted = job_update(job, spec, now_ms(), by, again=again)
        try:
            known = job.modified if check is None else check
            return cell.jobs.update(job.id, wanted.groups, wanted.spec, now_ms(), by, known), wanted
        except Overtaken:
            if check is not None or attempt == ATTEMPTS - 1:
                raise
    raise RuntimeError("out of attempts")


def to_update(cell: "Cell", spec: "JobSpec") -> "Job":
    """Return the job of an id or, where that is none or has ended, the newest of the name. Refused when there is none.

    Of jobs that ended only services are updated: they restart.
    """
    job = cell.jobs.get(spec.id)
    if job is None or job.state > JobState.HELD:
        job = cell.jobs.get(cell.jobs.ids_by_name([spec.name]).get(spec.name, "")) or job
    if job is None or (job.state > JobState.HELD and job.kind != "service"):
        raise Refused(f"job {spec.name}: no live job of that name in cell {cell.name}; omega job submit makes one")
    return job


def _restart(cell: "Cell", job: "Job", spec: "JobSpec", at_ms: int, by: str) -> "tuple[Job, JobUpdate]":
    from omega.submission import new_id, refusal
    from omega.updating import JobUpdate, restarted

    fresh = restarted(job, spec, new_id(), at_ms, by)
    targets = fresh.spec["targets"]
    plain = replace(fresh, spec={name: value for name, value in fresh.spec.items() if name != "targets"})
    (answer,) = cell.jobs.submit([plain], at_ms, by)
    if answer.status != "new":
        raise refusal(plain, answer)
    if cell.dry:
        return job, JobUpdate((), dict(fresh.spec), 0, restarts=True)
    submitted = cell.jobs.get(fresh.id)
    if submitted is None:
        raise Refused(f"job {job.name}: restarted as {fresh.id}, and ended already; see omega events")
    whole = {**submitted.spec, "targets": targets}
    return cell.jobs.update(fresh.id, (), whole, at_ms, by), JobUpdate((), whole, 0, restarts=True)


def check_index(cell: "Cell", job: "Job", check: int | None) -> None:
    """Raise Overtaken unless a job has the modify index that its caller read.

    The store compares once more where it changes something; where nothing is to be changed, this is the only check.
    """
    if check is not None and check != job.modified:
        raise model.refusal(cell.name, job.id, "moved", job)


def set_weight(cell: "Cell", job: "Job", weight: float, now_ms: int, by: str, check: int | None = None) -> "Job":
    """Change the weight of a live job among the jobs of its pool: an update without new tasks. Refused, Overtaken."""
    from omega.cellstate.errors import BadInput, Refused
    from omega.cellstate.job_demands import LEAST_WEIGHT, MOST_WEIGHT

    if not LEAST_WEIGHT <= weight <= MOST_WEIGHT:
        raise BadInput(f"weight {weight:g} is not allowed; want {LEAST_WEIGHT:g} to {MOST_WEIGHT:,.0f}")
    if cell.jobs.update_state(job.id).startswith("stalled"):
        raise Refused(f"job {job.name}: its update is stalled; change the weight in its file, and update it again")
    known = job.modified if check is None else check
    return cell.jobs.update(job.id, (), {**job.spec, "weight": weight}, now_ms, by, known)


def answered(cell: "Cell", before: "Job", after: "Job") -> "Job":
    """Return a changed job as it is answered: in a dry run it still has the modify index that it had before."""
    return replace(after, modified=before.modified) if cell.dry else after


def change_json(before: "Job", after: "Job") -> dict[str, Any]:
    """Return a change of a job as plain values; ``totals`` are by group of its file."""
    from omega.schedulers.rolling import count_of, targets

    return {
        "id": before.id,
        "name": before.name,
        "before": state(before),
        "state": state(after),
        "held": after.held,
        "after": [wait._asdict() for wait in after.after],
        "totals": [count_of(after, target) for target in targets(before)],
        "modify_index": after.modified,
    }


def stopped_json(before: "Job", after: "Job", ended: int) -> dict[str, Any]:
    """Return a job that was stopped as plain values; `ended` counts the running tasks that were ended.

    `stopping`: processes of some of them still run.
    """
    return {
        "id": before.id,
        "name": before.name,
        "before": state(before),
        "state": state(after),
        "unplaced": sum(group.unplaced for group in own_groups(before)),
        "ended": ended,
        "stopping": not gone(after),
        "modify_index": after.modified,
    }


def resize(cell: "Cell", job: "Job", group: str | None, count: int, now_ms: int, by: str, check: int | None) -> "Job":
    """Change the number of tasks of a group; those that finished in replaced groups count. Refused in an update."""
    from omega.schedulers.rolling import taking_over
    from omega.updating import resize as resized

    if cell.jobs.update_state(job.id) == "rolling":
        raise Refused(f"job {job.name}: an update of it is in progress; wait, or update it with another count")
    totals, spec = resized(job, group_of(job, group), count)
    known = job.modified if check is None and spec else check
    after = cell.jobs.resize(job.id, totals, now_ms, by, known, spec=spec, takes=taking_over(job))
    return replace(after, spec=job.spec if spec is None else spec)
