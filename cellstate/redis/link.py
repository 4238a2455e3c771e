"""One connection to the store that can have one script call in flight.

Sending and receiving are separate, so that a scheduler decides its next transactions while the store validates the last
ones. Every script is idempotent: after a lost reply the same call is sent again.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import redis

from omega.cellstate.connections import outdated, renew
from omega.cellstate.redis.scripts import Script


class BulkStrings(NamedTuple):
    """Strings of a command as they are sent: their number, and their bytes in the protocol (RESP)."""

    number: int
    packed: bytes


NO_STRINGS = BulkStrings(0, b"")


class Numbers(dict[int, str]):
    """Numbers that occur often, such as those of machines, as text in the server's protocol."""

    def __missing__(self, value: int) -> str:
        if len(self) >= MOST_NUMBERS:
            self.clear()
        text = self[value] = bulk_string(str(value))
        return text


MOST_NUMBERS = 1 << 16


def bulk_string(text: str) -> str:
    """Return a bulk string of the protocol (RESP), whose characters stand for bytes (Latin-1)."""
    return f"${len(text)}\r\n{text}\r\n"


def bulk_strings(values: Iterable[object]) -> BulkStrings:
    """Return values as they are sent."""
    data = [value if type(value) is bytes else str(value).encode() for value in values]
    return BulkStrings(len(data), b"".join([b"$%d\r\n%b\r\n" % (len(each), each) for each in data]))


class Link:
    """A connection of `client`'s pool, owned by one thread."""

    def __init__(self, client: "redis.Redis") -> None:
        """Use the client's connection settings; nothing is opened yet."""
        self._client = client
        self._connection: Any = None
        self._loaded: set[str] = set()
        self._sent: tuple[Script, bytes] | None = None
        self._head: tuple[Script, list[str], BulkStrings] | None = None
        """The first strings of the last call, which are those of the next one as long as its keys are the same."""

    def send(self, script: Script, keys: list[str], arguments: Sequence[object], rest: BulkStrings) -> None:
        """Send a call, with further arguments that are packed; `receive` returns its reply. Raises redis.RedisError."""
        if self._head is None or self._head[1] is not keys or self._head[0] is not script:
            self._head = script, keys, bulk_strings(("EVALSHA", script.sha, len(keys), *keys))
        head, own = self._head[2], bulk_strings(arguments)
        number = head.number + own.number + rest.number
        self._sent = script, b"".join((b"*%d\r\n" % number, head.packed, own.packed, rest.packed))
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
        script, call = self._sent
        if self._connection is None:
            self._connection = self._client.connection_pool.get_connection()
        connection = self._connection
        try:
            if outdated(connection, self._client.connection_pool):
                renew(connection)
            if script.sha not in self._loaded:
                connection.send_command("SCRIPT", "LOAD", script.text)
                connection.read_response()
                self._loaded.add(script.sha)
            connection.send_packed_command([call])
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
