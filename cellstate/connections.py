"""Connections that are opened anew now and then, so that a client follows an address that points to another server.

The name of a store, or the path of its socket, can lead to another server while the old one still answers those that
are connected to it. A connection is therefore used for a few seconds only; the next command opens another one.
"""

import time
from typing import Any

import redis

LONGEST_SECONDS = 5.0
"""Age from which on a connection is opened anew before its next command: an idle role notices another server within
its lease, everybody else within twice this time."""


def outdated(connection: Any, pool: Any) -> bool:
    """Return whether a connection is to be opened anew before its next command; a new one begins its age."""
    now, opened = time.monotonic(), getattr(connection, "omega_opened", None)
    if opened is None:
        connection.omega_opened = now
        return False
    return now - float(opened) >= LONGEST_SECONDS or float(opened) < getattr(pool, "opened_from", 0.0)


def renew(connection: Any) -> None:
    """Open a connection anew; nobody waits for a reply on it. Raises redis.RedisError."""
    connection.disconnect()
    connection.omega_opened = time.monotonic()
    connection.connect()


class Pool(redis.ConnectionPool):
    """A pool whose connections are renewed."""

    opened_from: float = 0.0
    """Connections that were opened before this time (seconds of the monotonic clock) are outdated."""

    def open_anew(self) -> None:
        """Let each connection be opened anew before its next command, so that all lead to the same server."""
        self.opened_from = time.monotonic()

    def get_connection(self, *words: Any, **options: Any) -> Any:
        """Return a connection that is young enough."""
        connection = super().get_connection(*words, **options)
        if outdated(connection, self):
            try:
                renew(connection)
            except BaseException:
                self.release(connection)
                raise
        return connection
