"""Cells, their schedulers, limits, use and events."""

from functools import partial
from typing import Annotated, Any

from anyio import CapacityLimiter, to_process
from fastapi import Path, Query, Request
from fastapi.responses import Response
from pydantic import Field

from omega.cellstate.errors import Refused
from omega.client.arguments import known
from omega.client.client import Client
from omega.queries.events import KINDS, current_kind
from omega.queries.mirror.index import Index
from omega.queries.use import BY
from omega.web.access.visitors import Operator, Reader
from omega.web.api.answers import answer
from omega.web.api.dry_runs import Document, changed
from omega.web.api.forms import Form, Whole, api_router
from omega.web.api.looking import Cell, Events, Schedulers
from omega.web.api.parameters import CellName, DryRun, Fields, one_of, words_query
from omega.web.problems import Gone
from omega.web.service import Served

router = api_router(prefix="/v1", tags=["cells"])
By = Annotated[str, one_of("by", BY), words_query(BY, "Rows of the answer")]
MOST_VERSION = 1 << 53
_verifying = CapacityLimiter(1)
Time = Annotated[int | None, Query(ge=0, le=1 << 53, description="In ms since 1970")]


@router.get("/cells")
async def list_cells(request: Request, visitor: Reader, served: Served, *, fields: Fields = None) -> Response:
    """List the cells of the store (omega cell list)."""
    document = await served.call("", visitor.user, Client.cells)
    return answer(request, document, rows="cells", fields=fields)


@router.get("/cell")
async def show_cell(request: Request, _: Reader, mirror: Cell, *, fields: Fields = None) -> Response:
    """Return the figures of the cell (omega cell status)."""
    with mirror.lock:
        document, index = mirror.cell_status(), mirror.index
    return answer(request, document, fields=fields, index=index)


@router.post("/cell/verify")
async def verify_cell(
    request: Request,
    _: Reader,
    served: Served,
    cell: CellName,
    *,
    since: Annotated[int, Query(ge=0, le=MOST_VERSION, description="Do not check the log up to this version")] = 0,
) -> Response:
    """Check every invariant of the cell (omega cell verify); minutes in a cell with a million running tasks."""
    call = partial(_verify, served.store, cell, since)
    return answer(request, await to_process.run_sync(call, cancellable=True, limiter=_verifying))


def _verify(store: str, cell: str, since: int) -> dict[str, Any]:
    """Verify a cell in a process of its own: it takes gigabytes and minutes of a processor in a large cell."""
    with Client(store, cell) as client:
        return client.verify(since)


@router.get("/schedulers")
async def list_schedulers(
    request: Request,
    _: Reader,
    mirror: Schedulers,
    *,
    everybody: Annotated[bool, Query(alias="all", description="Include schedulers that left")] = False,
    fields: Fields = None,
) -> Response:
    """List the schedulers (omega scheduler list)."""
    with mirror.lock:
        document, index = mirror.schedulers(everybody=everybody), mirror.index
    return answer(request, document, rows="schedulers", fields=fields, index=index)


@router.get("/schedulers/{name:path}")
async def show_scheduler(
    request: Request,
    visitor: Reader,
    served: Served,
    cell: CellName,
    name: Annotated[str, Path(description="Name of a scheduler, or a kind of jobs")],
) -> Response:
    """Show a scheduler (batch/0), or all of a kind (omega scheduler status)."""
    return answer(request, await served.call(cell, visitor.user, Client.scheduler, name))


Kind = Annotated[str, Path(description="Kind of jobs")]


@router.get("/limits")
async def list_limits(request: Request, _: Reader, mirror: Cell) -> Response:
    """Return limits and use of all kinds of jobs (omega cell limits)."""
    with mirror.lock:
        return answer(request, mirror.limits(), index=mirror.index)


@router.get("/limits/{kind}")
async def show_limits(request: Request, visitor: Reader, served: Served, cell: CellName, kind: Kind) -> Response:
    """Return limits and use of a kind of jobs (omega cell limits KIND)."""
    return answer(request, await served.call(cell, visitor.user, Client.limits, kind))


class Wanted(Form):
    """Limits of a kind of jobs: null removes one, those that are left out stay."""

    resources: dict[str, str | int | float | None] = Field(default_factory=dict)
    jobs: Whole | None = Field(None, ge=0, le=1 << 53)
    precedence: tuple[Whole, Whole] | None = Field(None, description="The lowest and the highest")


@router.patch("/limits/{kind}")
async def set_limits(
    request: Request,
    visitor: Operator,
    served: Served,
    cell: CellName,
    kind: Kind,
    wanted: Wanted,
    *,
    clear: Annotated[bool, Query(description="Remove all limits that are not given")] = False,
    over: Annotated[bool, Query(description="Evict tasks above the limits")] = False,
    dry_run: DryRun = False,
) -> Response:
    """Change the limits of a kind of jobs (omega cell limits KIND …)."""
    given = wanted.model_dump(exclude_unset=True)
    how: Document = {"clear": clear, "over": over, "dry_run": dry_run}
    return await changed(request, served, cell, visitor.user, Client.set_limits, kind, given, **how)


@router.get("/usage")
async def show_usage(
    request: Request,
    visitor: Reader,
    served: Served,
    cell: CellName,
    *,
    by: By = "user",
    from_ms: Time = None,
    to_ms: Time = None,
    fields: Fields = None,
) -> Response:
    """Return what users, pools or kinds used in whole hours, by default of the last day (omega usage)."""
    document = await served.call(cell, visitor.user, Client.usage, by, from_ms=from_ms, to_ms=to_ms)
    return answer(request, document, rows="use", fields=fields)


Kinds = Annotated[list[str], Query(alias="kind", description=f"Only events of these kinds: {', '.join(KINDS)}")]


@router.get("/events/list")
async def list_events(
    request: Request,
    _: Reader,
    mirror: Events,
    *,
    since: Annotated[
        str | None, Query(description="Only events after this version, or index; default: the last")
    ] = None,
    limit: Annotated[
        int,
        Query(ge=1, le=1_000, description="Number of events; those of a version stay together, so it may be exceeded"),
    ] = 50,
    kinds: Kinds = [],  # noqa: B006 - FastAPI copies it
    job: Annotated[str | None, Query(description="Only events of this job: id, name, or beginning of an id")] = None,
    fields: Fields = None,
) -> Response:
    """List events, oldest first (omega events): the first ones after a version, or the last ones."""
    wanted = [current_kind(kind) for kind in kinds]
    for kind in wanted:
        known("kind", kind, KINDS)
    with mirror.lock:
        asked = None if job is None else _job_id(mirror, job)
        after = None if since is None else Index.read(since)
        if after is not None and not after.tag:
            after = after._replace(tag=mirror.index.tag)
        elif after is not None and not mirror.has(after):
            raise Gone(f"index {since}: the store lost this version, or it is too old to be known; list without it")
        document = mirror.events(after=after, kinds=wanted, job=asked, limit=limit)
        index = mirror.index
    return answer(request, document, rows="events", fields=fields, index=index)


def _job_id(mirror: Any, asked: str) -> str:
    """Return the id of a job as commands take it; text that names no kept job is an id: its events may remain."""
    try:
        return str(mirror.find_job(asked).id)
    except Refused:
        return asked
