"""Connections of clients: their number is bounded, and one that sends or takes too slowly is closed.

Those that have not sent a valid token, strangers, are a pool of their own: however many there are, they displace no
other connection. TLS begins after a connection is counted, so that one without a handshake is a stranger too.
"""

import asyncio
import ipaddress
import ssl
from dataclasses import dataclass, field
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

MOST_CONNECTIONS = MOST_STRANGERS = 1_024
SPARE_FILES = 64
"""Open files that are left to the rest of the process, and to connections that were accepted and are not yet counted.
"""
AT_ONCE = 16
"""Connections that are accepted before others are served."""
SAFE_SECONDS = 0.1
"""Time that a stranger has at least to send a token before it may be displaced by other strangers: that of a handshake
and a request. It has a second while no more come in one than there are places, and less in a rush, or others would be
refused.
"""
CONNECTION = "omega.admitted"
"""Name of the function in a request's scope that the gate calls for a valid visitor; False: there are too many."""
MOST_HEAD = 64 * 1024
"""Bytes of the head of a request."""
HANDSHAKE_SECONDS = 10.0
"""Time for the handshake of TLS."""
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


@dataclass(slots=True)
class Crowd:
    """The connections of a server: strangers by their address, the oldest first, and at most `most` others."""

    most: int = MOST_CONNECTIONS
    most_strangers: int = MOST_STRANGERS
    _strangers: dict[str, dict["BoundedConnection", float]] = field(default_factory=dict)
    _number: int = 0
    _admitted: dict["BoundedConnection", None] = field(default_factory=dict)

    @classmethod
    def within(cls, files: int, most: int = MOST_CONNECTIONS) -> "Crowd":
        """Return a crowd of a process that may open so many files: each pool has at most half of what is left."""
        left = max(2, files - SPARE_FILES)
        strangers = min(MOST_STRANGERS, left // 2)
        return cls(min(most, left - strangers), strangers)

    def enter(self, connection: "BoundedConnection", now: float) -> bool:
        """Take a stranger; when there are too many, the oldest of the address with most strangers is closed.

        Returns False when all of them are within their safe time: so many do not come faster than they are accepted.
        """
        if self._number >= self.most_strangers and not self._displace(now):
            return False
        self._strangers.setdefault(connection.address, {})[connection] = now
        self._number += 1
        return True

    def _displace(self, now: float) -> bool:
        for some in sorted(self._strangers.values(), key=len, reverse=True):
            oldest, since = next(iter(some.items()))
            if now - since >= SAFE_SECONDS:
                oldest.abort()
                self.leave(oldest)
                return True
        return False

    def admit(self, connection: "BoundedConnection") -> bool:
        """Take a stranger that sent a valid token, in place of one that waits for its next request where necessary."""
        if connection in self._admitted:
            return True
        if len(self._admitted) >= self.most:
            idle = next((each for each in self._admitted if each.is_idle), None)
            if idle is None:
                return False
            idle.abort()
            self.leave(idle)
        self.leave(connection)
        self._admitted[connection] = None
        return True

    def leave(self, connection: "BoundedConnection") -> None:
        """Count a connection no longer, if it is counted."""
        self._admitted.pop(connection, None)
        some = self._strangers.get(connection.address, {})
        if some.pop(connection, None) is not None:
            self._number -= 1
            if not some:
                del self._strangers[connection.address]


class BoundedConnection(HttpToolsProtocol):
    """A connection of a server, one of its `crowd`; with a `context` it speaks TLS."""

    crowd = Crowd()
    context: ssl.SSLContext | None = None
    head_seconds, write_seconds, handshake_seconds = HEAD_SECONDS, WRITE_SECONDS, HANDSHAKE_SECONDS
    address = ""
    _raw: asyncio.Transport | None = None
    _securing: "asyncio.Task[None] | None" = None
    _early = b""
    """What arrived between the handshake and the moment when its end was noticed."""
    _made = False
    _head_timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None
    _awaits_head = True
    _only_head = True
    """Whether what was received last is part of a head and nothing else."""
    _head = 0
    """Bytes of such parts."""
    _fields = 0
    """Bytes of the address and headers of a request."""

    def connection_made(self, transport: Any) -> None:
        """Count a connection, or refuse it; then serve it, after the handshake of TLS."""
        self._raw, self.address = transport, _address(transport.get_extra_info("peername"))
        if not self.crowd.enter(self, self.loop.time()):
            if self.context is None:
                transport.write(BUSY)
            transport.close()
        elif self.context is None:
            self._serve(transport)
        else:
            transport.pause_reading()  # until TLS reads
            self._securing = self.loop.create_task(self._secure(transport, self.context))

    async def _secure(self, transport: asyncio.Transport, context: ssl.SSLContext) -> None:
        try:
            secured = await self.loop.start_tls(
                transport, self, context, server_side=True, ssl_handshake_timeout=self.handshake_seconds
            )
        except OSError:  # also of TLS, and a handshake that takes too long
            self.crowd.leave(self)
            transport.abort()
            return
        if secured is not None and not secured.is_closing():
            self._serve(secured)

    def _serve(self, transport: Any) -> None:
        self._made = True
        super().connection_made(transport)
        self._expect_head()
        if self._early:
            self.data_received(self._early)
            self._early = b""

    def abort(self) -> None:
        """Close the connection at once."""
        if self._raw is not None:
            self._raw.abort()

    def data_received(self, data: bytes) -> None:
        """Take bytes of a request."""
        if not self._made:
            self._early += data if self._securing is not None else b""
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

    def on_message_begin(self) -> None:
        """Begin the head of a request."""
        super().on_message_begin()
        self._fields = 0
        self.scope[CONNECTION] = self._admitted  # type: ignore[literal-required] # ours, not ASGI's

    def _admitted(self) -> bool:
        """Take the connection out of the strangers: a request of it has a valid token."""
        return self.crowd.admit(self)

    def on_url(self, url: bytes) -> None:
        """Take a part of the address."""
        self._count(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        self._count(name + value)
        super().on_header(name, value)

    def _count(self, part: bytes) -> None:
        self._fields += len(part)
        if self._fields > MOST_HEAD:
            raise ValueError("the head of the request is too large")

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
        self.crowd.leave(self)
        if self._made:
            super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Stop writing to a client that takes nothing."""
        super().pause_writing()
        self._write_timer = self.loop.call_later(self.write_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Write again."""
        self._write_timer = _stopped(self._write_timer)
        super().resume_writing()

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


def _address(peer: Any) -> str:
    """Return what counts as the address of a client: of IPv6 the network of 64 bits; "" for a unix socket."""
    if not isinstance(peer, tuple):
        return ""
    try:
        address = ipaddress.ip_address(peer[0].partition("%")[0])
    except ValueError:
        return str(peer[0])
    return str(address) if address.version == 4 else str(ipaddress.ip_network((int(address) >> 64 << 64, 64)))


def _stopped(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """Stop a timer; returns None."""
    if timer is not None:
        timer.cancel()
    return None
