"""Confirmation of changes by replicas: a small write and WAIT follow the call in the same packed send.

WAIT counts the replicas that have the last write of its own connection. A repeated call often writes nothing: its
script returns the reply of the first one, which another connection or process may have sent. On such a connection WAIT
alone answers at once (Valkey, and Redis from 7.2; older servers take the offset of the last command of any client).
The small write comes after the effect of the call, whoever caused it, so replicas that have the write have the effect.
It expires, so that it needs no record in the cell and does not outlive it.
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
     "deregister_scheduler", "deregister_executor",  # leases: whoever lost one registers again
     "progress", "tail", "health", "report_cut",  # reports that are repeated while they are true
     "attempt", "digest", "epoch", "housekeep", "retire", "settle",  # upkeep that any scheduler repeats
     "create"}  # confirmed once the cell is also in the list of cells
)  # a table # fmt: skip
"""Scripts whose effect nobody is told is done: no confirmation follows them. It follows all others."""
DONE = (b"ok", b"map", b"reduce")
"""First words of the answers of scripts after a change, or a repeated one; all other words refuse the call."""
KEPT_MS = 60_000
"""Time after which the small write expires."""


def _packed(words: Sequence[object]) -> bytes:
    data = [str(word).encode() for word in words]
    return b"*%d\r\n" % len(data) + b"".join(b"$%d\r\n%b\r\n" % (len(each), each) for each in data)


class Confirmation:
    """The commands that follow a call, and the check of their replies."""

    def __init__(self, cell: str, durability: Durability, *, gone: bool = False) -> None:
        """`durability`: of the cell; it requires replicas. The written key of one that is `gone` is deleted again."""
        self._cell, self._replicas = cell, durability.replicas
        key = f"{keys.prefix(cell)}confirmed"
        self.commands: tuple[tuple[object, ...], ...] = (
            ("SET", key, "", "PX", KEPT_MS), *([("DEL", key)] if gone else []),
            ("WAIT", durability.replicas, durability.timeout_ms),
        )  # fmt: skip
        self.packed = b"".join(map(_packed, self.commands))

    def check(self, answer: Any, replies: Sequence[Any]) -> None:
        """Raise NotReplicated when too few replicas have the change, redis.RedisError for an error of the server.

        `answer`: of the call itself. One that asks for further keys, or refuses the call, changed nothing: nothing is
        confirmed.
        """
        for reply in replies:
            if isinstance(reply, Exception):
                if str(reply).startswith("UNBLOCKED"):
                    raise redis.ConnectionError("the server became a replica during the call") from reply
                raise reply
        if isinstance(answer, list) and answer[0] not in DONE:
            return
        if (count := int(replies[-1])) < self._replicas:
            raise NotReplicated(
                f"cell {self._cell}: the primary has the change, but {count} of {self._replicas} replicas; "
                "connect the replicas and repeat the command"
            )


def confirmation_of(cell: str, durability: Durability) -> Confirmation | None:
    """Return the confirmation that a cell requires; None without replicas."""
    return Confirmation(cell, durability) if durability.replicas else None


def with_confirmation(client: "redis.Redis", confirmation: Confirmation | None, *calls: Sequence[object]) -> list[Any]:
    """Send commands, and the confirmation of their effect, in one round trip; return their replies.

    Raises redis.RedisError, also for the first error of a command; NotReplicated.
    """
    extra = confirmation.commands if confirmation is not None else ()
    pipe: Any = client.pipeline(transaction=False)
    with pipe:
        for call in (*calls, *extra):
            pipe.execute_command(*call)
        replies: list[Any] = pipe.execute(raise_on_error=False)
    for reply in replies[: len(calls)]:
        if isinstance(reply, Exception):
            raise reply
    if confirmation is not None:
        confirmation.check(replies[len(calls) - 1] if calls else None, replies[len(calls) :])
    return replies[: len(calls)]


def confirm(client: "redis.Redis", cell: str, durability: Durability, *, gone: bool = False) -> None:
    """Wait until replicas have all changes of a cell before this call. Raises redis.RedisError, NotReplicated."""
    if durability.replicas:
        with_confirmation(client, Confirmation(cell, durability, gone=gone))
