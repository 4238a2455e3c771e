"""Jobs as callers of the client give them: typed, as mappings, or as names of job files and scripts."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from omega import submission
from omega.cellstate.errors import BadInput
from omega.cellstate.model import JobSpec

if TYPE_CHECKING:
    from omega.cellstate.redis import RedisCell
    from omega.jobfile.reader import JobFile
    from omega.queries.job_fields import KindFields

JobLike: TypeAlias = "JobSpec | JobFile | Mapping[str, Any] | str | Path"
"""A typed job, the text of a job file, a mapping with its fields, or the name of a job file or a script."""


@dataclass(frozen=True, slots=True)
class GivenJobs:
    """Jobs, whether a script among them is to be held (``#OMEGA --hold``), and warnings about scripts."""

    specs: Sequence[JobSpec]
    hold: bool = False
    warnings: list[str] = field(default_factory=list)


def given_jobs(
    cell: "RedisCell",
    jobs: Sequence[JobLike],
    fields: "KindFields",
    next_id: Callable[[], str] = submission.new_id,
) -> GivenJobs:
    """Return the jobs that a caller of the client gave, in the amounts of a cell. Raises BadInput, Refused."""
    names = ["job"] if len(jobs) == 1 else [f"jobs[{number}]" for number in range(len(jobs))]
    read: list[JobSpec | JobFile] = []
    warnings: list[str] = []
    held = ""
    for name, job in zip(names, jobs, strict=True):
        if not isinstance(job, str | Path):
            read.append(_mapping(job, name) if isinstance(job, Mapping) else job)
            continue
        data = submission.read_bytes(Path(job))
        if not data.startswith(b"#!"):
            read.append(submission.job_file(str(job), data))
            continue
        from omega.jobfile.script import Script, script_job

        spec, hold = script_job(cell, Script.read(str(job), data), warnings.append)
        read.append(spec if next_id is submission.new_id else replace(spec, id=next_id()))
        held = str(job) if hold else held
    if held and len(jobs) > 1:
        raise BadInput(f"{held}: has --hold, which is for all jobs of a call; submit it alone, or with hold=True")
    return GivenJobs(submission.jobs_of(cell, read, fields, next_id), bool(held), warnings)


def _mapping(job: Mapping[str, Any], name: str) -> "JobFile":
    from omega.jobfile.reader import JobFile

    try:
        return JobFile(name, json.dumps(job), is_json=True, local=True)
    except (TypeError, ValueError) as error:
        raise BadInput(f"{name}: {error}; use text, numbers, lists and mappings") from None
