"""Changes of jobs: stop, hold, release, resize, weight, rerun, revert, update."""

from typing import Annotated

from fastapi import Body, Query, Request
from fastapi.responses import Response
from pydantic import Field

from omega.cellstate.errors import BadInput
from omega.client.client import Client
from omega.web.access.visitors import Submitter
from omega.web.api import bodies
from omega.web.api.dry_runs import Document, changed
from omega.web.api.forms import Form, Whole, api_router
from omega.web.api.parameters import CellName, Check, DryRun, JobName
from omega.web.service import Served

router = api_router(prefix="/v1/jobs", tags=["changes of jobs"])
Force = Annotated[bool, Query(description="Also change a job of another user")]
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


def _together(word: str) -> None:
    """Add the routes of a change that takes one job or several."""

    async def one(
        request: Request, visitor: Submitter, served: Served, cell: CellName, job: JobName, check: Check,
        *, force: Force = False, dry_run: DryRun = False,
    ) -> Response:  # fmt: skip
        how: Document = {"force": force, "dry_run": dry_run}
        return await changed(request, served, cell, visitor.user, CALLS[word], job, check=check, **how)

    async def several(
        request: Request, visitor: Submitter, served: Served, cell: CellName, names: JobNames,
        *, force: Force = False, dry_run: DryRun = False,
    ) -> Response:  # fmt: skip
        how: Document = {"force": force, "dry_run": dry_run}
        return await changed(request, served, cell, visitor.user, CALLS[word], *names.jobs, **how)

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

    def plan(client: Client) -> Document:
        return client.plan_resize(job, size.count, group=size.group)

    how: Document = {"count": size.count, "group": size.group, "force": force, "dry_run": dry_run}
    return await changed(request, served, cell, visitor.user, Client.resize, job, plan=plan, check=check, **how)


@router.post("/{job}/weight")
async def weight(
    request: Request, visitor: Submitter, served: Served, cell: CellName, job: JobName, check: Check, weight: Weight,
    *, force: Force = False, dry_run: DryRun = False,
) -> Response:  # fmt: skip
    """Change the weight of a job among the jobs of its pool (omega job weight)."""
    how: Document = {"weight": weight.weight, "force": force, "dry_run": dry_run}
    return await changed(request, served, cell, visitor.user, Client.set_weight, job, check=check, **how)


@router.post("/{job}/rerun", status_code=201)
async def rerun(
    request: Request, visitor: Submitter, served: Served, cell: CellName, job: JobName, check: Check,
    how: Annotated[Rerun, Body(default_factory=Rerun)], *, force: Force = False, dry_run: DryRun = False,
) -> Response:  # fmt: skip
    """Submit the tasks of a job again as a new job (omega job rerun)."""
    if (how.failed and how.tasks is not None) or (how.group is not None and how.tasks is None):
        raise BadInput("failed and tasks exclude each other, and group goes with tasks; give one of them")
    options: Document = how.model_dump() | {"force": force, "dry_run": dry_run}
    return await changed(request, served, cell, visitor.user, Client.rerun, job, status=201, check=check, **options)


@router.post("/{job}/revert")
async def revert(
    request: Request, visitor: Submitter, served: Served, cell: CellName, job: JobName, check: Check,
    version: Annotated[Version, Body(default_factory=Version)], *, force: Force = False, dry_run: DryRun = False,
) -> Response:  # fmt: skip
    """Update a job to an earlier version (omega job revert)."""

    def plan(client: Client) -> Document:
        return client.plan_revert(job, version.to)

    how: Document = {"to": version.to, "force": force, "dry_run": dry_run}
    return await changed(request, served, cell, visitor.user, Client.revert, job, plan=plan, check=check, **how)


@router.post("/update", openapi_extra=bodies.described(bodies.JOB))
async def update(
    request: Request, visitor: Submitter, served: Served, cell: CellName, check: Check, *, force: Force = False,
    dry_run: DryRun = False,
) -> Response:  # fmt: skip
    """Replace the tasks of the running job of a job file step by step (omega job update)."""
    how: Document = {"force": force, "dry_run": dry_run}
    async with bodies.job_file(request) as file:

        def plan(client: Client) -> Document:
            return client.plan_update(file)

        return await changed(request, served, cell, visitor.user, Client.update, file, plan=plan, check=check, **how)
