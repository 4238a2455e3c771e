"""The output of a task of a job."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from omega.client.client import Client
from omega.web.access.visitors import Reader
from omega.web.api.answers import answer
from omega.web.api.parameters import CellName, JobName, one_of, words_query
from omega.web.service import Served

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])
STREAMS = ("stdout", "stderr")
MOST_LINES = 1_000_000
MOST_NUMBER = 1 << 31
Stream = Annotated[str, one_of("stream", STREAMS), words_query(STREAMS, "Its output or its error stream")]


@router.get("/{job}/logs")
async def show_logs(
    request: Request,
    visitor: Reader,
    served: Served,
    cell: CellName,
    job: JobName,
    *,
    task: Annotated[int, Query(ge=0, le=MOST_NUMBER, description="Number of the task")] = 0,
    index: Annotated[int | None, Query(ge=0, le=MOST_NUMBER, description="Index in its array, instead")] = None,
    group: Annotated[str | None, Query(description="Name of its task group; the first by default")] = None,
    generation: Annotated[int | None, Query(ge=1, le=MOST_NUMBER, description="By default the newest")] = None,
    stream: Stream = "stdout",
    tail: Annotated[int | None, Query(ge=0, le=MOST_LINES, description="Only the last lines")] = None,
) -> Response:
    """Return the output of a task, or its last lines (omega job logs)."""
    document = await served.call(
        cell, visitor.user, Client.logs, job, task, index=index, group=group, generation=generation, stream=stream,
        tail=tail,
    )  # fmt: skip
    return answer(request, document)
