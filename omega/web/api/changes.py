"""Changes of jobs: stop, hold, release, resize, weight, rerun, revert, update."""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request
from fastapi.responses import Response
from pydantic import Field

from omega.cellstate.errors import BadInput
from omega.client.client import Client
from omega.web.access.visitors import Submitter
from omega.web.api import bodies
from omega.web.api.answers import answer
from omega.web.api.forms import Form, Whole
from omega.web.api.parameters import CellName, Check, JobName
from omega.web.service import Served

router = APIRouter(prefix="/v1/jobs", tags=["changes of jobs"])
Force = Annotated[bool, Query(description="Also change a job of another user")]
DryRun = Annotated[bool, Query(description="Return what the change would do, and change nothing")]
MOST_JOBS = 1_000
MOST_COUNT = 10_000_000
CALLS = {"stop": Client.stop, "hold": Client.hold, "release": Client.release}


class JobNames(Form):
    """Jobs that are changed together."""

    jobs: list[str] = Field(min_length=1, max_length=MOST_JOBS, description="Ids, names, or beginnings of ids")


class Size(Form):
    """A number of tasks."""

    count: Whole = Field(ge=0, le=MOST_COUNT)
    group: str | None = Field(None, description="Name of the task group; a job with one group needs none")


class Weight(Form):
    """A weight among the jobs of a pool."""

    weight: float


class Rerun(Form):
    """Which tasks run again, and the new job's name."""

    failed: bool = Field(default=False, description="Only tasks that failed")
    tasks: str | None = Field(None, description="Only tasks with these indices, such as 3,20 or 1-9:2")
    group: str | None = Field(None, description="Task group of `tasks`")
    name: str | None = None
    hold: bool = False


class Version(Form):
    """A version of a job."""

    to: Whole | None = Field(None, ge=1, description="Its number; the one before the present by default")


async def _change(
    request: Request, served: Served, call: Any, cell: str, user: str, *jobs: str, **how: Any
) -> Response:
    document = await served.call(cell, user, call, *jobs, **how)
    rows = document["jobs"]
    return answer(request, document, modified=rows[0]["modify_index"] if len(rows) == 1 else None)


def _together(word: str) -> None:
    """Add the routes of a change that takes one job or several."""

    async def one(
        request: Request, visitor: Submitter, served: Served, cell: CellName, job: JobName, check: Check,
        *, force: Force = False,
    ) -> Response:  # fmt: skip
        return await _change(request, served, CALLS[word], cell, visitor.user, job, check=check, force=force)

    async def several(
        request: Request, visitor: Submitter, served: Served, cell: CellName, names: JobNames, *, force: Force = False
    ) -> Response:
        return await _change(request, served, CALLS[word], cell, visitor.user, *names.jobs, force=force)

    for path, route, what in (("/{job}", one, "a job"), ("", several, "jobs")):
        router.add_api_route(
            f"{path}/{word}", route, methods=["POST"], name=f"{word}_{what.removeprefix('a ')}",
            description=f"{word.capitalize()} {what} (omega job {word})",
        )  # fmt: skip


for _word in CALLS:
    _together(_word)


@router.post("/{job}/resize")
async def resize(
    request: Request, visitor: Submitter, served: Served, cell: CellName, job: JobName, check: Check, size: Size,
    *, force: Force = False, dry_run: DryRun = False,
) -> Response:  # fmt: skip
    """Change the number of tasks of a task group (omega job resize)."""
    if dry_run:
        plan = Client.plan_resize
        return answer(request, await served.call(cell, visitor.user, plan, job, size.count, group=size.group))
    how = {"group": size.group, "check": check, "force": force}
    return await _change(request, served, Client.resize, cell, visitor.user, job, count=size.count, **how)


@router.post("/{job}/weight")
async def weight(
    request: Request, visitor: Submitter, served: Served, cell: CellName, job: JobName, check: Check, weight: Weight,
    *, force: Force = False,
) -> Response:  # fmt: skip
    """Change the weight of a job among the jobs of its pool (omega job weight)."""
    how = {"weight": weight.weight, "check": check, "force": force}
    return await _change(request, served, Client.set_weight, cell, visitor.user, job, **how)


@router.post("/{job}/rerun", status_code=201)
async def rerun(
    request: Request, visitor: Submitter, served: Served, cell: CellName, job: JobName,
    how: Annotated[Rerun, Body(default_factory=Rerun)], *, force: Force = False,
) -> Response:  # fmt: skip
    """Submit the tasks of a job again as a new job (omega job rerun)."""
    if (how.failed and how.tasks is not None) or (how.group is not None and how.tasks is None):
        raise BadInput("failed and tasks exclude each other, and group goes with tasks; give one of them")
    document = await served.call(cell, visitor.user, Client.rerun, job, force=force, **how.model_dump())
    return answer(request, document, status=201)


@router.post("/{job}/revert")
async def revert(
    request: Request, visitor: Submitter, served: Served, cell: CellName, job: JobName, check: Check,
    version: Annotated[Version, Body(default_factory=Version)], *, force: Force = False, dry_run: DryRun = False,
) -> Response:  # fmt: skip
    """Update a job to an earlier version (omega job revert)."""
    if dry_run:
        return answer(request, await served.call(cell, visitor.user, Client.plan_revert, job, version.to))
    return await _change(
        request, served, Client.revert, cell, visitor.user, job, to=version.to, check=check, force=force
    )


@router.post("/update", openapi_extra=bodies.described(bodies.JOB))
async def update(
    request: Request, visitor: Submitter, served: Served, cell: CellName, check: Check, *, force: Force = False,
    dry_run: DryRun = False,
) -> Response:  # fmt: skip
    """Replace the tasks of the running job of a job file step by step (omega job update)."""
    file = await bodies.job_file(request)
    if dry_run:
        return answer(request, await served.call(cell, visitor.user, Client.plan_update, file))
    document = await served.call(cell, visitor.user, Client.update, file, check=check, force=force)
    return answer(request, document, modified=document["jobs"][0]["modify_index"])
