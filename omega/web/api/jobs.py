"""Jobs under ``/v1/jobs``: lists, one job, why it is pending, its tasks, versions and output."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from omega.client.client import Client
from omega.queries.job_state import STATES
from omega.queries.mirror.job_pages import SORTS
from omega.queries.mirror.job_table import JobFilter
from omega.queries.task_results import STATES as TASK_STATES
from omega.schedulers.constraints.reasons import Reason as Reasons
from omega.web.access.visitors import Reader
from omega.web.api.answers import answer
from omega.web.api.looking import Jobs, loaded
from omega.web.api.parameters import CellName, Fields, JobName, one_of, words_query
from omega.web.api.polls import Polled
from omega.web.service import Served

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])
MOST_ROWS = 1_000
JobState = Annotated[str | None, one_of("state", STATES), words_query(STATES, "Only jobs in this state")]
Reason = Annotated[
    str | None, one_of("reason", list(Reasons)), words_query(list(Reasons), "Only jobs pending for this reason")
]
Sort = Annotated[str, Query(description=f"Order, descending after a dash: {', '.join(SORTS)}")]
TaskState = Annotated[str | None, one_of("state", TASK_STATES), words_query(TASK_STATES, "Only tasks in this state")]


@router.get("")
async def list_jobs(
    request: Request,
    _: Reader,
    mirror: Jobs,
    *,
    state: JobState = None,
    kind: Annotated[str, Query(description="Only jobs of this kind")] = "",
    user: Annotated[str, Query(description="Only jobs of this user")] = "",
    pool: Annotated[str, Query(description="Only jobs of this pool")] = "",
    name: Annotated[str, Query(description="Only jobs with this text in the name, or at the begin of the id")] = "",
    reason: Reason = None,
    sort: Sort = "",
    limit: Annotated[int, Query(ge=1, le=MOST_ROWS, description="Maximum number of jobs")] = 50,
    cursor: Annotated[str | None, Query(description="The `next` of the page before")] = None,
    fields: Fields = None,
) -> Response:
    """List jobs by pages (omega job list): the newest ones in order of submission, or with `sort` the first ones."""
    wanted = JobFilter(state=state or "", kind=kind, user=user, pool=pool, name=name, reason=reason or "")
    with mirror.lock:
        document, index = mirror.jobs(wanted, sort=sort, limit=limit, cursor=cursor), mirror.index
    return answer(request, document, rows="jobs", fields=fields, index=index)


@router.get("/{job}")
async def show_job(
    request: Request, visitor: Reader, served: Served, cell: CellName, job: JobName, poll: Polled, fields: Fields = None
) -> Response:
    """Show a job with its groups, runs, history and update (omega job status)."""
    if poll.index is not None:
        await poll.wait(served, cell, f"job:{(await loaded(served, cell)).find_job(job).id}")
    index = (await served.mirrors.cell(cell)).index
    document = await served.call(cell, visitor.user, Client.status, job)
    return answer(request, document, fields=fields, index=index, modified=document["modify_index"])


@router.get("/{job}/why")
async def explain_job(
    request: Request,
    visitor: Reader,
    served: Served,
    cell: CellName,
    job: JobName,
    machine: Annotated[str | None, Query(description="Check this machine only")] = None,
) -> Response:
    """Explain why a job is pending (omega job why)."""
    mirror = await served.mirrors.cell(cell)
    with mirror.lock:
        pools = mirror.pools_read()
    return answer(request, await served.call(cell, visitor.user, Client.why, job, machine=machine, pools=pools))


@router.get("/{job}/tasks")
async def list_tasks(
    request: Request,
    visitor: Reader,
    served: Served,
    cell: CellName,
    job: JobName,
    *,
    state: TaskState = None,
    limit: Annotated[int, Query(ge=1, le=100_000, description="Maximum number of rows")] = 1_000,
    fields: Fields = None,
) -> Response:
    """List the tasks of a job by index, equal neighbours in one row (omega job tasks)."""
    document = await served.call(cell, visitor.user, Client.tasks, job, state=state, limit=limit)
    return answer(request, document, rows="tasks", fields=fields)


@router.get("/{job}/file")
async def show_file(
    request: Request,
    visitor: Reader,
    served: Served,
    cell: CellName,
    job: JobName,
    *,
    version: Annotated[int | None, Query(ge=1, le=1 << 53, description="By default the present one")] = None,
) -> Response:
    """Return a version of a job as the fields of a job file, and as text in YAML."""
    document = await served.call(cell, visitor.user, Client.job_file, job, version=version)
    return answer(request, document, modified=document["modify_index"])


@router.get("/{job}/history")
async def list_versions(request: Request, visitor: Reader, served: Served, cell: CellName, job: JobName) -> Response:
    """List the versions of a job with their differences (omega job history)."""
    return answer(request, await served.call(cell, visitor.user, Client.history, job))
