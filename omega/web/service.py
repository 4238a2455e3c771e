"""What all routes share: the cells of one store, their mirrors, and connections for changes and single reads."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, ParamSpec, TypeVar

import anyio
import anyio.to_thread
from fastapi import Depends, Request

from omega.client.client import Client
from omega.client.connections import Connections
from omega.client.defaults import which
from omega.client.together import Submission
from omega.jobfile.reader import JobFile
from omega.queries.mirror.mirrors import Mirrors
from omega.users import VouchedUser
from omega.web.together import Together

if TYPE_CHECKING:
    from omega.cellstate.redis import RedisCell

P = ParamSpec("P")
T = TypeVar("T")
THREADS = 8
"""Calls to the store at once; further ones wait without a thread."""

MOST_TOGETHER = 16 << 10
"""Letters of a job file that others wait for; a larger one is submitted by itself."""
KNOWN_SECONDS = 5.0
"""For so long the answer is used which cell is the only one."""


def tried(call: Callable[..., Any], client: Client, *arguments: Any, **options: Any) -> Any:
    """Run a call of a client as a dry run."""
    return call(client.dry_run(), *arguments, **options)


@dataclass(slots=True)
class Service:
    """One store, and the default cell (None: as in `omega.Client`)."""

    store: str
    default: str | None = None
    mirrors: Mirrors = field(init=False)
    _clients: dict[str, Client] = field(default_factory=dict)
    _known: str = ""
    _known_until: float = 0.0
    _connections: dict[str, Connections] = field(default_factory=dict)
    _limiter: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(THREADS))

    together: Together = field(init=False)

    def __post_init__(self) -> None:
        self.mirrors, self.together = Mirrors(self.store), Together(self.call)

    async def cell_name(self, asked: str | None) -> str:
        """Return the name of the cell of a request: `asked`, else the default, else the only one. Raises Refused."""
        if asked or self.default:
            return asked or self.default or ""
        if anyio.current_time() > self._known_until:
            self._known = which(await self.mirrors.names(), self.mirrors.shown_url)
            self._known_until = anyio.current_time() + KNOWN_SECONDS
        return self._known

    async def call(
        self, cell: str, user: str, call: Callable[Concatenate[Client, P], T], *arguments: P.args, **options: P.kwargs
    ) -> T:
        """Run a call of a client of a cell for a user on a thread; one that changes the cell is not interrupted."""
        client = self._clients.get(cell) or Client(self.store, cell)
        here = partial(call, client.as_user(VouchedUser(user)), *arguments, **options)
        try:
            answer = await anyio.to_thread.run_sync(here, limiter=self._limiter)
            self._clients.setdefault(cell, client)  # not before: names of cells that do not exist are not kept
        finally:
            if self._clients.get(cell) is not client:
                client.close()
        return answer

    async def submit(
        self, cell: str, user: str, file: JobFile, asked: Submission, *, dry_run: bool = False
    ) -> dict[str, Any]:
        """Submit the jobs of a file, with other requests where it is small; every way by HTTP leads here.

        Raises OmegaError.
        """
        asked.jobs = [file]
        if dry_run:
            await self.call(cell, user, partial(tried, Client.submit_together), [asked])
        elif len(file.text) > MOST_TOGETHER:
            await self.call(cell, user, Client.submit_together, [asked])
        else:
            await self.together.submit(cell, user, asked)
        return asked.result()

    async def read(self, cell: str, step: "Callable[[RedisCell], T]") -> T:
        """Run one bounded call of a cell on a thread; the caller waits without it."""
        known = self._connections.get(cell) or Connections(self.store, cell)

        def run() -> T:
            with known.cell() as opened:
                self._connections.setdefault(cell, known)  # the cell exists
                return step(opened)

        return await anyio.to_thread.run_sync(run, limiter=self._limiter)

    async def close(self) -> None:
        """Stop the mirrors and close all connections."""
        await self.mirrors.close()
        for client in self._clients.values():
            client.close()
        for connections in self._connections.values():
            connections.close()


async def service(request: Request) -> Service:
    """Return the service of the application of a request."""
    found: Service = request.app.state.service
    return found


Served = Annotated[Service, Depends(service)]
