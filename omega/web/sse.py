"""Server-sent events: a response that ends slow readers, and streams of revoked visitors, with a last event.

Events are written one after another to the connection, which holds at most the server's write buffer of them; the rest
of what a reader has not had stays where it is read from, by the reader's own position. So a slow reader costs one
buffer, and is dropped after `SLOW_SECONDS` in which nothing could be written.
"""

import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

import anyio
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from omega.cellstate.errors import CellGone, OmegaError, StoreError
from omega.cellstate.plain_text import escaped

SLOW_SECONDS = 20.0
"""Time after which a reader that takes nothing is dropped."""
LAST_SECONDS = 10.0
"""Time in which the last event must be taken; then the connection is closed without it."""
ALIVE_SECONDS = 15.0
"""Time without an event after which a comment is sent, so that proxies keep the connection open."""
ALIVE = b":\n\n"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def event(data: Any, *, name: str = "", id: str = "") -> bytes:
    """Return an event with a JSON document, without characters that a terminal must not get."""
    head = (f"event: {name}\n" if name else "") + (f"id: {id}\n" if id else "")
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))  # line ends are escaped
    shown = text if text.isascii() else escaped(text)
    return f"{head}data: {shown}\n\n".encode(errors="replace")


def last_event(reason: str, detail: str, *, again: bool) -> bytes:
    """Return the event that ends a stream: why, in one word and in text, and whether to connect again."""
    return event({"reason": reason, "detail": detail, "again": again}, name="end")


class Ended(Exception):
    """A stream ends with this last event."""

    def __init__(self, reason: str, detail: str, *, again: bool) -> None:
        super().__init__(detail)
        self.last = last_event(reason, detail, again=again)


@dataclass(slots=True)
class OpenStreams:
    """The open streams of a process; `close` ends all of them with a last event."""

    number: int = 0
    closing: anyio.Event = field(default_factory=anyio.Event)

    def close(self) -> None:
        """End all streams, present and future ones."""
        self.closing.set()


class EventStream(Response):
    """A response of events, which `events` yields as bytes, from `event` or `ALIVE`.

    An error of the cell ends the stream. The gate ends it when the token of its visitor is revoked
    (omega/web/access/open_streams.py).
    """

    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[bytes], request: Request) -> None:
        super().__init__(headers=HEADERS, media_type=self.media_type)
        del self.headers["content-length"]
        self._events, self._request = events, request
        self._streams: OpenStreams = request.app.state.streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events until they end, the reader leaves or is dropped, or the process ends."""
        self._streams.number += 1
        last = b""
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            async with anyio.create_task_group() as group:
                group.start_soon(_cancel_when_gone, receive, group.cancel_scope)
                group.start_soon(self._cancel_when_closing, group.cancel_scope)
                last = await self._send_all(send)
                group.cancel_scope.cancel()
            if self._streams.closing.is_set():
                last = last_event("closing", "the server ends", again=True)
        finally:
            self._streams.number -= 1
            await self._events.aclose()
        with anyio.move_on_after(LAST_SECONDS):
            await send(_body(last, more=False))

    async def _cancel_when_closing(self, scope: anyio.CancelScope) -> None:
        await self._streams.closing.wait()
        scope.cancel()

    async def _send_all(self, send: Send) -> bytes:
        """Send the events; returns the last one to send, if any."""
        try:
            await send(_body(ALIVE))
            async for piece in self._events:
                with anyio.move_on_after(SLOW_SECONDS) as limit:
                    await send(_body(piece))
                if limit.cancelled_caught:
                    return last_event("slow", f"the reader took nothing for {SLOW_SECONDS:g} s", again=True)
        except Ended as error:
            return error.last
        except OmegaError as error:
            again = isinstance(error, StoreError) and not isinstance(error, CellGone)
            return last_event("error", str(error), again=again)
        return b""


async def _cancel_when_gone(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


def _body(piece: bytes, *, more: bool = True) -> Message:
    return {"type": "http.response.body", "body": piece, "more_body": more}
