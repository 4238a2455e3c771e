"""How far MapReduce jobs are, for people and as plain values."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cli import words
from omega.queries.job_state import ended

if TYPE_CHECKING:
    from cellstate.model import Job
    from cellstate.redis import RedisCell
    from cellstate.shards import PhaseCount, Progress

PLAN = "mapreduce"


def progress(cell: "RedisCell", job: "Job") -> "Progress | None":
    """How far a job is; before its first worker asked for a shard, nothing of it is done. None for any other job."""
    from cellstate.shards import PhaseCount, Progress

    plan = job.spec.get(PLAN)
    if plan is None:
        return None
    maps, reduces = int(plan["maps"]), int(plan["reduces"])
    return cell.progress(job.id) or Progress(PhaseCount(maps, maps, 0, 0), PhaseCount(reduces, reduces, 0, 0))


def machine_names(cell: "RedisCell", found: "Progress") -> dict[int, str]:
    """The names of the machines on which shards fail."""
    return {machine.index: machine.name for machine in cell.machines()} if found.failing else {}


def as_json(found: "Progress", names: Mapping[int, str]) -> dict[str, Any]:
    """A job's progress as plain values; `names` of machines by their index."""
    phases = {
        name: {"total": count.total, "done": count.done, "mean_seconds": count.mean} for name, count in _phases(found)
    }
    failing = [{"machine": names.get(index, str(index)), "failed_in_a_row": count, "left_out": index in found.left_out}
               for index, count in found.failing]  # fmt: skip
    return {"phase": found.phase, "working": found.working, "failed": found.failed or None, **phases,
            "failing_machines": failing}  # fmt: skip


def facts(cell: "RedisCell", job: "Job") -> dict[str, str]:
    """What ``job status`` says of a MapReduce job beside its tasks; nothing for any other."""
    found = progress(cell, job)
    if found is None:
        return {}
    plan = job.spec[PLAN]
    lines = {name: _phase(count, found.working if name == found.phase else 0) for name, count in _phases(found)}
    if found.failed:
        lines["gave up"] = f"{found.failed.replace(' ', ' shard ')}: tried too often"
    if found.failing:
        names = machine_names(cell, found)
        lines["failing on"] = words.listing([
            f"{names.get(index, str(index))} ({words.count(count, 'shard')} in a row"
            + (", left out)" if index in found.left_out else ")")
            for index, count in found.failing
        ])  # fmt: skip
    return {**lines, "output": str(plan["output"])}


def brief(cell: "RedisCell", job: "Job") -> str:
    """``map 12/40``: the word of ``job list`` for one that still runs; empty for any other."""
    found = None if ended(job) else progress(cell, job)
    if found is None:
        return ""
    count = dict(_phases(found)).get(found.phase)
    return found.phase if count is None else f"{found.phase} {count.done}/{count.total}"


def _phases(found: "Progress") -> "tuple[tuple[str, PhaseCount], ...]":
    return ("map", found.map), ("reduce", found.reduce)


def _phase(count: "PhaseCount", working: int) -> str:
    parts = [f"{count.done:,} of {words.count(count.total, 'shard')}"]
    if working:
        parts.append(f"{working:,} in work")
    if count.mean is not None:
        parts.append(f"{words.seconds(count.mean)} each")
    return " · ".join(parts)
