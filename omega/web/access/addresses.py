"""Under which names the server may be reached: a check against DNS rebinding, and which origins are its own."""

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urlsplit

from omega.cellstate.errors import BadInput

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
"""Names that no name server gives to another computer: accepted with every port, which may be forwarded by SSH."""
_HOST = re.compile(r"(\[[0-9a-f:.]{2,45}\]|[a-z0-9._-]{1,253})(?::(\d{1,5}))?")
DEFAULT_PORTS = {"http": 80, "https": 443}


class Site(NamedTuple):
    """The server as a browser of a request sees it."""

    origin: str
    port: int
    secure: bool


def origin_of(url: str) -> str:
    """Return ``https://HOST[:PORT]`` of a URL without a path. Raises BadInput."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    host = parts.hostname or ""
    named = f"[{host}]" if ":" in host else host
    if parts.scheme not in DEFAULT_PORTS or parts.path.strip("/") or not _HOST.fullmatch(named) or "@" in parts.netloc:
        raise BadInput(f"{url[:200]!r}: want http:// or https://, a host and perhaps a port")
    return f"{parts.scheme}://{named}{'' if port in (None, DEFAULT_PORTS[parts.scheme]) else f':{port}'}"


@dataclass(frozen=True, slots=True)
class Addresses:
    """The names of the server: `names` without ports, and `public` origins, under which a proxy offers it.

    `secure`: the server itself speaks TLS. `listed`: origins of other sites whose scripts may send tokens (CORS).
    """

    secure: bool = False
    names: frozenset[str] = frozenset()
    public: Sequence[str] = ()
    listed: frozenset[str] = frozenset()
    _by_host: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_host", {each.partition("://")[2]: each for each in self.public})

    def site(self, host: str, local: str) -> Site | None:
        """Return the site of a Host header, None when it is not this server's. `local`: address of the connection."""
        host = host.lower()
        parts = _HOST.fullmatch(host)
        if parts is None:
            return None
        name, port = parts.groups()
        origin = self._by_host.get(host)
        if origin is None:
            if name not in LOOPBACK and name not in self.names and name != _literal(local):
                return None
            origin = f"{'https' if self.secure else 'http'}://{host}"
        scheme = origin.partition(":")[0]
        return Site(origin, int(port or DEFAULT_PORTS[scheme]), scheme == "https")

    def is_own(self, origin: str, site: Site) -> bool:
        """Return whether an Origin header names the site of its request, or a public address of this server."""
        return origin == site.origin or origin in self.public


def _literal(address: str) -> str:
    """Return an address of a socket as a Host header has it."""
    return f"[{address}]" if ":" in address else address


@dataclass(frozen=True, slots=True)
class Proxy:
    """A reverse proxy that authenticates users: the header with their names, and the addresses it connects from."""

    header: str
    peers: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = ()
    by_socket: bool = False
    """Whether connections over the unix socket are the proxy's."""

    @classmethod
    def of(cls, header: str, peers: Sequence[str]) -> "Proxy":
        """Return a proxy from options: addresses, networks or ``unix``. Raises BadInput."""
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9-]{0,63}", header) or header.lower() in ("host", "cookie", "origin"):
            raise BadInput(f"header {header[:80]!r}: want the name of a header such as X-Remote-User")
        if not peers:
            raise BadInput("a trusted header needs the addresses of its proxy; name them with --trusted-proxy")
        networks = []
        for each in (peer for peer in peers if peer != "unix"):
            try:
                networks.append(ipaddress.ip_network(each))
            except ValueError as error:
                raise BadInput(f"proxy {each[:80]!r}: {error}; want an address, a network or unix") from None
        return cls(header.lower(), tuple(networks), "unix" in peers)

    def is_peer(self, client: tuple[str, int] | None) -> bool:
        """Return whether a connection comes from the proxy; None is a connection over a unix socket."""
        if client is None:
            return self.by_socket
        try:
            address = ipaddress.ip_address(client[0])
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None)
        return any((mapped or address) in network for network in self.peers)
