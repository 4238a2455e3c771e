"""Progress of MapReduce jobs."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from omega.cellstate import ranges

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell, Machines
    from omega.cellstate.model import Job
    from omega.cellstate.shards import PhaseCount, Progress

PLAN = "mapreduce"
Held: TypeAlias = "tuple[tuple[int, int, int], ...]"
"""Placement, task and shard of claims (`Progress.held`)."""


def progress(cell: "Cell", job: "Job") -> "Progress | None":
    """Return the progress of a MapReduce job, without finished shards before the first claim; None for other jobs.

    A shard is in work while its worker is placed (semantics 1); the store frees that of another one later.
    """
    from omega.cellstate.shards import PhaseCount, Progress

    plan = job.spec.get(PLAN)
    if plan is None:
        return None
    maps, reduces = int(plan["maps"]), int(plan["reduces"])
    if (found := cell.shards.progress(job.id)) is not None:
        return found._replace(held=_of_workers(cell.machines, job, found.held))
    return Progress(
        PhaseCount(total=maps, waiting=maps, done=0, milliseconds=0),
        PhaseCount(total=reduces, waiting=reduces, done=0, milliseconds=0),
    )


def _of_workers(machines: "Machines", job: "Job", held: "Held") -> "Held":
    """Return the claims of workers that are placed."""
    asked = {placement for placement, _, _ in held}
    runs = [run for group in job.groups for run in group.runs if run[0] in asked and not run[2]]
    placed = (run for run in machines.runs(sorted({run[1] for run in runs})) if not run.leaving)
    tasks = {run.placement: ranges.spans(run.tasks) for run in placed}
    return tuple(each for each in held if any(low <= each[1] <= high for low, high in tasks.get(each[0], ())))


def machine_names(cell: "Cell", shards: "Progress") -> dict[int, str]:
    """Return the names of the machines on which shards fail."""
    failing = sorted(machine for machine, _ in shards.failing)
    return {machine.index: machine.name for machine in cell.machines.at(failing)}


def read_at(job: "Job", shards: "Progress") -> dict[str, int] | None:
    """Return the numbers of finished maps by the level of their locality, and without one; None without locality."""
    from omega.schedulers.constraints.locality import locality_of, places

    plan = job.spec.get(PLAN) or {}
    found, counts = places(plan), dict(shards.levels)
    if not found:
        return None
    wants = locality_of(found[0], plan.get("near", {}))
    levels = {wants.name(level): counts.get(level, 0) for level in range(len(wants.waits) + 1)}
    return {**levels, "no location": shards.map.done - sum(levels.values())}


def as_json(job: "Job", shards: "Progress", names: Mapping[int, str]) -> dict[str, Any]:
    """Return a job's progress as plain values; `names` of machines by their index."""
    counts = {
        name: {"total": count.total, "finished": count.done, "mean_seconds": count.mean}
        for name, count in phases(shards)
    }
    failing = [
        {"machine": names.get(index, str(index)), "failed_in_a_row": count, "left_out": index in shards.left_out}
        for index, count in shards.failing
    ]
    phase = "finished" if shards.phase == "done" else shards.phase
    return {
        "phase": phase,
        "working": shards.working,
        "failed": shards.failed or None,
        **counts,
        "locality": read_at(job, shards),
        "failing_machines": failing,
    }


def phases(shards: "Progress") -> "tuple[tuple[str, PhaseCount], ...]":
    """Return the counts of each phase by its name."""
    return ("map", shards.map), ("reduce", shards.reduce)
