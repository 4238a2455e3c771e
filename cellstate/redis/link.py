"""One connection to the store that can have one script call in flight.

Sending and receiving are separate, so that a scheduler decides its next transactions while the store validates the last
ones. Every script is idempotent: after a lost reply the same call is sent again.
"""

from collections.abc import Sequence
from typing import Any

import redis
from hiredis import pack_command

from cellstate.redis.scripts import Script


class Link:
    """A connection of `client`'s pool, owned by one thread."""

    def __init__(self, client: "redis.Redis") -> None:
        """Use the client's connection settings; nothing is opened yet."""
        self._client = client
        self._connection: Any = None
        self._loaded: set[str] = set()
        self._sent: tuple[Script, list[str], Sequence[object]] | None = None

    def send(self, script: Script, keys: list[str], arguments: Sequence[object]) -> None:
        """Send a call; `receive` returns its reply. Raises redis.RedisError."""
        self._sent = script, keys, arguments
        self._transmit()

    def receive(self) -> Any:
        """Return the reply of the call in flight; on an error, `again` sends it once more."""
        while True:
            try:
                reply = self._connection.read_response(disable_decoding=True)
            except redis.exceptions.NoScriptError:
                self._loaded.clear()
                self._transmit()
            except (redis.ConnectionError, redis.TimeoutError, OSError):
                self.close()
                raise
            else:
                self._sent = None
                return reply

    def again(self) -> None:
        """Send the call in flight once more, on a new connection."""
        self.close()
        self._transmit()

    def _transmit(self) -> None:
        if self._sent is None:
            raise RuntimeError("no call in flight")
        script, keys, arguments = self._sent
        if self._connection is None:
            self._connection = self._client.connection_pool.get_connection()
        connection = self._connection
        try:
            if script.sha not in self._loaded:
                connection.send_command("SCRIPT", "LOAD", script.text)
                connection.read_response()
                self._loaded.add(script.sha)
            call: Any = ("EVALSHA", script.sha, len(keys), *keys, *arguments)
            connection.send_packed_command([pack_command(call)])
        except (redis.ConnectionError, redis.TimeoutError, OSError):
            self.close()
            raise

    def close(self) -> None:
        """Drop the connection; the next call opens another."""
        connection, self._connection = self._connection, None
        self._loaded.clear()
        if connection is not None:
            connection.disconnect()
            self._client.connection_pool.release(connection)
