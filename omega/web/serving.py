"""uvicorn as ``omega serve`` runs it: with bounded connections, without logs of requests, and ending in order."""

import signal
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from omega.schedulers.process.signals import leave_signals
from omega.web.connections import AT_ONCE, IDLE_SECONDS, BoundedConnection, Crowd
from omega.web.listening import BACKLOG

LEAVING_SECONDS = 5
"""Time for requests in progress when the server is asked to end."""


class Server(uvicorn.Server):
    """A server that calls `ready` when it answers, and `closing` at a signal; then it ends in order, and returns."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None], closing: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready, self._closing = ready, closing

    @classmethod
    def of(
        cls,
        app: ASGIApp,
        ready: Callable[[], None],
        *,
        closing: Callable[[], None] = lambda: None,
        crowd: Crowd | None = None,
        context: ssl.SSLContext | None = None,
    ) -> "Server":
        """Return a server of an application whose connections are a crowd, with TLS if there is a context.

        The address of a client is that of its connection: headers of proxies do not change it. The log of requests is
        off, because addresses may have a token.
        """
        config = uvicorn.Config(
            app, http=type("Connection", (BoundedConnection,), {"crowd": crowd or Crowd(), "context": context}),
            ws="none", lifespan="on", backlog=AT_ONCE,
            log_config=None, access_log=False, proxy_headers=False, server_header=False,
            timeout_keep_alive=IDLE_SECONDS, timeout_graceful_shutdown=LEAVING_SECONDS,
        )  # fmt: skip
        return cls(config, ready, closing)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer."""
        await super().startup(sockets)
        for each in sockets or ():
            each.listen(BACKLOG)  # uvicorn's is also the number of connections that are accepted at once
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams, and then everything else."""
        self._closing()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take signals to end; uvicorn would send them to the process again when it has ended."""
        ours = threading.current_thread() is threading.main_thread()
        before = {each: signal.signal(each, self.handle_exit) for each in (leave_signals() if ours else ())}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)
