"""Submissions that arrive together: they go to the store in one call, on one thread."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from omega.cellstate.errors import OmegaError
from omega.client.client import Client
from omega.client.together import Submission

MOST = 250
"""Submissions of a call: some milliseconds of the server's time."""
PAUSE_SECONDS = 0.01
"""Time between two calls of a user for whom more waits: most of what a call costs does not depend on their number."""
Call = Callable[..., Awaitable[Any]]


@dataclass(slots=True)
class Together:
    """Submissions by cell and user; while a call of a user is in progress, the next ones gather."""

    call: Call
    """Runs a call of a client on a thread (`Service.call`)."""
    _waiting: dict[tuple[str, str], list[tuple[Submission, "asyncio.Future[None]"]]] = field(default_factory=dict)
    _senders: set["asyncio.Task[None]"] = field(default_factory=set)

    async def submit(self, cell: str, user: str, asked: Submission) -> None:
        """Submit jobs, with those of other requests, and set the answer or error. Raises StoreError.

        A request that is cancelled meanwhile is submitted all the same.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue = self._waiting.get((cell, user))
        if queue is None:
            queue = self._waiting[cell, user] = []
            sender = asyncio.create_task(self._send(cell, user))
            self._senders.add(sender)
            sender.add_done_callback(self._senders.discard)
        queue.append((asked, done))
        await done

    async def _send(self, cell: str, user: str) -> None:
        """Make calls for a user until nothing waits."""
        queue = self._waiting[cell, user]
        try:
            while queue:
                some = queue[:MOST]
                del queue[:MOST]
                failure: BaseException | None = None
                try:
                    await self.call(cell, user, Client.submit_together, [asked for asked, _ in some])
                except (OmegaError, asyncio.CancelledError) as error:
                    failure = error
                except Exception as error:  # noqa: BLE001 - each request answers it
                    failure = error
                for _, done in some:
                    if not done.cancelled():
                        done.set_result(None) if failure is None else done.set_exception(failure)
                if queue:
                    await asyncio.sleep(PAUSE_SECONDS)
        finally:
            del self._waiting[cell, user]
