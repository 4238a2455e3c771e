"""The mirror of a request's cell, for the routes whose answers come from memory."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from anyio import move_on_after, sleep
from fastapi import Depends

from omega.cellstate.errors import Unreachable
from omega.web.api.parameters import CellName
from omega.web.api.polls import Polled
from omega.web.service import Served, Service

LOADING_SECONDS, LOADING_PAUSE = 20.0, 0.02
"""Time for which an answer waits until a cell is read for the first time, and pause between two looks."""


async def loaded(served: Service, cell: str) -> Any:
    """Return the mirror of a cell once it is read. Raises Unreachable while the store is away, or when that lasts."""
    mirror = await served.mirrors.cell(cell)
    with move_on_after(LOADING_SECONDS):
        while mirror.loading[0] < mirror.loading[1] and not mirror.unavailable:  # noqa: ASYNC110 - at a start only
            await sleep(LOADING_PAUSE)
    done, total = mirror.loading
    if mirror.unavailable or done < total:
        raise Unreachable(mirror.unavailable or f"cell {cell}: {done:,} of {total:,} records are read; try again")
    return mirror


def looking(topic: str) -> Callable[..., Awaitable[Any]]:
    """Return a dependency: the mirror of the cell. The long polls of a topic wait here before the answer is made."""

    async def look(served: Served, cell: CellName, poll: Polled) -> Any:
        mirror = await loaded(served, cell)
        await poll.wait(served, cell, topic)
        return mirror

    return look


Jobs = Annotated[Any, Depends(looking("jobs"))]
Machines = Annotated[Any, Depends(looking("machines"))]
Schedulers = Annotated[Any, Depends(looking("schedulers"))]
Pools = Annotated[Any, Depends(looking("pools"))]
Events = Annotated[Any, Depends(looking("events"))]
Cell = Annotated[Any, Depends(looking("cell"))]
