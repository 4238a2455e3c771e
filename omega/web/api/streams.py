"""``GET /v1/events``: the events of a cell as server-sent events, from now on or after an index.

The id of an event is an index. Of the events of one version only the last has it, so a reader that connects again with
``Last-Event-ID`` gets each version whole. A stream keeps nothing but its position in the mirror's events.
"""

from collections.abc import AsyncGenerator, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request

from omega.cellstate.errors import BadInput, Refused
from omega.queries.events import KINDS, current_kind
from omega.queries.mirror.index import Index
from omega.web.access.visitors import Reader
from omega.web.api.parameters import CellName
from omega.web.api.polls import as_known, missing
from omega.web.service import Served
from omega.web.sse import ALIVE, ALIVE_SECONDS, Ended, EventStream, event

MOST_AT_ONCE = 500
"""Events that are taken from the mirror at once."""

router = APIRouter(prefix="/v1", tags=["events"])


def _reset(at: Index, why: str, now: Index) -> bytes:
    """Return the event for a reader whose index is no longer known: it reads again what it shows."""
    detail = f"index {at}: {why}; read again what you show: events continue after {now}"
    return event({"after": str(at), "index": str(now), "detail": detail}, name="reset", id=str(now))


def _batch(documents: Sequence[dict[str, Any]], tag: str) -> bytes:
    """Return events, of which the last one of each version has an id, with the tag of a later reading."""
    pieces = []
    for document, following in zip(documents, [*documents[1:], {}], strict=True):
        version = document["version"]
        last = following.get("version") != version
        pieces.append(event(document, id=str(Index(version, tag)) if last else ""))
    return b"".join(pieces)


def _job_id(mirror: Any, asked: str) -> str:
    """Return the id of a job as commands take it; text that names no kept job is an id: its events may remain."""
    try:
        return str(mirror.find_job(asked).id)
    except Refused:
        return asked


async def _events(
    served: Served, cell: str, after: Index, kinds: Sequence[str], job: str | None
) -> AsyncGenerator[bytes]:
    """Yield the events after an index. Versions that are missing are a ``reset``."""
    mirror = await served.mirrors.cell(cell)
    at, new = after, True
    while True:
        with mirror.lock:
            now, why = mirror.index, missing(mirror, at)
            read: dict[str, Any] = {"gap": None, "version": 0}
            if not why:
                read = mirror.events(after=at, kinds=kinds, job=job, limit=MOST_AT_ONCE)
        if read["gap"]:
            why = f"the log has no events of versions {read['gap']['from']} to {read['gap']['to']}"
            if not new:
                raise Ended("slow", f"the reader fell behind: {why}", again=True)
        if why:
            yield _reset(at, why, now)
            at = now
        elif read["events"]:
            yield _batch(read["events"], now.tag)
        new = False
        if not why:
            at = now if read["version"] >= now.version else Index(read["version"], now.tag)
        if at == now and not await served.mirrors.changed(cell, at, ALIVE_SECONDS, topics=("events",)):
            yield f"id: {at}\n".encode() + ALIVE


@router.get("/events", response_class=EventStream, status_code=200)
async def stream_events(
    request: Request,
    served: Served,
    cell: CellName,
    _: Reader,
    kind: Annotated[list[str], Query(description="Only events of these kinds")] = [],  # noqa: B006 - FastAPI copies it
    job: Annotated[str | None, Query(description="Only events of a job: its id, name, or beginning of an id")] = None,
    after: Annotated[str | None, Query(description="Only events after this index; default: new ones")] = None,
    last_event_id: Annotated[str | None, Header(description="As `after`; sent by clients that connect again")] = None,
) -> EventStream:
    """Stream the events of the cell, as ``omega events --follow --json`` prints them."""
    asked = last_event_id or after
    given = None if asked is None else Index.read(asked)
    kinds = tuple(current_kind(each) for each in kind)
    if unknown := [each for each in kinds if each not in KINDS]:
        raise BadInput(f"kind {unknown[0]!r}: there is none; kinds are {', '.join(sorted(KINDS))}")
    mirror = await served.mirrors.cell(cell)
    job_id = None if job is None else _job_id(mirror, job)
    at = mirror.index if given is None else await as_known(served, cell, mirror, given)
    return EventStream(_events(served, cell, at, kinds, job_id), request)
