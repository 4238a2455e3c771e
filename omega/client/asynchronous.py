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
        """Submit jobs."""
        return await self._write(self._client.submit, *jobs, hold=hold)

    async def plan(self, *jobs: JobLike, scored: bool = False) -> Document:
        """Return where the tasks of jobs would be placed if they were submitted now; nothing is submitted."""
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
        """Return a page of jobs: the `limit` newest (None: all) of a kind, in a state, of a user."""
        return await self._read(self._client.jobs, kind=kind, state=state, user=user, limit=limit, before=before)

    async def status(self, job: str) -> Document:
        """Return a job with its groups, runs, history and update; `job` as commands take it: id, prefix or name."""
        return await self._read(self._client.status, job)

    async def why(self, job: str, *, machine: str | None = None) -> Document:
        """Return why a job is pending: what each of its demands excludes, and what would help."""
        return await self._read(self._client.why, job, machine=machine)

    async def logs(
        self, job: str, task: int = 0, *, group: str | None = None, stream: str = "stdout", tail: int | None = None
    ) -> Document:
        """Return the output of a task: from its files on this computer, else its last output in the store."""
        return await self._read(self._client.logs, job, task, group=group, stream=stream, tail=tail)

    async def wait(self, job: str, timeout: float | None = None) -> Document:  # noqa: ASYNC109 - as the command has it
        """Wait until a job has ended, at most `timeout` seconds, then with ``timed_out``.

        No thread is held between two reads.
        """
        began = anyio.current_time()
        while True:
            left = None if timeout is None else timeout - (anyio.current_time() - began)
            found = await self._read(self._client.wait, job, 0.0)
            if not found["timed_out"] or (left is not None and left <= 0):
                return {**found, "waited_seconds": anyio.current_time() - began}
            job = found["id"]
            await anyio.sleep(WAIT_SECONDS if left is None else min(WAIT_SECONDS, left))

    async def stop(self, *jobs: str, check: int | None = None, force: bool = False) -> Document:
        """Stop jobs and end their tasks."""
        return await self._write(self._client.stop, *jobs, check=check, force=force)

    async def hold(self, *jobs: str, check: int | None = None, force: bool = False) -> Document:
        """Give jobs no new placements until they are released; running tasks continue."""
        return await self._write(self._client.hold, *jobs, check=check, force=force)

    async def release(self, *jobs: str, check: int | None = None, force: bool = False) -> Document:
        """Undo `hold`."""
        return await self._write(self._client.release, *jobs, check=check, force=force)

    async def resize(
        self, job: str, count: int, *, group: str | None = None, check: int | None = None, force: bool = False
    ) -> Document:
        """Give a task group (by name; None: the only one) another number of tasks."""
        return await self._write(self._client.resize, job, count, group=group, check=check, force=force)

    async def update(self, job: JobLike, *, check: int | None = None, force: bool = False) -> Document:
        """Replace the tasks of a running job step by step by those of `job`."""
        return await self._write(self._client.update, job, check=check, force=force)

    async def machines(
        self, *, state: str | None = None, limit: int | None = None, after: int | None = None
    ) -> Document:
        """Return a page of machines by index: the first `limit` (None: all) in a state whose index is above `after`."""
        return await self._read(self._client.machines, state=state, limit=limit, after=after)

    async def limits(self, kind: str | None = None) -> Document:
        """Return limits and use of a kind of job, or of all with limits or placed tasks."""
        return await self._read(self._client.limits, kind)

    async def set_limits(self, kind: str, limits: Mapping[str, Any], *, clear: bool = False) -> Document:
        """Change the limits of a kind of job and return them: ``resources`` by name, ``jobs``, ``precedence``."""
        return await self._write(self._client.set_limits, kind, limits, clear=clear)

    async def pools(self) -> Document:
        """Return the pools with settings, demand, usage, fair share and status."""
        return await self._read(self._client.pools)

    async def export_pools(self) -> Document:
        """Return pools and trees as `import_pools` takes them."""
        return await self._read(self._client.export_pools)

    async def import_pools(self, document: Mapping[str, Any], *, version: int | None = None) -> Document:
        """Replace all pools and trees by those of a document, and return them as `export_pools` does."""
        return await self._write(self._client.import_pools, document, version=version)

    async def plan_pools(self, document: Mapping[str, Any]) -> Document:
        """Return the fair shares before and after an import of a document."""
        return await self._read(self._client.plan_pools, document)

    async def schedulers(self, *, everybody: bool = False) -> Document:
        """Return the schedulers and their figures, with `everybody` also past ones."""
        return await self._read(self._client.schedulers, everybody=everybody)

    async def cell_status(self) -> Document:
        """Return the figures of the cell."""
        return await self._read(self._client.cell_status)

    async def cells(self) -> Document:
        """Return the cells of the store."""
        return await self._read(self._client.cells)

    async def events(
        self, after: int | None = None, *, kinds: Sequence[str] = (), job: str | None = None, follow: bool = False
    ) -> AsyncIterator[Document]:
        """Return the events of the log, oldest first, of versions above `after` (None: all that the log has).

        No thread is held between two reads.
        """
        step = await self._read(self._client.begin_events, after, kinds=kinds, job=job, follow=follow)
        while True:
            found, at_end = await self._read(step)
            for each in found:
                yield each
            if at_end and not follow:
                return
            if at_end:
                await anyio.sleep(POLL_SECONDS)
