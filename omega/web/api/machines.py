"""Machines under ``/v1/machines``: lists, one machine, and their changes by operators."""

from typing import Annotated

from fastapi import Query, Request
from fastapi.responses import Response
from pydantic import Field

from omega.client.client import Client
from omega.queries.fleet import STATES
from omega.web.access.visitors import Operator, Reader
from omega.web.api.answers import answer
from omega.web.api.dry_runs import Document, changed
from omega.web.api.forms import Amounts, Form, Names, Whole, api_router
from omega.web.api.looking import Machines
from omega.web.api.parameters import CellName, DryRun, Fields, Name, one_of, words_query
from omega.web.service import Served

router = api_router(prefix="/v1/machines", tags=["machines"])
State = Annotated[str | None, one_of("state", STATES), words_query(STATES, "Only machines in this state")]
CHANGES = {"up": Client.up, "down": Client.down, "remove": Client.remove}


class NewMachines(Names):
    """Machines that an executor simulates."""

    resources: Amounts = Field(min_length=1, description="Of each machine, such as cpu: 16, memory: 64Gi")
    attributes: dict[str, str] = Field(default_factory=dict)
    executor: str | None = Field(None, description="Executor that simulates them; the one of omega up by default")


class Drain(Names):
    """Machines to drain."""

    deadline_ms: Whole | None = Field(None, ge=0, le=1 << 53, description="Time after which their tasks are evicted")


class Attributes(Form):
    """Attributes of a machine; null removes one."""

    attributes: dict[str, str | None] = Field(min_length=1)


class Capacity(Form):
    """Capacity of a machine in some resources."""

    resources: Amounts = Field(min_length=1)


@router.get("")
async def list_machines(
    request: Request,
    _: Reader,
    mirror: Machines,
    *,
    state: State = None,
    attribute: Annotated[list[str], Query(description="Only machines with KEY=VALUE; repeatable")] = [],  # noqa: B006
    limit: Annotated[int, Query(ge=1, le=1_000, description="Maximum number of machines")] = 50,
    after: Annotated[int | None, Query(ge=0, le=1 << 53, description="The `next` of the page before")] = None,
    fields: Fields = None,
) -> Response:
    """List machines by index (omega machine list)."""
    with mirror.lock:
        document = mirror.machines(state=state, limit=limit, after=after, attributes=_pairs(attribute))
        index = mirror.index
    return answer(request, document, rows="machines", fields=fields, index=index)


def _pairs(texts: list[str]) -> dict[str, str]:
    return {key: value for key, _, value in (text.partition("=") for text in texts)}


@router.post("", status_code=201)
async def add_machines(
    request: Request, visitor: Operator, served: Served, cell: CellName, machines: NewMachines,
    *, dry_run: DryRun = False,
) -> Response:  # fmt: skip
    """Add simulated machines; identical existing ones stay as they are (omega machine add)."""
    how: Document = machines.model_dump(exclude={"names"}) | {"dry_run": dry_run}
    call = Client.add_machines
    return await changed(request, served, cell, visitor.user, call, *machines.names, status=201, **how)


@router.post("/drain")
async def drain_machines(
    request: Request, visitor: Operator, served: Served, cell: CellName, machines: Drain,
    *, dry_run: DryRun = False,
) -> Response:  # fmt: skip
    """Drain machines: running tasks finish, no new ones start (omega machine drain)."""
    how: Document = {"deadline_ms": machines.deadline_ms, "dry_run": dry_run}
    return await changed(request, served, cell, visitor.user, Client.drain, *machines.names, **how)


def _add_change(word: str, meaning: str) -> None:
    async def change(
        request: Request, visitor: Operator, served: Served, cell: CellName, machines: Names,
        *, dry_run: DryRun = False,
    ) -> Response:  # fmt: skip
        return await changed(request, served, cell, visitor.user, CHANGES[word], *machines.names, dry_run=dry_run)

    described = f"{meaning} (omega machine {word})."
    router.add_api_route(f"/{word}", change, methods=["POST"], name=f"{word}_machines", description=described)


_add_change("up", "Let machines take tasks again")
_add_change("down", "Mark machines as failed; their tasks are placed again")
_add_change("remove", "Remove machines; their tasks are placed again")


@router.get("/{name}")
async def show_machine(
    request: Request,
    visitor: Reader,
    served: Served,
    cell: CellName,
    name: Name,
    *,
    verbose: Annotated[bool, Query(description="Add needs of tasks, rejections and events")] = False,
    fields: Fields = None,
) -> Response:
    """Show a machine and its running tasks (omega machine status)."""
    return answer(request, await served.call(cell, visitor.user, Client.machine, name, verbose=verbose), fields=fields)


Evict = Annotated[bool, Query(description="Evict tasks that cannot stay")]


@router.post("/{name}/set")
async def set_attributes(
    request: Request, visitor: Operator, served: Served, cell: CellName, name: Name, change: Attributes,
    *, evict: Evict = False, dry_run: DryRun = False,
) -> Response:  # fmt: skip
    """Change attributes of a machine (omega machine set)."""
    how: Document = {"evict": evict, "dry_run": dry_run}
    return await changed(request, served, cell, visitor.user, Client.set_machine, name, change.attributes, **how)


@router.post("/{name}/resize")
async def resize_machine(
    request: Request, visitor: Operator, served: Served, cell: CellName, name: Name, change: Capacity,
    *, evict: Evict = False, dry_run: DryRun = False,
) -> Response:  # fmt: skip
    """Change the capacity of a machine (omega machine resize)."""
    how: Document = {"evict": evict, "dry_run": dry_run}
    return await changed(request, served, cell, visitor.user, Client.resize_machine, name, change.resources, **how)
