"""Pools under ``/v1/pools``, and all of them as a file under ``/v1/pool-file``."""

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from omega.client.client import Client
from omega.web.access.visitors import Operator, Reader
from omega.web.api import bodies
from omega.web.api.answers import answer
from omega.web.api.dry_runs import Document, changed
from omega.web.api.looking import Pools
from omega.web.api.parameters import CellName, Check, DryRun, Fields, Name
from omega.web.service import Served

router = APIRouter(prefix="/v1", tags=["pools"])
Evict = Annotated[bool, Query(description="Evict tasks that would be on machines of another pool tree")]
Over = Annotated[bool, Query(description="Evict tasks above a lowered limit")]
FILE: Mapping[str, Any] = {"$ref": "#/components/schemas/FileFields"}
POOL: Mapping[str, Any] = {"type": "object", "description": "Settings of a pool, as in a file of pools"}


@router.get("/pools")
async def list_pools(request: Request, _: Reader, mirror: Pools, *, fields: Fields = None) -> Response:
    """List the pools with demand, usage, fair share and status (omega pool list)."""
    with mirror.lock:
        document, index = mirror.pools(), mirror.index
    return answer(request, document, rows="pools", fields=fields, index=index)


@router.get("/pools/{name}")
async def show_pool(request: Request, _: Reader, mirror: Pools, name: Name) -> Response:
    """Show the settings, shares and volume of a pool (omega pool show)."""
    with mirror.lock:
        document, index = mirror.pool(name), mirror.index
    return answer(request, document, modified=document["version"], index=index)


@router.patch("/pools/{name}", openapi_extra=bodies.described(POOL))
async def set_pool(
    request: Request, visitor: Operator, served: Served, cell: CellName, name: Name, check: Check,
    *, evict: Evict = False, over: Over = False, dry_run: DryRun = False,
) -> Response:  # fmt: skip
    """Create a pool, or change those of its settings that are given; null sets one to its default (omega pool set)."""
    settings = await bodies.document(request, "settings of a pool")
    how: Document = {"evict": evict, "over": over, "dry_run": dry_run}
    return await changed(
        request, served, cell, visitor.user, Client.set_pool, name, settings, check=check, checked="version", **how
    )


@router.delete("/pools/{name}")
async def remove_pool(
    request: Request, visitor: Operator, served: Served, cell: CellName, name: Name, check: Check,
    *, dry_run: DryRun = False,
) -> Response:  # fmt: skip
    """Remove a pool without live jobs and without pools below it (omega pool remove)."""
    how: Document = {"dry_run": dry_run}
    return await changed(
        request, served, cell, visitor.user, Client.remove_pools, name, check=check, checked="version", **how
    )


@router.get("/pool-file")
async def export_pools(request: Request, visitor: Reader, served: Served, cell: CellName) -> Response:
    """Return all pools and trees as a file (omega pool export)."""
    document = await served.call(cell, visitor.user, Client.export_pools)
    return answer(request, document, modified=document["version"])


@router.put("/pool-file", openapi_extra=bodies.described(FILE))
async def import_pools(
    request: Request, visitor: Operator, served: Served, cell: CellName, check: Check,
    *, evict: Evict = False, dry_run: DryRun = False,
) -> Response:  # fmt: skip
    """Replace all pools and trees by those of a file (omega pool import)."""
    file = await bodies.document(request, "pools and trees")
    how: Document = {"evict": evict, "dry_run": dry_run}
    return await changed(
        request, served, cell, visitor.user, Client.replace_pools, file, check=check, checked="version", **how
    )


@router.post("/pool-file/plan", openapi_extra=bodies.described(FILE))
async def plan_pools(request: Request, visitor: Reader, served: Served, cell: CellName) -> Response:
    """Return the fair shares before and after an import of a file; nothing is changed (omega pool plan)."""
    file = await bodies.document(request, "pools and trees")
    return answer(request, await served.call(cell, visitor.user, Client.plan_pools, file))
