"""One connection to the store that can have one script call in flight.

Sending and receiving are separate, so that a scheduler decides its next transactions while the store validates the last
ones. Every script is idempotent: after a lost reply the same call is sent again.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import redis

from omega.cellstate import keys
from omega.cellstate.connections import outdated, renew
from omega.cellstate.durability import Durability
from omega.cellstate.errors import NotReplicated
from omega.cellstate.redis.scripts import Script

# Confirmation of changes by replicas: a small write and WAIT follow the call in the same packed send.
#
# WAIT counts the replicas that have the last write of its own connection. A repeated call often writes nothing: its
# script returns the reply of the first one, which another connection or process may have sent. On such a connection
# WAIT
# alone answers at once (Valkey, and Redis from 7.2; older servers take the offset of the last command of any client).
# The small write comes after the effect of the call, also of another connection, so replicas that have the write have
# the effect.
#
# It is the renewed expiry of a key. A server whose memory is full permits that, so that ends of tasks pass (semantics
# 13), and it creates no key of a cell that was deleted meanwhile. Where the key is missing, because nothing changed for
# a
# day, a second round trip sets it.

UNCONFIRMED = frozenset(
    {"agreed", "changed_records", "sync", "start",  # read
     "register_scheduler", "register_executor", "register_agent", "renew_scheduler", "renew_executor", "online",
     "unfit",
     "deregister_scheduler", "deregister_executor",  # leases: a member that lost one registers again
     "progress", "tail", "health", "report_cut", "confirm_runs",  # reports that are repeated while they are true
     "request_output", "answer_output",  # asked again when there is no answer
     "attempt", "digest", "epoch", "housekeep", "retire", "settle",  # upkeep that any scheduler repeats
     "create"}  # confirmed once the cell is also in the list of cells
)  # a table # fmt: skip
"""Scripts with an effect that no caller reports as done: no confirmation follows them. It follows all others."""
UNCHANGED = frozenset(
    b"keys busy done ended failed far fenced few group held jobs lane large many moved often out over overtaken set "
    b"stale sum unknown wait".split()
)
"""First words of the answers by which scripts ask for further keys or refuse a call: nothing was changed."""
KEPT_MS = 24 * 3600 * 1000
"""Time after the last change at which the key expires."""


def _words(values: Iterable[object]) -> tuple[int, bytes]:
    """Return the number of values, and the values as they are sent in the protocol (RESP)."""
    words = [value if type(value) is bytes else str(value).encode() for value in values]
    return len(words), b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in words])


def _packed(commands: Sequence[Sequence[object]]) -> bytes:
    """Return commands as they are sent."""
    return b"".join([b"*%d\r\n%b" % _words(command) for command in commands])


class Confirmation:
    """The commands that follow a call, and the check of their replies."""

    def __init__(self, cell: str, durability: Durability) -> None:
        """`durability`: of the cell; it requires replicas."""
        self._cell, self._replicas = cell, durability.replicas
        self.key = f"{keys.prefix(cell)}confirmed"
        self.wait: tuple[object, ...] = "WAIT", durability.replicas, durability.timeout_ms
        self.set: tuple[object, ...] = "SET", self.key, "", "PX", KEPT_MS
        self.commands: tuple[tuple[object, ...], ...] = ("PEXPIRE", self.key, KEPT_MS), self.wait
        self.packed, self.packed_anew = _packed(self.commands), _packed((self.set, self.wait))

    def check(self, answer: Any, replies: Sequence[Any]) -> bool:
        """Return whether replicas have the change; False: the key is missing and has to be set, before another WAIT.

        `answer`: of the call itself. One that asks for further keys, or refuses the call, changed nothing: nothing is
        confirmed. Raises NotReplicated when too few replicas have the change, redis.RedisError for an error of the
        server.
        """
        for reply in replies:
            if isinstance(reply, Exception):
                if str(reply).startswith("UNBLOCKED"):
                    raise redis.ConnectionError("the server became a replica during the call") from reply
                raise reply
        if isinstance(answer, list) and answer[0] in UNCHANGED:
            return True
        if not replies[0]:
            return False
        if (count := int(replies[-1])) < self._replicas:
            raise NotReplicated(
                f"cell {self._cell}: the primary has the change, but {count} of {self._replicas} replicas"
            )
        return True


def confirmation_of(cell: str, durability: Durability) -> Confirmation | None:
    """Return the confirmation that a cell requires; None without replicas."""
    return Confirmation(cell, durability) if durability.replicas else None


def confirmed(client: "redis.Redis", confirmation: Confirmation | None, *call: object) -> Any:
    """Send a command, and the confirmation of its effect, in one round trip; return the reply.

    Raises redis.RedisError, NotReplicated.
    """
    if confirmation is None:
        sent: Any = client
        return sent.execute_command(*call)
    answer, *replies = _replies(client, call, *confirmation.commands)
    if isinstance(answer, Exception):
        raise answer
    if not confirmation.check(answer, replies):
        confirmation.check(answer, _replies(client, confirmation.set, confirmation.wait))
    return answer


def confirm(client: "redis.Redis", cell: str, durability: Durability, *, gone: bool = False) -> None:
    """Wait until replicas have all changes of a cell before this call; one that is `gone` keeps no key.

    Raises redis.RedisError, NotReplicated.
    """
    if confirmation := confirmation_of(cell, durability):
        after = [("DEL", confirmation.key)] if gone else []
        confirmation.check(None, _replies(client, confirmation.set, *after, confirmation.wait))


def _replies(client: "redis.Redis", *commands: Sequence[object]) -> list[Any]:
    """Send commands in one round trip; return their replies, errors among them."""
    with client.pipeline(transaction=False) as pipe:
        sent: Any = pipe
        for command in commands:
            sent.execute_command(*command)
        return list(pipe.execute(raise_on_error=False))


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
        self._head: tuple[Script, list[str], int, bytes] | None = None
        """The first strings of the last call, which are those of the next one as long as its keys are the same."""

    def send(
        self, script: Script, keys: list[str], arguments: Sequence[object], confirmation: Confirmation | None = None
    ) -> None:
        """Send a call; `receive` returns its reply. Raises redis.RedisError.

        With `confirmation`, `receive` raises NotReplicated unless enough replicas have the effect.
        """
        if self._head is None or self._head[1] is not keys or self._head[0] is not script:
            self._head = script, keys, *_words(("EVALSHA", script.sha, len(keys), *keys))
        *_, number, head = self._head
        count, own = _words(arguments)
        after = confirmation.packed if confirmation is not None else b""
        call = b"".join((b"*%d\r\n" % (number + count), head, own, after))
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
