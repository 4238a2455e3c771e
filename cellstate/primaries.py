"""Where the primary of a store is now: as Sentinels say, or as the nodes of a Cluster do for the slot of a cell."""

import ssl
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


class WrongGroup(redis.RedisError):
    """All servers that an address names answered, and none of them can name a primary: waiting does not help."""


class Primary(Protocol):
    """Finds the primary."""

    def find(self, doubted: Node | None = None) -> Node:
        """Ask where it is, `doubted` last: a server that refused a command that a primary takes.

        Raises redis.ConnectionError when nobody knows one now, WrongGroup when nobody ever will.
        """

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

    def find(self, doubted: Node | None = None) -> Node:
        """Ask the Sentinels until two answered; where they disagree, the one with the newer configuration counts."""
        known, wrong = list[tuple[int, Node]](), list[tuple[Node, Exception]]()
        for node in list(self._order):
            try:
                known.append(self._ask(self._sentinels[node]))
            except (redis.RedisError, OSError, ValueError, LookupError) as error:
                wrong.append((node, error))
                self._order.remove(node)
                self._order.append(node)
            if len(known) == ENOUGH:
                break
        if not known:
            if reason := _for_good(wrong, f"the Sentinels know no primary named {self._name!r}", "sentinel_"):
                raise WrongGroup(reason)
            raise redis.ConnectionError(f"no Sentinel knows a primary named {self._name!r} ({_listed(wrong)})")
        return max(known, key=itemgetter(0))[1]

    def _ask(self, sentinel: Any) -> tuple[int, Node]:
        """Return the epoch of a Sentinel's configuration, and the primary.

        It names the next primary from its promotion on, while the list of all that it watches still has the last one.
        """
        answer = sentinel.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._name)
        if not answer:
            raise LookupError("does not know it")
        host, port = (each.decode() if isinstance(each, bytes) else each for each in answer)
        return int(sentinel.sentinel_master(self._name)["config-epoch"]), (str(host), int(port))

    def close(self) -> None:
        """Close the connections to the Sentinels."""
        for each in self._sentinels.values():
            each.close()


class OfSlot:
    """The node of a Cluster that holds a slot; without a slot any primary that answers."""

    def __init__(self, nodes: Sequence[Node], options: dict[str, Any], slot: int | None = None) -> None:
        """`nodes` are asked first, in an order that differs from slot to slot; `options`: of connections to one."""
        first = (slot or 0) % len(nodes)
        self._nodes, self._options, self._slot = [*nodes[first:], *nodes[:first]], options, slot
        self._clients: dict[Node, Any] = {}

    def find(self, doubted: Node | None = None) -> Node:
        """Ask the nodes in turn. A primary that is cut off from the others goes on to name itself."""
        wrong = list[tuple[Node, Exception]]()
        for node in sorted(self._nodes, key=lambda each: each == doubted):
            try:
                owners = self._owners(node)
            except (redis.RedisError, OSError) as error:
                wrong.append((node, error))
                continue
            known = [owner for _, _, owner in owners]
            self._nodes = list(dict.fromkeys([node, *known, *self._nodes]))
            if self._slot is None and known:
                return node if node in known else known[0]  # another primary may be away
            for first, last, owner in owners:
                if self._slot is not None and first <= self._slot <= last:
                    return owner
            wrong.append((node, ValueError(f"no node holds slot {self._slot}")))
        if reason := _for_good(wrong, "", ""):
            raise WrongGroup(reason)
        raise redis.ConnectionError(f"the Cluster has no primary for it ({_listed(wrong)})")

    def of(self, slot: int) -> "OfSlot":
        """Return the same for another slot."""
        return OfSlot(self._nodes, self._options, slot)

    def close(self) -> None:
        """Close the connections to the nodes."""
        for each in self._clients.values():
            each.close()

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
        client = self._clients.setdefault(node, redis.Redis(host=node[0], port=node[1], **self._options))
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


def _for_good(wrong: Sequence[tuple[Node, Exception]], unknown: str, login: str) -> str:
    """Return what is wrong with an address of servers that all answered; empty when another answer may follow.

    `unknown`: the words when none of them knows the name; `login`: how the options of their user begin.
    """
    found = [_known_reason(error, unknown, login) for _, error in wrong]
    if not all(found):
        return ""
    (host, port), _ = wrong[0]
    return found[0].replace("HERE", f"{host}:{port}")


def _known_reason(error: Exception, unknown: str, login: str) -> str:
    """Return the reason of an answer that does not change by itself; empty for any other."""
    text = _short(error)
    if isinstance(error, LookupError):
        return f"{unknown}; check the name in the URL"
    if isinstance(error, redis.AuthenticationError | redis.exceptions.NoPermissionError):
        who = "the Sentinels refuse" if login else "HERE refuses"
        return f"{who} the login or a command ({text}); check {login}username and {login}password in the URL"
    if "unknown command" in text or "cluster support disabled" in text:
        kind = "no Sentinel" if login else "not part of a Cluster"
        return f"HERE is {kind}; check the port, or write redis://HOST:PORT for a single server"
    if refuses_tls(error):
        return f"no encrypted connection to HERE ({text}); check ssl_ca_certs, and that the server has a tls-port"
    return ""


def refuses_tls(error: Exception) -> bool:
    """Return whether an encrypted connection failed for good: by its certificate, or because the server has no TLS."""
    causes = [each for each in (error.__context__, error.__cause__) if isinstance(each, ssl.SSLError)]
    return any(isinstance(each, ssl.SSLCertVerificationError) or each.reason in _NO_TLS for each in causes)


_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")
"""Errors of a handshake with a server that answers without TLS."""


def _listed(wrong: Sequence[tuple[Node, Exception]]) -> str:
    return "; ".join(f"{host}:{port}: {_short(error)}" for (host, port), error in wrong)


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:160].rstrip(".")
