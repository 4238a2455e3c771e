"""Where the primary of a store is now: as Sentinels say, or as the nodes of a Cluster do for the slot of a cell."""

import time
from collections.abc import Sequence
from typing import Any, Protocol

import redis
from redis.crc import key_slot
from redis.sentinel import MasterNotFoundError, Sentinel

from omega.cellstate.addresses import Address, Node

FRESH_SECONDS = 1.0
"""For so long an answer counts; then the next command asks again. A primary that lost its role is left within it."""
ASK_SECONDS = 0.5
"""Maximum wait for the answer of one Sentinel or node."""


class Primary(Protocol):
    """Finds the primary."""

    def find(self) -> Node:
        """Ask where it is. Raises redis.ConnectionError when nobody knows one."""


class OfSentinels:
    """The primary that Sentinels know by a name."""

    def __init__(self, address: Address, options: dict[str, Any]) -> None:
        """`options`: of connections to a Sentinel."""
        user, password = address.sentinel_login
        login = {"username": user, "password": password} if password else {}
        self._name = address.name
        self._sentinels: Any = Sentinel(address.nodes, sentinel_kwargs={**options, **login})  # type: ignore[no-untyped-call]

    def find(self) -> Node:
        """Ask the Sentinels in turn."""
        try:
            host, port = self._sentinels.discover_master(self._name)
        except MasterNotFoundError as error:
            raise redis.ConnectionError(
                f"no Sentinel knows a primary named {self._name!r} that is up ({_short(error)})"
            ) from None
        return str(host), int(port)


class OfSlot:
    """The node of a Cluster that holds a slot; without a slot any primary that answers."""

    def __init__(self, nodes: Sequence[Node], options: dict[str, Any], slot: int | None = None) -> None:
        """`nodes` are asked first; `options`: of connections to one."""
        self._nodes, self._options, self._slot = list(nodes), options, slot

    def find(self) -> Node:
        """Ask the nodes in turn."""
        wrong = ""
        for node in list(self._nodes):
            try:
                owners = self._owners(node)
            except (redis.RedisError, OSError) as error:
                wrong = f"{node[0]}:{node[1]}: {_short(error)}"
                continue
            known = [owner for _, _, owner in owners]
            self._nodes = list(dict.fromkeys([node, *known, *self._nodes]))
            for first, last, owner in owners:
                if self._slot is None or first <= self._slot <= last:
                    return owner
            wrong = f"no node holds slot {self._slot}"
        raise redis.ConnectionError(f"the Cluster has no primary for it ({wrong})")

    def of(self, slot: int) -> "OfSlot":
        """Return the same for another slot."""
        return OfSlot(self._nodes, self._options, slot)

    def primaries(self) -> list[Node]:
        """Return all primaries."""
        for node in list(self._nodes):
            try:
                return list(dict.fromkeys(owner for _, _, owner in self._owners(node)))
            except (redis.ConnectionError, redis.TimeoutError, OSError):
                continue
        raise redis.ConnectionError("no node of the Cluster answers")

    def _owners(self, node: Node) -> list[tuple[int, int, Node]]:
        with redis.Redis(host=node[0], port=node[1], **self._options) as client:
            slots: Any = client.execute_command("CLUSTER SLOTS")
        return [(int(first), int(last), _owner(of[0], node)) for first, last, *of in _ranges(slots)]


def slot_of(key: str) -> int:
    """Return the slot of a key in a Cluster."""
    return int(key_slot(key.encode()))


def _ranges(slots: Any) -> list[list[Any]]:
    """Return (first, last, primary, …) of each range, as the server sends them or as redis-py parses them."""
    if isinstance(slots, dict):
        return [[first, last, of["primary"]] for (first, last), of in slots.items()]
    return list(slots)


def _owner(known: Any, asked: Node) -> Node:
    """Return the node of an answer; one without an address is the node that was asked."""
    host = known[0].decode() if isinstance(known[0], bytes) else known[0]
    return (host or asked[0], int(known[1]))


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:160].rstrip(".")


class Located:
    """The present primary of a pool, asked for again when the answer is old or proved wrong."""

    def __init__(self, primary: Primary) -> None:
        """Know none yet."""
        self.primary = primary
        self._node: Node | None = None
        self._asked = 0.0

    @property
    def node(self) -> Node:
        """Return the primary. Raises redis.ConnectionError."""
        if self._node is None or time.monotonic() - self._asked >= FRESH_SECONDS:
            self._node, self._asked = self.primary.find(), time.monotonic()
        return self._node

    def forget(self) -> None:
        """Ask anew: the node that is known refused a command that a primary takes."""
        self._node = None

    def moved(self) -> bool:
        """Return whether another node is the primary now; False while nobody answers."""
        before = self._node
        try:
            return before is not None and self.node != before
        except (redis.RedisError, OSError):
            return False
