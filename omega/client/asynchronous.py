"""`omega.AsyncClient`: the calls of `omega.Client` for asyncio and trio."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Self, TypeVar

import anyio
import anyio.to_thread

from omega.client.client import POLL_SECONDS, Client, Document, JobLike

T = TypeVar("T")
WAIT_SECONDS = 0.25
"""Interval in seconds between two reads of a job that is waited for."""


class AsyncClient:
    """One cell of a store, for coroutines: the calls of `omega.Client` on worker threads.

    A call that reads ends at once when it is cancelled: its thread reads the reply to its end and gives the connection
    back. A call that changes the cell is not interrupted: when it is cancelled, it ends first, within the store's time
    limit of 5 s, and has taken effect or not as a whole. So no connection is left with half a reply.
    """

    def __init__(self, store: str | None = None, cell: str | None = None, *, user: str | None = None) -> None:
        """Name a store and a cell as `omega.Client` does."""
        self._client = Client(store, cell, user=user)

    async def __aenter__(self) -> Self:
        """Return the client; it is closed when the block ends."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the client."""
        self._client.close()

    def close(self) -> None:
        """Close all connections; those that serve a call when it ends."""
        self._client.close()

    @property
    def user(self) -> str:
        """The user of submitted and changed jobs."""
        return self._client.user

    async def _read(self, call: Callable[..., T], *arguments: Any, **options: Any) -> T:
        return await anyio.to_thread.run_sync(partial(call, *arguments, **options), abandon_on_cancel=True)

    async def _write(self, call: Callable[..., T], *arguments: Any, **options: Any) -> T:
        return await anyio.to_thread.run_sync(partial(call, *arguments, **options))

    async def submit(self, *jobs: JobLike, hold: bool = False) -> Document:
        """See Client.submit."""
        return await self._write(self._client.submit, *jobs, hold=hold)

    async def plan(self, *jobs: JobLike, scored: bool = False) -> Document:
        """See Client.plan."""
        return await self._read(self._client.plan, *jobs, scored=scored)

    async def jobs(
        self,
        *,
        kind: str | None = None,
        state: str | None = None,
        user: str | None = None,
        limit: int | None = None,
        before: int | None = None,
    ) -> Document:
        """See Client.jobs."""
        return await self._read(self._client.jobs, kind=kind, state=state, user=user, limit=limit, before=before)

    async def status(self, job: str) -> Document:
        """See Client.status."""
        return await self._read(self._client.status, job)

    async def why(self, job: str, *, machine: str | None = None) -> Document:
        """See Client.why."""
        return await self._read(self._client.why, job, machine=machine)

    async def logs(
        self, job: str, task: int = 0, *, group: str | None = None, stream: str = "stdout", tail: int | None = None
    ) -> Document:
        """See Client.logs."""
        return await self._read(self._client.logs, job, task, group=group, stream=stream, tail=tail)

    async def wait(self, job: str, timeout: float | None = None) -> Document:  # noqa: ASYNC109 - as the command has it
        """See Client.wait; no thread is held between two reads."""
        began = anyio.current_time()
        while True:
            left = None if timeout is None else timeout - (anyio.current_time() - began)
            found = await self._read(self._client.wait, job, 0.0)
            if not found["timed_out"] or (left is not None and left <= 0):
                return {**found, "waited_seconds": anyio.current_time() - began}
            job = found["id"]
            await anyio.sleep(WAIT_SECONDS if left is None else min(WAIT_SECONDS, left))

    async def stop(self, *jobs: str, check: int | None = None, force: bool = False) -> Document:
        """See Client.stop."""
        return await self._write(self._client.stop, *jobs, check=check, force=force)

    async def hold(self, *jobs: str, check: int | None = None, force: bool = False) -> Document:
        """See Client.hold."""
        return await self._write(self._client.hold, *jobs, check=check, force=force)

    async def release(self, *jobs: str, check: int | None = None, force: bool = False) -> Document:
        """See Client.release."""
        return await self._write(self._client.release, *jobs, check=check, force=force)

    async def resize(
        self, job: str, count: int, *, group: str | None = None, check: int | None = None, force: bool = False
    ) -> Document:
        """See Client.resize."""
        return await self._write(self._client.resize, job, count, group=group, check=check, force=force)

    async def update(self, job: JobLike, *, check: int | None = None, force: bool = False) -> Document:
        """See Client.update."""
        return await self._write(self._client.update, job, check=check, force=force)

    async def machines(
        self, *, state: str | None = None, limit: int | None = None, after: int | None = None
    ) -> Document:
        """See Client.machines."""
        return await self._read(self._client.machines, state=state, limit=limit, after=after)

    async def limits(self, kind: str | None = None) -> Document:
        """See Client.limits."""
        return await self._read(self._client.limits, kind)

    async def set_limits(self, kind: str, limits: Mapping[str, Any], *, clear: bool = False) -> Document:
        """See Client.set_limits."""
        return await self._write(self._client.set_limits, kind, limits, clear=clear)

    async def pools(self) -> Document:
        """See Client.pools."""
        return await self._read(self._client.pools)

    async def export_pools(self) -> Document:
        """See Client.export_pools."""
        return await self._read(self._client.export_pools)

    async def import_pools(self, document: Mapping[str, Any], *, version: int | None = None) -> Document:
        """See Client.import_pools."""
        return await self._write(self._client.import_pools, document, version=version)

    async def plan_pools(self, document: Mapping[str, Any]) -> Document:
        """See Client.plan_pools."""
        return await self._read(self._client.plan_pools, document)

    async def schedulers(self, *, everybody: bool = False) -> Document:
        """See Client.schedulers."""
        return await self._read(self._client.schedulers, everybody=everybody)

    async def cell_status(self) -> Document:
        """See Client.cell_status."""
        return await self._read(self._client.cell_status)

    async def cells(self) -> Document:
        """See Client.cells."""
        return await self._read(self._client.cells)

    async def events(
        self, after: int | None = None, *, kinds: Sequence[str] = (), job: str | None = None, follow: bool = False
    ) -> AsyncIterator[Document]:
        """See Client.events; no thread is held between two reads."""
        step = await self._read(self._client.begin_events, after, kinds=kinds, job=job, follow=follow)
        while True:
            found, at_end = await self._read(step)
            for each in found:
                yield each
            if at_end and not follow:
                return
            if at_end:
                await anyio.sleep(POLL_SECONDS)
