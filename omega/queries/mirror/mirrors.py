"""The mirrors of the cells of a store, for a process that serves many pages: one reader per cell that is looked at."""

import asyncio
import ctypes
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

import anyio
import anyio.to_thread

from omega.cellstate import server
from omega.cellstate.addresses import safe_url
from omega.cellstate.clock import now_ms
from omega.cellstate.errors import OmegaError, Refused, Unsuitable
from omega.cellstate.store import cells, connect_cell
from omega.queries.mirror.cell_mirror import CellMirror
from omega.queries.mirror.index import Index

T = TypeVar("T")
PERIOD_SECONDS = 0.5
"""Least time between the beginnings of two readings of a cell."""
LOADING_PAUSE = 0.02
AWAY_SECONDS = 1.0
"""Time between two readings while the store is unavailable."""
IDLE_SECONDS = 60.0
"""Time after the last look after which a mirror is dropped."""
TIDY_SECONDS = 60.0
"""Time between two calls that give freed memory back to the system."""
READERS = 4
"""Cells that are read at once."""


@dataclass(slots=True)
class _Kept:
    """A mirror with its reader; `round` is replaced, and the old one set, after each reading."""

    mirror: CellMirror
    looked: float
    round: anyio.Event = field(default_factory=anyio.Event)
    waiting: int = 0
    read: float = -1e9
    """When the last whole reading began."""
    tidied: float = -1e9
    task: "asyncio.Task[None] | None" = None


class Mirrors:
    """The mirrors of one store. All methods are called in one event loop."""

    def __init__(self, store: str) -> None:
        """Mirror cells of the store at a URL; nothing is opened yet."""
        self.store, self.shown_url = store, safe_url(store)
        self._kept: dict[str, _Kept] = {}
        self._opening: dict[str, anyio.Lock] = {}
        self._limiter = anyio.CapacityLimiter(READERS)

    async def names(self) -> list[str]:
        """Return the names of the cells of the store. Raises StoreError."""
        return await self._run(self._names)

    def _names(self) -> list[str]:
        client = server.connect(self.store)
        try:
            return cells(client, self.store)
        finally:
            client.close()

    async def cell(self, name: str) -> CellMirror:
        """Return the mirror of a cell, read once at least; its reader runs until nobody has asked for a while.

        Raises Refused for a cell that does not exist, and StoreError when the store does not answer the first reading.
        While the store is away later, the mirror is as it was: `CellMirror.unavailable` has the error.
        """
        kept = self._kept.get(name)
        if kept is None:
            async with self._opening.setdefault(name, anyio.Lock()):
                kept = self._kept.get(name) or await self._open(name)
        kept.looked = anyio.current_time()
        return kept.mirror

    async def _open(self, name: str) -> _Kept:
        opened = await self._run(lambda: connect_cell(self.store, name, patient=False))
        mirror = CellMirror(opened, self.shown_url)
        try:
            await self._run(lambda: mirror.read(now_ms()))
        except OmegaError:
            opened.close()
            raise
        kept = self._kept[name] = _Kept(mirror, anyio.current_time())
        kept.task = asyncio.create_task(self._follow(name, kept))
        return kept

    async def changed(self, name: str, after: Index, timeout: float, topics: Iterable[str] = ("cell",)) -> bool:  # noqa: ASYNC109 - a long poll ends with an answer, not with an error
        """Wait until a topic of a cell changed after an index, at most `timeout` seconds; return whether one did.

        Returns at once for an index that the mirror does not have. Raises as `cell`, and Refused when the cell is gone.
        """
        wanted = tuple(topics)
        with anyio.move_on_after(timeout):
            while True:
                mirror = await self.cell(name)
                if not mirror.has(after) or any(mirror.topic_index(topic).passes(after) for topic in wanted):
                    return True
                kept = self._kept[name]
                kept.waiting += 1
                try:
                    await kept.round.wait()
                finally:
                    kept.waiting -= 1
        return False

    async def read_now(self, name: str, timeout: float) -> None:  # noqa: ASYNC109 - a late page is better than none
        """Wait until the mirror of a cell has what is in the store now, at most `timeout` seconds. Raises as `cell`."""
        mirror, asked = await self.cell(name), anyio.current_time()
        with anyio.move_on_after(timeout):
            while (kept := self._kept.get(name)) is not None and kept.read < asked and not mirror.unavailable:
                await kept.round.wait()

    async def close(self) -> None:
        """Stop all readers."""
        for kept in list(self._kept.values()):
            if kept.task is not None:
                kept.task.cancel()
                with suppress(asyncio.CancelledError):
                    await kept.task
        self._kept.clear()

    async def _follow(self, name: str, kept: _Kept) -> None:
        mirror = kept.mirror
        try:
            while True:
                done, total = mirror.again or mirror.loading
                if done == total and anyio.current_time() > kept.tidied + TIDY_SECONDS:
                    kept.tidied = anyio.current_time()
                    await self._run(give_back_memory)
                await anyio.sleep(LOADING_PAUSE if done < total and not mirror.unavailable else PERIOD_SECONDS)
                began = anyio.current_time()
                if not kept.waiting and began - kept.looked > IDLE_SECONDS:
                    return
                try:
                    await self._run(lambda: mirror.read(now_ms()))
                    kept.read = began
                except (Refused, Unsuitable):
                    return  # the next look opens it again, or learns why not
                except OmegaError:
                    await anyio.sleep(AWAY_SECONDS)
                self._wake(kept)
                await anyio.sleep(max(0.0, anyio.current_time() - began - PERIOD_SECONDS))  # at most half of the time
        finally:
            self._kept.pop(name, None)
            self._wake(kept)
            mirror.cell.close()

    def _wake(self, kept: _Kept) -> None:
        before, kept.round = kept.round, anyio.Event()
        before.set()

    async def _run(self, call: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(call, limiter=self._limiter)


def give_back_memory() -> None:
    """Give freed memory back to the system, where its C library can: readings free much that they used shortly."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
