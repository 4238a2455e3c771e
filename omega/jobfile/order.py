"""What jobs of a submission wait for: names become ids, and the jobs are put into an order that the store takes."""

from collections.abc import Callable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from cellstate.errors import BadInput
from cellstate.model import After, JobSpec
from omega.jobfile.form import Wait

FindJob = Callable[[str], str]
"""Return the id of an existing job by name or id; raises Refused when there is none."""


def resolved(waits: Sequence[Wait], own: Mapping[str, str], find_job: FindJob) -> tuple[After, ...]:
    """Return the ids a job waits for; `own` are jobs of the same submission by name and id. Raises Refused."""
    asked = {own.get(wait.job) or find_job(wait.job): wait.outcome for wait in waits}
    return tuple(After(job_id, outcome == "any") for job_id, outcome in asked.items())


def in_order(specs: Sequence[JobSpec]) -> list[JobSpec]:
    """Those that are waited for first, otherwise as they came. Raises BadInput when they wait in a circle."""
    by_id = {spec.id: spec for spec in specs}
    graph = {spec.id: [wait.job for wait in spec.after if wait.job in by_id] for spec in specs}
    if not any(graph.values()):
        return list(specs)
    try:
        return [by_id[job_id] for job_id in TopologicalSorter(graph).static_order()]
    except CycleError as error:
        circle = " waits for ".join(by_id[job_id].name for job_id in reversed(error.args[1]))
        raise BadInput(f"job {circle}: a circle, none of them would ever begin; take one out of after") from None
