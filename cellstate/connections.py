"""Connections that are opened anew now and then, so that a client follows an address that points to another server.

The name of a store, or the path of its socket, can lead to another server while the old one still answers those that
are connected to it. A connection is therefore used for a few seconds only; the next command opens another one. The
connections of a store with Sentinels, or on a Cluster, lead to the present primary; an error that a primary does not
answer counts as a lost connection, so that the command is sent again to the one that is found then.

A process that may open no further file keeps the connections that it has, and gives up a spare descriptor
(descriptors.py) for one that was closed.
"""

import errno
import os
import ssl
import time
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, Protocol

import redis
from redis.crc import key_slot

from omega.cellstate.addresses import Address, Node
from omega.cellstate.descriptors import is_room, with_spare

# Where the primary of a store is now: as Sentinels say, or as the nodes of a Cluster do for the slot of a cell.

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


LONGEST_SECONDS = 5.0
"""Age from which on a connection is opened anew before its next command: an idle role notices another server within
its lease, everybody else within twice this time."""


def outdated(connection: Any, pool: Any) -> bool:
    """Return whether a connection is to be opened anew before its next command; a new one begins its age."""
    now, opened = time.monotonic(), getattr(connection, "omega_opened", None)
    located = pool.located if isinstance(pool, Pool) else None
    from_then = max(getattr(pool, "opened_from", 0.0), located.since() if located is not None else 0.0)
    if opened is None:
        connection.omega_opened = now
        return False
    return now - float(opened) >= LONGEST_SECONDS or float(opened) < from_then


def renew(connection: Any) -> None:
    """Open a connection anew; nobody waits for a reply on it. Raises redis.RedisError.

    It stays where no further file may be opened: another one could take its descriptor, and it does not open again.
    """
    connection.omega_opened = time.monotonic()
    if not is_room():
        return
    connection.disconnect()
    connection.connect()


FRESH_SECONDS = 1.0
"""For so long an answer counts; then the next command asks again. A primary that lost its role is left within it."""


class Located:
    """The present primary of a pool, asked for again when the answer is old or proved wrong."""

    def __init__(self, primary: Primary) -> None:
        """Know none yet."""
        self.primary = primary
        self._node: Node | None = None
        self._asked = self._moved = 0.0
        self._doubted = False

    @property
    def node(self) -> Node:
        """Return the primary. Raises redis.ConnectionError, WrongGroup."""
        if self._node is None or self._doubted or time.monotonic() - self._asked >= FRESH_SECONDS:
            found = self.primary.find(self._node if self._doubted else None)
            if self._node not in (None, found):
                self._moved = time.monotonic()
            self._node, self._asked, self._doubted = found, time.monotonic(), False
        return self._node

    def forget(self) -> None:
        """Ask anew: the node that is known refused a command that a primary takes."""
        self._doubted = True

    def since(self) -> float:
        """Return the time from which on the present node is the primary; while nobody answers that of the last one.

        After a question without an answer, three quarters of the time are for commands: the primary may serve.
        """
        began = time.monotonic()
        if self._node is not None:
            try:
                _ = self.node
            except (redis.RedisError, OSError):
                now = time.monotonic()
                self._asked = now + 3 * (now - began)
        return self._moved

    def leads_to(self, node: Node) -> bool:
        """Return whether a node is the primary; True while nobody answers."""
        self.since()
        return self._node in (None, node)


WRONG_SERVER = (
    redis.ReadOnlyError,
    redis.BusyLoadingError,
    redis.exceptions.MovedError,
    redis.exceptions.AskError,
    redis.exceptions.TryAgainError,
    redis.exceptions.ClusterDownError,
    redis.exceptions.MasterDownError,
)
"""Errors of a server that is not, or not yet, the primary of all keys of a command: another one may take it."""


class _Follows:
    """A connection to the present primary."""

    host: str
    port: int
    socket_timeout: float | None
    handshake_metadata: Any

    def __init__(self, *, located: Located, **options: Any) -> None:
        super().__init__(**options)
        self._located = located

    def connect_check_health(self, *words: Any, **options: Any) -> None:
        """Connect to the server that is the primary now."""
        if not getattr(self, "_sock", None):
            self.host, self.port = self._located.node
            super().connect_check_health(*words, **options)  # type: ignore[misc]
            self._check_role()

    def _check_role(self) -> None:
        """Leave a server that says in its greeting (RESP3) that it is a replica: it would answer reads."""
        greeting = self.handshake_metadata or {}
        role = greeting.get(b"role", greeting.get("role", b"master"))
        if role not in (b"master", "master"):
            self._located.forget()
            self.disconnect()  # type: ignore[attr-defined]
            raise redis.ConnectionError(f"{self.host}:{self.port} is not the primary: it is a replica")

    def _await_reply(self) -> None:
        """Return when a reply begins. Raises redis.ConnectionError once another server is the primary meanwhile.

        A server that is cut off, or whose machine is gone, does not close its connections.
        """
        end = None if self.socket_timeout is None else time.monotonic() + self.socket_timeout
        while getattr(self, "_sock", None) and not self.can_read(timeout=FRESH_SECONDS / 2):  # type: ignore[attr-defined]
            if not self._located.leads_to((self.host, self.port)):
                raise redis.ConnectionError(f"{self.host}:{self.port} is silent and not the primary any more")
            if end is not None and time.monotonic() >= end:
                raise redis.TimeoutError(f"Timeout reading from {self.host}:{self.port}")

    def read_response(self, *words: Any, **options: Any) -> Any:
        """Return a reply. Raises redis.ConnectionError for one that only another server can give."""
        try:
            self._await_reply()
        except (redis.ConnectionError, redis.TimeoutError, OSError):
            self._located.forget()
            self.disconnect()  # type: ignore[attr-defined]
            raise
        try:
            return super().read_response(*words, **options)  # type: ignore[misc]
        except WRONG_SERVER as error:
            self._located.forget()
            self.disconnect()  # type: ignore[attr-defined]
            raise redis.ConnectionError(f"{self.host}:{self.port} is not the primary: {error}") from error
        except redis.ResponseError as error:
            if not str(error).startswith("UNBLOCKED"):
                raise
            self._located.forget()  # it became a replica while this connection waited
            self.disconnect()  # type: ignore[attr-defined]
            raise redis.ConnectionError(f"{self.host}:{self.port} is not the primary any more: {error}") from error
        except (redis.ConnectionError, redis.TimeoutError, OSError):
            self._located.forget()
            raise


class Following(_Follows, redis.Connection):
    """A connection to the present primary."""


class FollowingSSL(_Follows, redis.SSLConnection):
    """An encrypted connection to the present primary."""


class Pool(redis.ConnectionPool):
    """A pool whose connections are renewed."""

    opened_from: float = 0.0
    """Connections that were opened before this time (seconds of the monotonic clock) are outdated."""
    located: Located | None = None
    """The primary that they lead to; None for that of the URL."""
    opened: int = 0
    """Number of times that a connection was opened; each may lead to another server, or to one on older files."""
    requirement: Callable[[Any], object] | None = None
    """What each connection must pass when it opens; it raises an error of layer 0."""

    def __init__(self, *words: Any, **options: Any) -> None:
        """Make a pool as redis-py does."""
        super().__init__(*words, **options)
        self.connection_kwargs["redis_connect_func"] = self._opened

    def _opened(self, connection: Any) -> None:
        connection.on_connect()
        self.opened += 1
        if self.requirement is not None:
            try:
                self.requirement(connection)
            except BaseException:
                connection.disconnect()
                raise

    def make_connection(self) -> Any:
        """Return a new connection, which has a spare descriptor where there is no other one."""
        connection: Any = with_spare(super().make_connection)  # it reads a file
        connect = connection._connect  # noqa: SLF001 - what opens its socket, and not what says hello after that

        def connected() -> Any:
            try:
                return connect()
            except OSError as error:  # a name that was not looked up for want of a descriptor is called unknown
                if is_room():
                    raise
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE)) from error

        connection._connect = lambda: with_spare(connected)  # noqa: SLF001
        return connection

    def require(self, requirement: Callable[[Any], object] | None) -> None:
        """Let each connection pass this from its next command on."""
        self.requirement = requirement
        self.open_anew()

    def follow(self, located: Located) -> None:
        """Let all connections lead to this primary."""
        self.located = located
        tls = issubclass(self.connection_class, redis.SSLConnection)
        self.connection_class = FollowingSSL if tls else Following
        self.connection_kwargs["located"] = located

    def open_anew(self) -> None:
        """Let each connection be opened anew before its next command, so that all lead to the same server."""
        self.opened_from = time.monotonic()

    def disconnect(self, *words: Any, **options: Any) -> None:
        """Close all connections, also those to whoever knows the primary."""
        super().disconnect(*words, **options)
        if self.located is not None:
            self.located.primary.close()

    def get_connection(self, *words: Any, **options: Any) -> Any:
        """Return a connection that is young enough."""
        connection = super().get_connection(*words, **options)
        if outdated(connection, self):
            try:
                renew(connection)
            except BaseException:
                self.release(connection)
                raise
        return connection
