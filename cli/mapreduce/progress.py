"""Progress of MapReduce jobs as text."""

from typing import TYPE_CHECKING

from omega.queries import units
from omega.queries.job_state import ended
from omega.queries.mapreduce import PLAN, machine_names, phases, progress, read_at

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell
    from omega.cellstate.model import Job
    from omega.cellstate.shards import PhaseCount


def facts(cell: "Cell", job: "Job") -> dict[str, str]:
    """Return the lines of ``job status`` for a MapReduce job's progress; none for other jobs."""
    work = progress(cell, job)
    if work is None:
        return {}
    plan = job.spec[PLAN]
    lines = {name: _phase(count, work.working if name == work.phase else 0) for name, count in phases(work)}
    if (read := read_at(job, work)) is not None:
        shown = (f"{name} {count:,}" for name, count in read.items() if count or name != "no location")
        lines["locality"] = " · ".join(shown)
    if work.failed:
        lines["gave up"] = f"{work.failed.replace(' ', ' shard ')}: tried too often"
    if work.failing:
        names = machine_names(cell, work)
        lines["failing on"] = units.listing(
            [
                f"{names.get(index, str(index))} ({units.count(count, 'shard')} in a row"
                + (", left out)" if index in work.left_out else ")")
                for index, count in work.failing
            ]
        )
    return {**lines, "output": str(plan["output"])}


def brief(cell: "Cell", job: "Job") -> str:
    """Return the progress for ``job list``, such as ``map 12/40``; empty for other jobs and ended ones."""
    work = None if ended(job) else progress(cell, job)
    if work is None:
        return ""
    count = dict(phases(work)).get(work.phase)
    return work.phase if count is None else f"{work.phase} {count.done}/{count.total}"


def _phase(count: "PhaseCount", working: int) -> str:
    parts = [f"{count.done:,} of {units.count(count.total, 'shard')}"]
    if working:
        parts.append(f"{working:,} in work")
    if count.mean is not None:
        parts.append(f"{units.seconds(count.mean)} each")
    return " · ".join(parts)
