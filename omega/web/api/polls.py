"""Long polls: a request with the index of an earlier answer waits until the resource has a later one."""

from dataclasses import dataclass
from typing import Annotated, Any

import anyio
from fastapi import Depends, Query, Request

from omega.cellstate.durations import parse_duration
from omega.cellstate.errors import BadInput, OmegaError, StoreError
from omega.cellstate.transaction import Position
from omega.queries.mirror.index import Index
from omega.web.problems import Gone
from omega.web.service import Service

WAIT, LONGEST_WAIT_MS = "30s", 300_000


def missing(mirror: Any, index: Index) -> str:
    """Return why nothing can be said of the changes after an index; empty when it can."""
    return "" if mirror.has(index) else "the store lost this version in a failover, or it is too old to be known"


async def as_known(served: Service, cell: str, mirror: Any, index: Index) -> Index:
    """Return an index from before the mirror began as one that it knows, if the store still has that version."""
    if mirror.has(index) or not index.tag or index.version > mirror.index.version:
        return index
    at = Position(index.version, index.tag)
    try:
        standing = await served.read(cell, lambda opened: opened.standing([at]))
    except StoreError:
        return index
    return Index(index.version, mirror.index.tag) if standing.agreed == index.version else index


@dataclass(frozen=True, slots=True)
class Poll:
    """The index after which a request wants an answer, None for at once, and for how long it waits."""

    request: Request
    index: Index | None
    seconds: float

    async def wait(self, served: Service, cell: str, topic: str) -> None:
        """Return when a topic changed after the index, the time is over, or the client is gone. Raises Gone.

        Topics are those of `Mirrors.changed`; ``job:ID`` also changes when the job is no longer kept. No thread waits.
        """
        if self.index is None:
            return
        mirror, why = await served.mirrors.cell(cell), ""
        index = await as_known(served, cell, mirror, self.index)
        if index != self.index:
            return  # nobody has seen what changed until the mirror began
        wakes = ("jobs",) if topic.startswith("job:") else (topic,)
        failure: OmegaError | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(_cancel_when_gone, self.request, group.cancel_scope)
            try:
                with anyio.move_on_after(self.seconds):
                    while not (why := missing(mirror, index)) and not _passed(mirror, topic, index):
                        await served.mirrors.changed(cell, mirror.index, self.seconds, topics=wakes)
                        mirror = await served.mirrors.cell(cell)
            except OmegaError as error:  # a group would make another error of it
                failure = error
            group.cancel_scope.cancel()
        if failure is not None:
            raise failure
        if why:
            raise Gone(f"index {self.index}: {why}; read the resource again without an index")


def _passed(mirror: Any, topic: str, index: Index) -> bool:
    if topic.startswith("job:") and not mirror.job_index(topic[4:]):
        return True
    return bool(mirror.topic_index(topic).passes(index))


async def _cancel_when_gone(request: Request, scope: anyio.CancelScope) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def _poll(
    request: Request,
    index: Annotated[
        str | None, Query(description="Omega-Index of an earlier answer: wait until there is a later one")
    ] = None,
    wait: Annotated[str, Query(description="Longest time to wait, for example 30s; at most 5m")] = WAIT,
) -> Poll:
    milliseconds = parse_duration(wait)
    if milliseconds > LONGEST_WAIT_MS:
        raise BadInput(f"wait={wait}: is too long; wait at most 5m")
    return Poll(request, None if index is None else Index.read(index), milliseconds / 1000)


Polled = Annotated[Poll, Depends(_poll)]
"""The poll that a request is, if any."""
