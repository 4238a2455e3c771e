"""Confirmation of changes by replicas: a small write and WAIT follow the call in the same packed send.

WAIT counts the replicas that have the last write of its own connection. A repeated call often writes nothing: its
script returns the reply of the first one, which another connection or process may have sent. On such a connection WAIT
alone answers at once (Valkey, and Redis from 7.2; older servers take the offset of the last command of any client).
The small write comes after the effect of the call, also of another connection, so replicas that have the write have
the effect.

It is the renewed expiry of a key. A server whose memory is full permits that, so that ends of tasks pass (semantics
13), and it creates no key of a cell that was deleted meanwhile. Where the key is missing, because nothing changed for a
day, a second round trip sets it.
"""

from collections.abc import Sequence
from typing import Any

import redis

from omega.cellstate import keys
from omega.cellstate.durability import Durability
from omega.cellstate.errors import NotReplicated

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


def _packed(commands: Sequence[Sequence[object]]) -> bytes:
    """Return commands in the protocol (RESP)."""
    parts: list[bytes] = []
    for command in commands:
        words = [str(word).encode() for word in command]
        parts += [b"*%d\r\n" % len(words), *(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)]
    return b"".join(parts)


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
