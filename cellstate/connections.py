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


def outdated(connection: Any) -> bool:
    """Return whether a connection is to be opened anew before its next command; a new one begins its age."""
    now, opened = time.monotonic(), getattr(connection, "omega_opened", None)
    if opened is None:
        connection.omega_opened = now
        return False
    return now - float(opened) >= LONGEST_SECONDS


def renew(connection: Any) -> None:
    """Open a connection anew; nobody waits for a reply on it. Raises redis.RedisError."""
    connection.disconnect()
    connection.omega_opened = time.monotonic()
    connection.connect()


class Pool(redis.ConnectionPool):
    """A pool whose connections are renewed."""

    def get_connection(self, *words: Any, **options: Any) -> Any:
        """Return a connection that is young enough."""
        connection = super().get_connection(*words, **options)
        if outdated(connection):
            try:
                renew(connection)
            except BaseException:
                self.release(connection)
                raise
        return connection
