"""Where the primary of a store is now: as Sentinels say, or as the nodes of a Cluster do for the slot of a cell."""

from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Protocol

import redis
from redis.crc import key_slot

from omega.cellstate.addresses import Address, Node

ASK_SECONDS = 0.5
"""Maximum wait for the answer of one Sentinel or node."""


ENOUGH = 2
"""Number of answers of Sentinels after which the others are not asked."""


class Primary(Protocol):
    """Finds the primary."""

    def find(self) -> Node:
        """Ask where it is. Raises redis.ConnectionError when nobody knows one."""

    def close(self) -> None:
        """Close connections to those that are asked."""


class OfSentinels:
    """The primary that Sentinels know by a name."""

    def __init__(self, address: Address, options: dict[str, Any]) -> None:
        """`options`: of connections to a Sentinel."""
        user, password = address.sentinel_login
        login: dict[str, Any] = {"username": user, "password": password} if password else {}
        self._name, self._order = address.name, list(address.nodes)
        self._sentinels: dict[Node, Any] = {
            (host, port): redis.Redis(host=host, port=port, **options, **login) for host, port in address.nodes
        }

    def find(self) -> Node:
        """Ask the Sentinels until two answered; where they disagree, the one with the newer configuration counts."""
        known, wrong = list[tuple[int, Node]](), list[str]()
        for node in list(self._order):
            try:
                known.append(self._ask(self._sentinels[node]))
            except (redis.RedisError, OSError, ValueError) as error:
                wrong.append(f"{node[0]}:{node[1]}: {_short(error)}")
                self._order.remove(node)
                self._order.append(node)
            if len(known) == ENOUGH:
                break
        if not known:
            raise redis.ConnectionError(f"no Sentinel knows a primary named {self._name!r} ({'; '.join(wrong)})")
        return max(known, key=itemgetter(0))[1]

    def _ask(self, sentinel: Any) -> tuple[int, Node]:
        """Return the epoch of a Sentinel's configuration, and the primary.

        It names the next primary from its promotion on, while the list of all that it watches still has the last one.
        """
        answer = sentinel.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._name)
        if not answer:
            raise ValueError("does not know it")
        host, port = (each.decode() if isinstance(each, bytes) else each for each in answer)
        return int(sentinel.sentinel_master(self._name)["config-epoch"]), (str(host), int(port))

    def close(self) -> None:
        """Close the connections to the Sentinels."""
        for each in self._sentinels.values():
            each.close()


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
            if self._slot is None and known:
                return node if node in known else known[0]  # another primary may be away
            for first, last, owner in owners:
                if self._slot is not None and first <= self._slot <= last:
                    return owner
            wrong = f"no node holds slot {self._slot}"
        raise redis.ConnectionError(f"the Cluster has no primary for it ({wrong})")

    def of(self, slot: int) -> "OfSlot":
        """Return the same for another slot."""
        return OfSlot(self._nodes, self._options, slot)

    def close(self) -> None:
        """Do nothing: connections last for one question."""

    def primaries(self) -> list[Node]:
        """Return all primaries. Raises redis.ConnectionError."""
        return list(dict.fromkeys(owner for _, _, owner in self.spans()))

    def spans(self) -> list[tuple[int, int, Node]]:
        """Return first and last slot of each range, and its primary. Raises redis.ConnectionError."""
        for node in list(self._nodes):
            try:
                return self._owners(node)
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
