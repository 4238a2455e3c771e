"""Changes of the table of jobs together with the shapes of their demand."""

from omega.cellstate.model import Job
from omega.queries.mirror.job_table import JobTable
from omega.queries.mirror.packed_jobs import kept_of
from omega.queries.mirror.reasons import Reasons


def put_job(table: JobTable, reasons: Reasons, job_id: str, job: Job | None, version: int) -> None:
    """Put a job as it is now into the table; None for one that is no longer kept."""
    row = table.row(job_id)
    if row is not None:
        reasons.leave(table.value("shape", row), table.value("waiting", row))
    if job is None:
        table.drop(job_id)
        return
    job.spec = kept_of(job.spec)
    table.put(job, version, reasons.enter(job))
