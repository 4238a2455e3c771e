"""Connections of clients: their number is bounded, and one that sends or takes too slowly is closed."""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

MOST_CONNECTIONS = 1_024
MOST_HEAD = 64 * 1024
"""Bytes of the head of a request that are kept; one that arrives at once may be four times as large."""
HEAD_SECONDS = 10.0
"""Time in which the head of a request must have arrived, from its first byte or from the beginning of a connection."""
WRITE_SECONDS = 60.0
"""Time in which a client must take some of what waits for it."""
IDLE_SECONDS = 60
"""Time that a connection without a request is kept."""
BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 5\r\nContent-Type: text/plain\r\n"
    b"Content-Length: 37\r\n\r\ntoo many connections; try again later"
)


class BoundedConnection(HttpToolsProtocol):
    """A connection of a server with at most `most` of them."""

    most = MOST_CONNECTIONS
    head_seconds, write_seconds = HEAD_SECONDS, WRITE_SECONDS
    _head_timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None
    _refused = False
    _awaits_head = True
    _only_head = True
    """Whether what was received last is part of a head and nothing else."""
    _head = 0
    """Bytes of such parts."""

    def connection_made(self, transport: Any) -> None:
        """Serve a connection, or refuse it; with too many, one that waits for its next request is closed."""
        if len(self.connections) >= self.most and not self._close_idle():
            self.transport, self._refused = transport, True
            transport.write(BUSY)
            transport.close()
            return
        super().connection_made(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        """Take bytes of a request."""
        if self._refused:
            return
        self._only_head = self._awaits_head
        super().data_received(data)
        self._head = self._head + len(data) if self._only_head else 0
        if self._head > MOST_HEAD and not self.transport.is_closing():
            self.send_400_response("The head of the request is too large.")
        if self._in_progress:
            self._head_timer = _stopped(self._head_timer)
        else:
            self._expect_head()

    def on_headers_complete(self) -> None:
        """Begin a request."""
        self._awaits_head = self._only_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Expect the head of the next request."""
        self._awaits_head = True
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Wait for the next request; a body that nobody reads must end soon."""
        super().on_response_complete()
        if not self._in_progress and self.cycle.more_body:
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the connection."""
        self._head_timer, self._write_timer = _stopped(self._head_timer), _stopped(self._write_timer)
        if not self._refused:
            super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Stop writing to a client that takes nothing."""
        super().pause_writing()
        self._write_timer = self.loop.call_later(self.write_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Write again."""
        self._write_timer = _stopped(self._write_timer)
        super().resume_writing()

    def _close_idle(self) -> bool:
        """Close a connection without a request; returns False when there is none."""
        for each in self.connections:
            if isinstance(each, BoundedConnection) and each.is_idle:
                each.transport.close()
                self.connections.discard(each)  # the transport reports the end later
                return True
        return False

    @property
    def is_idle(self) -> bool:
        """Whether the connection waits for its next request, of which nothing arrived."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and cycle.response_complete and not cycle.more_body and not self._head

    @property
    def _in_progress(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def _expect_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self.head_seconds, self.transport.abort)


def _stopped(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """Stop a timer; returns None."""
    if timer is not None:
        timer.cancel()
    return None
