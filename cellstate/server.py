"""The server behind a store: its URL, its availability and suitability, and its errors as messages.

Forms of URLs are in `omega.cellstate.addresses`; passwords in one never reach a message.
"""

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

import redis
from redis.backoff import ExponentialWithJitterBackoff, NoBackoff
from redis.retry import Retry

from omega.cellstate.addresses import FORMS, Address, address_of, safe_url
from omega.cellstate.connections import (
    ASK_SECONDS,
    Located,
    OfSentinels,
    OfSlot,
    Pool,
    Primary,
    WrongGroup,
    refuses_tls,
    slot_of,
)
from omega.cellstate.errors import (
    BadInput,
    CellGone,
    Forbidden,
    ReadOnly,
    ScriptsMissing,
    StoreError,
    StoreFull,
    Unreachable,
    Unreadable,
    Unsuitable,
)
from omega.cellstate.keys import other_rules
from omega.cellstate.refused_writes import MINIMUM, needs_minimum, script_bytes, scripts_fill, store_state

# Repeating the calls to a group of servers until one of them is the primary.

T = TypeVar("T")
WAIT_SECONDS = 15.0
"""A command waits for so long until a server of a group is the primary. A running process repeats the command."""
QUIET_SECONDS = 1.0
"""Waits are reported from then on: most failovers of a Cluster's slot are shorter."""


class Patience(Retry):
    """Repeats a call for a time, whatever one try takes; an error that no waiting changes is raised at once."""

    told: Callable[[str], object] = staticmethod(bool)
    """Called once for a wait, with the error: by commands of people."""

    def __init__(self) -> None:
        """Also repeat calls after a time-out: another server may take over from one that is silent."""
        backoff = ExponentialWithJitterBackoff(cap=0.5, base=0.01)
        super().__init__(backoff, -1, (redis.ConnectionError, redis.TimeoutError))

    def call_with_retry(
        self,
        do: Callable[[], T],
        fail: Callable[..., Any],
        is_retryable: Callable[[Exception], bool] | None = None,
        with_failure_count: bool = False,  # noqa: FBT001, FBT002 - the signature of redis-py
    ) -> T:
        """Return what `do` returns, repeated for WAIT_SECONDS; `fail` is called after each failure."""
        began, told = time.monotonic(), False

        def failed(error: Exception, *count: int) -> None:
            nonlocal told
            fail(error, *count)
            waited = time.monotonic() - began
            if waited >= WAIT_SECONDS or _lasts(error):
                raise error
            if waited >= QUIET_SECONDS and not told:
                told = True
                self.told(str(error))

        return super().call_with_retry(do, failed, is_retryable, with_failure_count)


def _lasts(error: Exception) -> bool:
    """Return whether an error is one of the address: a login or certificate that is refused."""
    return isinstance(error, redis.AuthenticationError) or refuses_tls(error)


OLDEST = (6, 2)
"""The oldest Redis that serves; every Valkey does, as it reports itself compatible with Redis 7.2."""
TIMEOUT_SECONDS = 5.0
RETRIES = 3
"""Number of retries of a command on a new connection; scripts are idempotent (semantics 14)."""

_ABOUT = {
    "OOM": (StoreFull, "is out of memory (maxmemory reached); raise maxmemory or remove finished jobs or scripts"),
    "NOSCRIPT": (
        ScriptsMissing,
        "lacks the scripts of readers; any scheduler, agent or other user of Omega loads them",
    ),
    "READONLY": (ReadOnly, "is a read-only replica; give the URL of its primary"),
    "MISCONF": (ReadOnly, "refuses writes because it cannot save its data; make room on its disk and see its log"),
    "NOREPLICAS": (ReadOnly, "refuses writes because too few replicas follow it; see its min-replicas-to-write"),
    "LOADING": (Unreachable, "is still reading its data; try again in a moment"),
    "BUSY": (Unreachable, "is busy with a long script; try again in a moment"),
    "MASTERDOWN": (Unreachable, "is a replica that lost its primary; give the URL of the primary"),
    "CLUSTERDOWN": (Unreachable, "is part of a group of servers that is down; try again when it is whole"),
    "MOVED": (Unsuitable, "is a node of a Cluster; write redis+cluster://HOST:PORT,… as its URL"),
    "CROSSSLOT": (Unsuitable, "is a node of a Cluster; write redis+cluster://HOST:PORT,… as its URL"),
    "NOAUTH": (StoreError, "refuses the login; check the user and password in the URL"),
    "NOPERM": (Forbidden, "does not permit this to the user in the URL; ask for the missing permission"),
    "WRONGTYPE": (Unreadable, "has a record of a wrong type; see omega cell verify"),
    "HELLO": (Unsuitable, "is too old; use Redis 6.2 or newer, or Valkey"),
    "LARGE": (StoreError, "does not take so much in one call; send it in parts"),
    "NOCELL": (CellGone, "has no such cell now: it was deleted, or is being restored; see omega cell list"),
    "DATABASE": (Unsuitable, "has no database of this number; a Cluster has database 0 only"),
    "CLIENTS": (Unreachable, "takes no more connections; raise its maxclients or stop some schedulers"),
}
_CLASSES: tuple[tuple[type[Exception], str], ...] = (
    (redis.OutOfMemoryError, "OOM"),
    (redis.ReadOnlyError, "READONLY"),
    (redis.exceptions.NoScriptError, "NOSCRIPT"),
    (redis.BusyLoadingError, "LOADING"),
    (redis.AuthenticationError, "NOAUTH"),
    (redis.exceptions.NoPermissionError, "NOPERM"),
    (redis.exceptions.MasterDownError, "MASTERDOWN"),
    (redis.exceptions.ClusterDownError, "CLUSTERDOWN"),
    (redis.exceptions.AskError, "MOVED"),
    (redis.exceptions.ClusterCrossSlotError, "CROSSSLOT"),
)
# Redis 6.2 wraps an error inside a script: "Error running script (…): … -OOM command not allowed …".
_WORD = re.compile(
    r"(?:^|-)(OOM|READONLY|MISCONF|NOREPLICAS|LOADING|BUSY|MASTERDOWN|CLUSTERDOWN|NOPERM|LARGE|NOCELL|WRONGTYPE)\b"
)
_RULES = re.compile(r"(?:^|-)RULES (\d+)\b")
_PIPELINE = " of pipeline caused error: "


class Answer(Enum):
    """The result of PING."""

    READY = "ready"
    LOADING = "loading"
    BUSY = "busy"
    """It runs and does not answer: a long script, no free connection, or a halted process."""
    ABSENT = "absent"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInfo:
    """Properties of a server. `url` is safe to print; `append_only` is whether it logs every write."""

    url: str
    product: str
    version: str
    redis_compatible_version: tuple[int, ...]
    uptime_seconds: int
    used_memory_bytes: int
    maxmemory_policy: str
    role: str
    loading: bool
    pid: int
    append_only: bool
    executable: str
    allocator: str
    """The allocator that the server was built with; a preloaded one is not reported."""
    script_bytes: int
    """Memory of scripts."""
    refuses: str
    """Why the server refuses writes; empty when it does not."""
    scripts_fill: str
    """How much memory scripts take, where that is much; else empty."""
    replicas: int = 0
    """Replicas in sync with it."""
    primary: str = ""
    """Its address where Sentinels name it; else empty."""
    misnamed: str = ""
    """Why the URL is not of a store of this form; empty when it is."""


def _connect(url: str, protocol: int, timeout: float | None, retries: int) -> "redis.Redis":
    address = address_of(url)
    # A closed connection is retried, a time-out is not: retries would multiply it.
    retry = Retry(ExponentialWithJitterBackoff(cap=0.2, base=0.01), retries, (redis.ConnectionError,))
    try:
        pool = Pool.from_url(
            address.url,
            protocol=protocol,
            socket_timeout=timeout,
            socket_connect_timeout=min(timeout or TIMEOUT_SECONDS, TIMEOUT_SECONDS),
            retry=Patience() if address.group and retries else retry,
        )
        if address.group:
            pool.follow(Located(_primary(address, pool.connection_kwargs)))
        pool.connection_class(**pool.connection_kwargs)  # validates options without a connection
    except (ValueError, TypeError):
        raise BadInput(f"store {safe_url(url)!r}: an option after ? does not fit; {FORMS}") from None
    for name in ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile"):
        if (file := pool.connection_kwargs.get(name)) and not os.access(file, os.R_OK):
            raise Unsuitable(f"store {safe_url(url)!r}: {name} names no file that can be read")
    client = redis.Redis(connection_pool=pool)
    client.auto_close_connection_pool = True
    return client


def _primary(address: Address, options: dict[str, Any]) -> Primary:
    """Return where the primary of an address is found. `options`: of connections to a server."""
    same = {name: value for name, value in options.items() if name.startswith("ssl_")}
    waits = {"socket_timeout": ASK_SECONDS, "socket_connect_timeout": ASK_SECONDS, "retry": Retry(NoBackoff(), 0)}
    asked: dict[str, Any] = {**same, **waits, "ssl": address.tls, "protocol": options["protocol"]}
    if address.group == "sentinel":
        return OfSentinels(address, asked)
    login: dict[str, Any] = {name: options[name] for name in ("username", "password") if name in options}
    return OfSlot(address.nodes, {**asked, **login})


def at_cell(client: "redis.Redis", key: str) -> "redis.Redis":
    """Return a client of the server that holds a key: another one on a Cluster, else the same."""
    pool = client.connection_pool
    located = pool.located if isinstance(pool, Pool) else None
    if located is None or not isinstance(located.primary, OfSlot):
        return client
    own = Pool(connection_class=pool.connection_class, **pool.connection_kwargs)
    own.follow(Located(located.primary.of(slot_of(key))))
    found = redis.Redis(connection_pool=own)
    found.auto_close_connection_pool = True
    return found


def primaries(client: "redis.Redis") -> "Iterator[redis.Redis] | None":
    """Return a client of each primary of a Cluster; None for any other store. Raises redis.RedisError."""
    pool = client.connection_pool
    located = pool.located if isinstance(pool, Pool) else None
    if located is None or not isinstance(located.primary, OfSlot):
        return None
    options = {name: value for name, value in pool.connection_kwargs.items() if name != "located"}
    tls = issubclass(pool.connection_class, redis.SSLConnection)
    kind = redis.SSLConnection if tls else redis.Connection
    nodes = located.primary.primaries()
    pools = (Pool(connection_class=kind, **{**options, "host": host, "port": port}) for host, port in nodes)
    return (redis.Redis(connection_pool=each) for each in pools)


def connect(url: str, *, timeout: float | None = TIMEOUT_SECONDS, patient: bool = True) -> "redis.Redis":
    """Return a client of the server at `url` (bytes in, bytes out); nothing is sent before the first command.

    `timeout` is the seconds to wait for a reply, None without limit (for commands that block). A client that is not
    `patient` sends a command once, for callers that go on with other servers.
    Raises BadInput when `url` is not of a store.
    """
    return _connect(url, 3, timeout, RETRIES if patient else 0)


def report_waits(told: Callable[[str], object]) -> None:
    """Call `told`, with the reason, when a command of this process waits for a primary of a group for over a second."""
    Patience.told = staticmethod(told)


@contextmanager
def _asking(url: str, timeout: float, retries: int = 0) -> "Iterator[redis.Redis]":
    """Yield a client that tries once, in the old protocol so that old servers can be named."""
    client = _connect(url, 2, timeout, retries)
    try:
        yield client
    except (redis.RedisError, OSError) as error:
        raise translate(error, url) from error
    finally:
        client.close()


def ping(url: str, *, timeout: float = TIMEOUT_SECONDS) -> Answer:
    """Return whether a server answers at `url`; `timeout` in seconds.

    Raises BadInput for a bad URL, StoreError when the server refuses the login.
    """
    with _asking(url, timeout) as client:
        try:
            client.ping()
        except redis.TimeoutError:
            return Answer.BUSY
        except redis.RedisError as error:
            word = _word(error)
            if word == "LOADING":
                return Answer.LOADING
            if word in ("BUSY", "CLIENTS"):
                return Answer.BUSY
            if word == "MISCONF":  # it serves reads; writes report the error
                return Answer.READY
            if not word and isinstance(error, redis.ConnectionError):
                return Answer.ABSENT
            raise
    return Answer.READY


def server_info(url: str, *, timeout: float = TIMEOUT_SECONDS) -> ServerInfo:
    """Return the properties of the server at `url`. Raises BadInput, StoreError.

    While no server of a group is the primary it waits for one.
    """
    with _asking(url, timeout, RETRIES if address_of(url).group else 0) as client:
        facts = info_of(client)
        pool = client.connection_pool
        located = pool.located if isinstance(pool, Pool) else None
        named = located is not None and isinstance(located.primary, OfSentinels)
        host, port = located.node if located is not None and named else ("", 0)
    version, state = str(facts.get("redis_version", "0")), store_state(facts)
    product = "valkey" if "valkey_version" in facts else "redis"
    return ServerInfo(
        url=safe_url(url),
        product=product,
        version=str(facts.get(f"{product}_version", version)),
        redis_compatible_version=tuple(int(part) for part in re.findall(r"\d+", version)[:3]),
        uptime_seconds=int(facts.get("uptime_in_seconds", 0)),
        used_memory_bytes=state.memory_bytes,
        maxmemory_policy=str(facts.get("maxmemory_policy", "noeviction")),
        role=str(facts.get("role", "master")),
        loading=bool(facts.get("loading", 0)),
        pid=int(facts.get("process_id", 0)),
        append_only=bool(facts.get("aof_enabled", 0)),
        executable=str(facts.get("executable", "")),
        allocator=str(facts.get("mem_allocator", "")),
        script_bytes=script_bytes(facts),
        refuses=state.refuses,
        scripts_fill=scripts_fill(facts),
        replicas=state.replicas,
        primary=f"{host}:{port}" if host else "",
        misnamed=_misnamed(facts, address_of(url)),
    )


def _misnamed(facts: Mapping[str, Any], address: Address) -> str:
    """Return what a server is that a URL names as a single server; empty for one."""
    mode = str(facts.get("redis_mode", facts.get("server_mode", "")))
    if mode == "sentinel":
        return "is a Sentinel; write redis+sentinel://HOST:PORT,…/NAME as its URL"
    if mode == "cluster" and address.group != "cluster":
        return _ABOUT["MOVED"][1]
    return ""


def info_of(client: "redis.Redis") -> dict[str, Any]:
    """Return the INFO of a server, with the replicas that it requires where this user may read that setting."""
    facts: dict[str, Any] = client.info()
    if needs_minimum(facts):
        with suppress(redis.ResponseError):  # CONFIG is forbidden to this user, or renamed
            facts[MINIMUM] = client.config_get(MINIMUM).get(MINIMUM, 1)
    return facts


def takes_snapshots(url: str, *, timeout: float = TIMEOUT_SECONDS) -> bool:
    """Return whether the server at `url` writes snapshots periodically; False without the permission to read it."""
    with _asking(url, timeout) as client:
        try:
            return bool(client.config_get("save").get("save"))
        except redis.ResponseError:  # CONFIG is forbidden to this user, or renamed
            return False


def check_suitable(info: ServerInfo) -> None:
    """Raise Unsuitable for a server older than 6.2, one that may evict the cell's data (semantics 13), or no store."""
    if info.misnamed:
        raise Unsuitable(f"the store at {info.url} {info.misnamed}")
    if info.redis_compatible_version[:2] < OLDEST:
        raise Unsuitable(
            f"the store at {info.url} is {info.product} {info.version}, too old; use Redis 6.2 or newer, or Valkey"
        )
    if info.maxmemory_policy != "noeviction":
        raise Unsuitable(
            f"the store at {info.url} drops data when it is full (maxmemory-policy {info.maxmemory_policy}); "
            "run CONFIG SET maxmemory-policy noeviction there, and set it in its configuration"
        )


def shutdown(url: str, *, timeout: float = 30.0) -> None:
    """Let the server at `url` write its data and end. Returns once it closed the connection.

    Raises StoreError when it does not end, for example because it cannot write.
    """
    with _asking(url, timeout) as client:
        client.shutdown()


def _text(error: Exception) -> str:
    """Return the error in one line, without the command that redis-py prefixes in a pipeline."""
    text = " ".join(str(error).split())
    return text.partition(_PIPELINE)[2] or text


def _word(error: Exception) -> str:
    """Return the key of `error` in the table above, empty when there is none."""
    for kind, word in _CLASSES:
        if isinstance(error, kind):
            return word
    text = _text(error)
    if "ACL failure in script" in text or "executing the script can't run this command" in text:
        return "NOPERM"
    if "DB index is out of range" in text or "SELECT is not allowed" in text:
        return "DATABASE"
    if "max number of clients" in text:
        return "CLIENTS"
    if "unknown command" in text and "HELLO" in text:
        return "HELLO"
    match = _WORD.search(text) if isinstance(error, redis.ResponseError) else None
    return match[1] if match else ""


def translate(error: redis.RedisError | OSError, url: str) -> StoreError:
    """Return an error of redis-py on `url` as an error of layer 0, in one line.

    The caller must handle NOSCRIPT before (it loads the script and repeats the command).
    """
    where = f"the store at {safe_url(url)}" if url else "the store"
    if isinstance(error, WrongGroup):
        return Unsuitable(f"{where}: {error}")
    if isinstance(error, redis.ResponseError) and (rules := _RULES.search(_text(error))):
        return CellGone(f"{where} has a cell that {other_rules(int(rules[1]))}")
    if word := _word(error):
        kind, about = _ABOUT[word]
        return kind(f"{where} {about}")
    if isinstance(error, redis.TimeoutError | TimeoutError):
        tls = ", that its port has TLS," if url.startswith(("rediss", "valkeys")) else ""
        return Unreachable(f"{where} did not answer in time; check that its machine is up{tls} and try again")
    if isinstance(error, redis.ConnectionError | OSError):
        cause = error if isinstance(error, OSError) else error.__cause__ or error.__context__
        reason = cause.strerror if isinstance(cause, OSError) and cause.strerror else _text(error)
        if refuses_tls(error):
            return StoreError(f"{where}: no encrypted connection ({reason}); check ssl_ca_certs, and its tls-port")
        return Unreachable(f"no answer from {where}: {reason.rstrip('.')}; start the server or check --store")
    return StoreError(f"{where} answered {_text(error).rstrip('.')!r}; see its log")


def store_error(error: BaseException, url: str) -> StoreError | None:
    """Return an error of redis-py as one of layer 0, None for any other error: the last resort of a program."""
    return translate(error, url) if isinstance(error, redis.RedisError) else None
