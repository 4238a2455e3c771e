"""Jobs as callers of the client give them: typed, as mappings, or as names of job files."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from omega import submission
from omega.cellstate.errors import BadInput
from omega.cellstate.model import JobSpec

if TYPE_CHECKING:
    from omega.cellstate.ports import JobStore
    from omega.jobfile.reader import JobFile
    from omega.queries.job_fields import KindFields

JobLike: TypeAlias = "JobSpec | Mapping[str, Any] | str | Path"
"""A typed job, a mapping with the fields of a job file, or the name of a job file."""


def specs_of(cell: "JobStore", jobs: Sequence[JobLike], fields: "KindFields") -> list[JobSpec]:
    """Return the jobs that a caller of the client gave, in the amounts of a cell. Raises BadInput."""
    names = ["job"] if len(jobs) == 1 else [f"jobs[{number}]" for number in range(len(jobs))]
    given = [job if isinstance(job, JobSpec) else _file(job, name) for name, job in zip(names, jobs, strict=True)]
    return submission.jobs_of(cell, given, fields)


def _file(job: Mapping[str, Any] | str | Path, name: str) -> "JobFile":
    from omega.jobfile.reader import JobFile

    if isinstance(job, str | Path):
        data = submission.read_bytes(Path(job))
        if data.startswith(b"#!"):
            raise BadInput(f"job file {job}: is a script; omega job submit reads its directives, the client job files")
        return submission.job_file(str(job), data)
    try:
        return JobFile(name, json.dumps(job))
    except (TypeError, ValueError) as error:
        raise BadInput(f"{name}: {error}; use text, numbers, lists and mappings") from None
