"""Submission and dry runs: ``POST /v1/jobs`` and ``POST /v1/jobs/plan``."""

from hashlib import blake2b
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import Response

from omega.cellstate.errors import BadInput
from omega.client.client import Client
from omega.client.together import Submission
from omega.web.access.visitors import Reader, Submitter
from omega.web.api import bodies
from omega.web.api.answers import answer
from omega.web.api.parameters import CellName, MustBeNew
from omega.web.service import Served

router = APIRouter(prefix="/v1/jobs", tags=["submission"])
MOST_KEY = 256
MOST_TOGETHER = 16 << 10
"""Letters of a body that others wait for; a larger one is submitted by itself."""
Key = Annotated[str | None, Header(max_length=MOST_KEY, description="The same key again submits nothing twice")]


class KeyedIds:
    """Ids of jobs without one: the n-th job of a user under a key always gets the same."""

    def __init__(self, user: str, key: str) -> None:
        self._begin, self._number = blake2b(f"{user}\0{key}".encode(), digest_size=32).digest(), 0

    def __call__(self) -> str:
        """Return the next one."""
        self._number += 1
        return blake2b(str(self._number).encode(), key=self._begin, digest_size=8).hexdigest()


@router.post("", status_code=201, openapi_extra=bodies.described(bodies.JOBS))
async def submit(
    request: Request,
    visitor: Submitter,
    served: Served,
    cell: CellName,
    new: MustBeNew,
    *,
    idempotency_key: Key = None,
    hold: Annotated[bool, Query(description="Give the jobs no placements until they are released")] = False,
) -> Response:
    """Submit a job or a list of jobs, all of them or none (omega job submit)."""
    if idempotency_key == "":
        raise BadInput("Idempotency-Key: is empty; leave it out, or name the submission")
    file = await bodies.job_file(request)
    asked = Submission([file], hold, new)
    if idempotency_key is not None:
        asked.next_id = KeyedIds(visitor.user, idempotency_key)
    if len(file.text) > MOST_TOGETHER:
        await served.call(cell, visitor.user, Client.submit_together, [asked])
    else:
        await served.together.submit(cell, visitor.user, asked)
    return answer(request, asked.result(), status=201)


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
    file = await bodies.job_file(request)
    return answer(request, await served.call(cell, visitor.user, Client.plan, file, scored=scored))
