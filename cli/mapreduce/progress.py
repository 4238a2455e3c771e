"""Progress of MapReduce jobs as text."""

from typing import TYPE_CHECKING

from omega.cli import units
from omega.queries.job_state import ended
from omega.queries.mapreduce import PLAN, machine_names, phases, progress

if TYPE_CHECKING:
    from omega.cellstate.model import Job
    from omega.cellstate.ports import Queries
    from omega.cellstate.shards import PhaseCount


def facts(cell: "Queries", job: "Job") -> dict[str, str]:
    """Return the lines of ``job status`` for a MapReduce job's progress; none for other jobs."""
    found = progress(cell, job)
    if found is None:
        return {}
    plan = job.spec[PLAN]
    lines = {name: _phase(count, found.working if name == found.phase else 0) for name, count in phases(found)}
    if found.failed:
        lines["gave up"] = f"{found.failed.replace(' ', ' shard ')}: tried too often"
    if found.failing:
        names = machine_names(cell, found)
        lines["failing on"] = units.listing(
            [
                f"{names.get(index, str(index))} ({units.count(count, 'shard')} in a row"
                + (", left out)" if index in found.left_out else ")")
                for index, count in found.failing
            ]
        )
    return {**lines, "output": str(plan["output"])}


def brief(cell: "Queries", job: "Job") -> str:
    """Return the progress for ``job list``, such as ``map 12/40``; empty for other jobs and ended ones."""
    found = None if ended(job) else progress(cell, job)
    if found is None:
        return ""
    count = dict(phases(found)).get(found.phase)
    return found.phase if count is None else f"{found.phase} {count.done}/{count.total}"


def _phase(count: "PhaseCount", working: int) -> str:
    parts = [f"{count.done:,} of {units.count(count.total, 'shard')}"]
    if working:
        parts.append(f"{working:,} in work")
    if count.mean is not None:
        parts.append(f"{units.seconds(count.mean)} each")
    return " · ".join(parts)
