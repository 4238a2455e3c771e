"""URLs of stores: one server, the primary that Sentinels name, or a Redis Cluster.

    redis://[USER:PASSWORD@]HOST[:PORT][/DB]                      rediss:// with TLS; valkey:// and valkeys:// likewise
    unix://[USER:PASSWORD@]/PATH[?db=DB]
    redis+sentinel://[USER:PASSWORD@]HOST[:PORT],…/NAME[/DB]      rediss+sentinel:// with TLS to both
    redis+cluster://[USER:PASSWORD@]HOST[:PORT],…                 rediss+cluster:// with TLS

The login is that of the servers; Sentinels have users of their own: ``?sentinel_username=…&sentinel_password=…``.
``?protocol=2`` selects RESP2 instead of RESP3.
"""

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from omega.cellstate.errors import BadInput

FORMS = (
    "write redis://MACHINE:PORT/DB, rediss://… (TLS), unix:///PATH?db=DB, redis+sentinel://MACHINE:PORT,…/NAME or "
    "redis+cluster://MACHINE:PORT,…"
)
_SCHEMES = {"redis": "redis", "rediss": "rediss", "valkey": "redis", "valkeys": "rediss", "unix": "unix"}
_OPTIONS = (
    "db",
    "protocol",
    "username",
    "password",
    "client_name",
    "max_connections",
    "health_check_interval",
    "ssl_",
    "socket_",
)
_OF_SENTINELS = ("sentinel_username", "sentinel_password")
_PORTS = {"": 6379, "cluster": 6379, "sentinel": 26379}

Node = tuple[str, int]
"""Host and port of a server."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a store is.

    `url` is one that redis-py reads, of a single server: the first one that is named. `group` is ``sentinel``,
    ``cluster`` or empty, `nodes` the servers that are asked where the primary is, `name` the one that Sentinels know.
    """

    url: str
    group: str = ""
    nodes: tuple[Node, ...] = ()
    name: str = ""
    sentinel_login: tuple[str | None, str | None] = (None, None)

    @property
    def tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.url.startswith("rediss://")


def safe_url(url: str) -> str:
    """Return `url` with passwords, and all that might be part of one, replaced by ``***``."""
    scheme, mark, rest = " ".join(url.split()).partition("://")
    if not mark:
        scheme, rest = "", scheme
    head, asked, query = rest.partition("?")
    if "@" in query:  # an unescaped ? in a password is ambiguous
        return f"{scheme}{mark}***"
    if asked and not re.fullmatch(r"(db|protocol)=\d+", query):
        query = "***"
    if head.startswith("/"):
        return f"{scheme}{mark}{head}{asked}{query}"
    login, at, place = head.rpartition("@")
    user, colon, _ = login.partition(":")
    login = f"{user}:***" if colon else "***" if at else ""
    if not place.startswith("["):  # after a colon is a port, or a password without its @
        place = re.sub(r":(?!\d+(?:[/,]|$)).*", ":***", place)
    return f"{scheme}{mark}{login}{at}{place}{asked}{query}"


def address_of(url: str) -> Address:
    """Return the address in a URL. Raises BadInput, without a password in its message."""
    scheme, mark, rest = url.partition("://")
    kind, _, group = scheme.partition("+")
    if not mark or kind not in _SCHEMES or group not in _PORTS or (group and kind == "unix"):
        raise _wrong(url, "not a URL of a store")
    plain = f"{_SCHEMES[kind]}://{rest}"
    if not group:
        if kind != "unix" and "," in rest.partition("?")[0].rpartition("@")[2]:
            raise _wrong(url, "names several servers; say +sentinel or +cluster after the scheme")
        _check(url, plain)
        return Address(plain)
    return _group(url, plain, group)


def _wrong(url: str, what: str) -> BadInput:
    return BadInput(f"store {safe_url(url)!r}: {what}; {FORMS}")


def _check(url: str, plain: str) -> None:
    """Raise BadInput unless redis-py reads a URL as it is meant."""
    try:
        parts = urlsplit(plain)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        _ = parts.port  # raises ValueError when it is no number
        (parts.hostname or "").encode("idna")  # and this when it is no host name
    except ValueError:
        raise _wrong(url, "not a URL of a store") from None
    unix = parts.scheme == "unix"
    if parts.fragment:
        raise _wrong(url, "write # in a password as %23")
    if unix and (len(parts.path) < 2 or (parts.netloc and not parts.netloc.endswith("@"))):
        raise _wrong(url, "the path of the socket must be absolute")
    if not options.get("db", "0").isdigit() or not (unix or re.fullmatch(r"/?\d*/?", parts.path)):
        raise _wrong(url, "the database must be a number")
    if options.get("protocol", "3") not in ("2", "3"):
        raise _wrong(url, "the protocol must be 2 or 3")
    if not all(name.startswith(_OPTIONS) for name in options):  # not quoted: it may be part of a password
        raise _wrong(url, "an option after ? is unknown")


def _group(url: str, plain: str, group: str) -> Address:
    scheme, _, rest = plain.partition("://")
    head, _, query = rest.partition("?")
    login, at, place = head.rpartition("@")
    hosts, _, path = place.partition("/")
    nodes = tuple(_node(url, each, _PORTS[group]) for each in hosts.split(","))
    options = parse_qsl(query, keep_blank_values=True)
    sentinel = {name: value for name, value in options if name in _OF_SENTINELS}
    if sentinel and group != "sentinel":
        raise _wrong(url, "options of Sentinels for a Cluster")
    query = urlencode([each for each in options if each[0] not in _OF_SENTINELS])
    name, _, db = path.partition("/") if group == "sentinel" else ("", "", path)
    if group == "sentinel" and not name:
        raise _wrong(url, "no name of a primary after the Sentinels")
    if group == "cluster" and (db.strip("/0") or dict(options).get("db", "0") != "0"):
        raise _wrong(url, "a Cluster has database 0 only")
    host, port = nodes[0]
    first = f"{scheme}://{login}{at}{f'[{host}]' if ':' in host else host}:{port}/{db}{'?' if query else ''}{query}"
    _check(url, first)
    known = sentinel.get("sentinel_username"), sentinel.get("sentinel_password")
    if known[0] and not known[1]:
        raise _wrong(url, "sentinel_username without sentinel_password")
    return Address(first, group, nodes, unquote(name), known)


def _node(url: str, text: str, port: int) -> Node:
    try:
        parts = urlsplit(f"//{text}")
        host, found = parts.hostname, parts.port
        (host or "").encode("idna")
    except ValueError:
        raise _wrong(url, "not a list of HOST:PORT") from None
    if not host or found == 0 or parts.netloc.endswith(":") or parts.path or parts.query or parts.username is not None:
        raise _wrong(url, "not a list of HOST:PORT")
    return host, found or port
