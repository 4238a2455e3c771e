"""Submission and dry runs: ``POST /v1/jobs`` and ``POST /v1/jobs/plan``."""

from collections.abc import Callable, Coroutine
from hashlib import blake2b
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from fastapi.routing import APIRoute

from omega.cellstate.errors import BadInput
from omega.client.client import Client
from omega.client.together import Submission
from omega.web.access.visitors import Reader, required
from omega.web.api import bodies
from omega.web.api.answers import answer
from omega.web.api.parameters import CellName, flag, must_be_new
from omega.web.service import Served, service

router = APIRouter(prefix="/v1/jobs", tags=["submission"])
MOST_KEY = 256


class PlainRoute(APIRoute):
    """A route whose function takes the request alone: FastAPI would take as long as the function to find that out."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the function."""
        return self.endpoint


class KeyedIds:
    """Ids of jobs without one: the n-th job of a user under a key always gets the same."""

    def __init__(self, user: str, key: str) -> None:
        self._begin, self._number = blake2b(f"{user}\0{key}".encode(), digest_size=32).digest(), 0

    def __call__(self) -> str:
        """Return the next one."""
        self._number += 1
        return blake2b(str(self._number).encode(), key=self._begin, digest_size=8).hexdigest()


def _parameter(name: str, where: str, *, kind: str, about: str) -> dict[str, Any]:
    return {"name": name, "in": where, "required": False, "description": about, "schema": {"type": kind}}


PARAMETERS = [
    _parameter("cell", "query", kind="string", about="Cell; default: that of omega serve, else the only one"),
    _parameter("hold", "query", kind="boolean", about="Give the jobs no placements until they are released"),
    _parameter("dry_run", "query", kind="boolean", about="Refuse and answer as a submission would, and submit nothing"),
    _parameter("Idempotency-Key", "header", kind="string", about="The same key again submits nothing twice"),
    _parameter("If-None-Match", "header", kind="string", about="* : the jobs must not exist yet"),
]
"""Of a submission, which reads them itself: FastAPI's dependencies would take half of its processor time."""


async def submit(request: Request) -> Response:
    """Submit a job or a list of jobs, all of them or none (omega job submit)."""
    visitor, served = required(request, "submitter"), await service(request)
    query, headers = request.query_params, request.headers
    cell, key = await served.cell_name(query.get("cell")), headers.get("idempotency-key")
    asked = Submission((), flag("hold", query.get("hold")), must_be_new(headers.get("if-none-match")))
    if key is not None:
        if not 0 < len(key) <= MOST_KEY:
            raise BadInput(f"Idempotency-Key: has {len(key)} letters; want 1 to {MOST_KEY}")
        asked.next_id, asked.once = KeyedIds(visitor.user, key), True
    dry_run = flag("dry_run", query.get("dry_run"))
    async with bodies.job_file(request) as file:
        made = await served.submit(cell, visitor.user, file, asked, dry_run=dry_run)
    return answer(request, made | {"dry_run": True}) if dry_run else answer(request, made, status=201)


router.add_api_route(
    "", submit, methods=["POST"], status_code=201, route_class_override=PlainRoute,
    openapi_extra=bodies.described(bodies.JOBS) | {"parameters": PARAMETERS, "security": [{"token": []}]},
)  # fmt: skip


@router.post("/plan", openapi_extra=bodies.described(bodies.JOBS))
async def plan(
    request: Request,
    visitor: Reader,
    served: Served,
    cell: CellName,
    *,
    scored: Annotated[bool, Query(description="Add the parts of the score of each machine")] = False,
) -> Response:
    """Return where the tasks of jobs would be placed now; nothing is submitted (omega job plan)."""
    async with bodies.job_file(request) as file:
        document = await served.call(cell, visitor.user, Client.plan, file, scored=scored)
        return await to_thread.run_sync(answer, request, document)  # of thousands of jobs it takes a while
