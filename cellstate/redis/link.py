"""One connection to the store that can have one script call in flight.

Sending and receiving are separate, so that a scheduler decides its next transactions while the store validates the last
ones. Every script is idempotent: after a lost reply the same call is sent again.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import redis

from omega.cellstate.connections import outdated, renew
from omega.cellstate.redis.confirmation import Confirmation
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

    def __init__(self, client: "redis.Redis", opened: Callable[[], None] = lambda: None) -> None:
        """Use the client's connection settings; nothing is opened yet.

        `opened` is called before each call, when its connection is open already; it may raise.
        """
        self._client, self._opened = client, opened
        self._connection: Any = None
        self._loaded: set[str] = set()
        self._sent: tuple[Script, bytes, Confirmation | None] | None = None
        self._head: tuple[Script, list[str], BulkStrings] | None = None
        """The first strings of the last call, which are those of the next one as long as its keys are the same."""

    def send(
        self, script: Script, keys: list[str], arguments: Sequence[object], rest: BulkStrings,
        confirmation: Confirmation | None = None,
    ) -> None:  # fmt: skip
        """Send a call, with further arguments that are packed; `receive` returns its reply. Raises redis.RedisError.

        With `confirmation`, `receive` raises NotReplicated unless enough replicas have the effect.
        """
        if self._head is None or self._head[1] is not keys or self._head[0] is not script:
            self._head = script, keys, bulk_strings(("EVALSHA", script.sha, len(keys), *keys))
        head, own = self._head[2], bulk_strings(arguments)
        number = head.number + own.number + rest.number
        after = confirmation.packed if confirmation is not None else b""
        call = b"".join((b"*%d\r\n" % number, head.packed, own.packed, rest.packed, after))
        self._sent = script, call, confirmation
        self._transmit()

    def receive(self) -> Any:
        """Return the reply of the call in flight; on an error, `again` sends it once more."""
        confirmation = self._sent[2] if self._sent is not None else None
        while True:
            try:
                reply = self._reply()
                confirmed = [self._reply() for _ in confirmation.commands] if confirmation is not None else []
                if isinstance(reply, redis.exceptions.NoScriptError):
                    self._loaded.clear()
                    self._transmit()
                    continue
                if isinstance(reply, Exception):
                    raise reply
                if confirmation is not None and not confirmation.check(reply, confirmed):
                    self._connection.send_packed_command([confirmation.packed_anew])
                    confirmation.check(reply, [self._reply(), self._reply()])
            except (redis.ConnectionError, redis.TimeoutError, OSError):
                self.close()
                raise
            self._sent = None
            return reply

    def _reply(self) -> Any:
        """Return the next reply of the server, which may be an error of it."""
        try:
            return self._connection.read_response(disable_decoding=True)
        except redis.ResponseError as error:
            return error

    def again(self) -> None:
        """Send the call in flight once more, on a new connection."""
        self.close()
        self._transmit()

    def _transmit(self) -> None:
        if self._sent is None:
            raise RuntimeError("no call in flight")
        script, call, _ = self._sent
        if self._connection is None:
            self._connection = self._client.connection_pool.get_connection()
        connection = self._connection
        try:
            if outdated(connection, self._client.connection_pool):
                renew(connection)
            self._opened()
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
