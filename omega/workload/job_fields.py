"""The fields that policies declare, in workloads: read and checked as in a submission."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from omega.cellstate.schema import POLICY
from omega.schedulers.job_fields import JobField, with_values
from omega.workload.workload import Workload


def with_fields(workload: Workload, fields_of: Callable[[str], Sequence[JobField]]) -> Workload:
    """Return a workload whose jobs have the fields under ``policy`` as policies get them.

    `fields_of` returns the declared fields of a kind. Raises BadInput with the job's name.
    """
    jobs = [arrival.job for arrival in workload.arrivals]
    if not any(POLICY in job.spec for job in jobs) and not any(map(fields_of, {job.kind for job in jobs})):
        return workload
    read = (with_values(job, fields_of(job.kind)) for job in jobs)
    return replace(
        workload, arrivals=[replace(each, job=job) for each, job in zip(workload.arrivals, read, strict=True)]
    )
