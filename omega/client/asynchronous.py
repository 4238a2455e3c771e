"""`omega.AsyncClient`: the calls of `omega.Client` for asyncio and trio."""

import os
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from copy import copy
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import anyio
import anyio.to_thread

from omega.cellstate.errors import Unreachable
from omega.client.client import POLL_SECONDS, Client, Document
from omega.live.waiting import RETRY_SECONDS, Outage

P = ParamSpec("P")
T = TypeVar("T")
WAIT_SECONDS = 0.25
"""Interval in seconds between two reads of a job that is waited for."""


async def _read(call: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """Run a call that reads on a thread, which continues alone when the call is cancelled."""
    return await anyio.to_thread.run_sync(partial(call, *arguments, **options), abandon_on_cancel=True)


async def _survive(outage: Outage, call: Callable[[], T]) -> T:
    """Return what `call` returns on a thread, trying again while the store is out of reach."""
    while True:
        try:
            answer = await _read(call)
        except Unreachable as error:
            await anyio.sleep(outage.pause(error))
        else:
            outage.over()
            return answer


def _coroutine(
    call: Callable[Concatenate[Client, P], Document], *, reads: bool
) -> "Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, Document]]":
    """Return a method of `Client` as a coroutine with the same parameters and docstring."""

    @wraps(call)
    async def run(self: "AsyncClient", /, *arguments: P.args, **options: P.kwargs) -> Document:
        here = partial(call, self._client, *arguments, **options)
        return await anyio.to_thread.run_sync(here, abandon_on_cancel=reads)

    return run


class AsyncClient:
    """One cell of a store, for coroutines: the calls of `omega.Client` on worker threads.

    A call that reads ends at once when it is cancelled: its thread reads the reply to its end and gives the connection
    back. A call that changes the cell is not interrupted: when it is cancelled, it ends first, within the store's time
    limit of 5 s, and has taken effect or not as a whole. So no connection is left with half a reply.
    """

    def __init__(
        self,
        store: str | None = None,
        cell: str | None = None,
        *,
        store_file: str | os.PathLike[str] | None = None,
        user: str | None = None,
    ) -> None:
        self._client = Client(store, cell, store_file=store_file, user=user)

    def dry_run(self) -> Self:
        """Return a client for dry runs, as `Client.dry_run` does."""
        other = copy(self)
        other._client = self._client.dry_run()  # noqa: SLF001 - its own class
        return other

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections; those that serve a call when it ends."""
        self._client.close()

    @property
    def user(self) -> str:
        """The user of submitted and changed jobs."""
        return self._client.user

    submit = _coroutine(Client.submit, reads=False)
    plan = _coroutine(Client.plan, reads=True)
    jobs = _coroutine(Client.jobs, reads=True)
    status = _coroutine(Client.status, reads=True)
    why = _coroutine(Client.why, reads=True)
    logs = _coroutine(Client.logs, reads=True)
    tasks = _coroutine(Client.tasks, reads=True)
    rerun = _coroutine(Client.rerun, reads=False)
    usage = _coroutine(Client.usage, reads=True)
    stop = _coroutine(Client.stop, reads=False)
    hold = _coroutine(Client.hold, reads=False)
    release = _coroutine(Client.release, reads=False)
    resize = _coroutine(Client.resize, reads=False)
    set_weight = _coroutine(Client.set_weight, reads=False)
    update = _coroutine(Client.update, reads=False)
    history = _coroutine(Client.history, reads=True)
    revert = _coroutine(Client.revert, reads=False)
    job_file = _coroutine(Client.job_file, reads=True)
    plan_release = _coroutine(Client.plan_release, reads=True)
    plan_resize = _coroutine(Client.plan_resize, reads=True)
    plan_update = _coroutine(Client.plan_update, reads=True)
    plan_revert = _coroutine(Client.plan_revert, reads=True)
    machines = _coroutine(Client.machines, reads=True)
    machine = _coroutine(Client.machine, reads=True)
    add_machines = _coroutine(Client.add_machines, reads=False)
    drain = _coroutine(Client.drain, reads=False)
    up = _coroutine(Client.up, reads=False)
    down = _coroutine(Client.down, reads=False)
    remove = _coroutine(Client.remove, reads=False)
    set_machine = _coroutine(Client.set_machine, reads=False)
    resize_machine = _coroutine(Client.resize_machine, reads=False)
    limits = _coroutine(Client.limits, reads=True)
    set_limits = _coroutine(Client.set_limits, reads=False)
    pools = _coroutine(Client.pools, reads=True)
    pool = _coroutine(Client.pool, reads=True)
    set_pool = _coroutine(Client.set_pool, reads=False)
    remove_pools = _coroutine(Client.remove_pools, reads=False)
    replace_pools = _coroutine(Client.replace_pools, reads=False)
    export_pools = _coroutine(Client.export_pools, reads=True)
    import_pools = _coroutine(Client.import_pools, reads=False)
    plan_pools = _coroutine(Client.plan_pools, reads=True)
    schedulers = _coroutine(Client.schedulers, reads=True)
    scheduler = _coroutine(Client.scheduler, reads=True)
    verify = _coroutine(Client.verify, reads=True)
    event_list = _coroutine(Client.event_list, reads=True)
    cell_status = _coroutine(Client.cell_status, reads=True)
    cells = _coroutine(Client.cells, reads=True)

    async def wait(
        self,
        job: str,
        timeout: float | None = None,  # noqa: ASYNC109 - as the command has it
        *,
        retry: float = RETRY_SECONDS,
    ) -> Document:
        """Wait until a job has ended, at most `timeout` seconds, then with ``timed_out``; `retry` as in `Client.wait`.

        No thread is held between two reads.
        """
        began, outage, again = anyio.current_time(), Outage(retry, timeout), 0
        while True:
            left = None if timeout is None else timeout - (anyio.current_time() - began)
            answer = await _survive(outage, partial(self._client.wait, job, 0.0, retry=0.0))
            again += answer["submitted_again"]
            if not answer["timed_out"] or (left is not None and left <= 0):
                return {**answer, "waited_seconds": anyio.current_time() - began, "submitted_again": again}
            job = answer["id"]
            await anyio.sleep(WAIT_SECONDS if left is None else min(WAIT_SECONDS, left))

    async def events(
        self,
        after: int | None = None,
        *,
        kinds: Sequence[str] = (),
        job: str | None = None,
        follow: bool = False,
        retry: float = RETRY_SECONDS,
    ) -> AsyncIterator[Document]:
        """Return the events of the log, oldest first, of versions above `after` (None: all that the log has).

        No thread is held between two reads. `retry` as in `Client.events`.
        """
        outage = Outage(retry)
        step = await _survive(outage, partial(self._client.begin_events, after, kinds=kinds, job=job, follow=follow))
        while True:
            entries, at_end = await _survive(outage, step)
            for entry in entries:
                yield entry
            if at_end and not follow:
                return
            if at_end:
                await anyio.sleep(POLL_SECONDS)
