"""The socket on which ``omega serve`` listens: of an address and port, or a unix socket that is the user's alone."""

import errno
import ipaddress
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from omega.cellstate.errors import BadInput, Refused
from omega.web.access.addresses import LOOPBACK

DEFAULT = "127.0.0.1:7070"
UNIX = "unix:"
BACKLOG = 4_096
"""Connections that wait until the server takes them; the system may have a smaller bound."""
WILDCARDS = ("0.0.0.0", "::")  # noqa: S104 - compared, not bound


@dataclass(frozen=True, slots=True)
class Listen:
    """An address and port, or the path of a unix socket."""

    host: str = ""
    port: int = 0
    path: Path | None = None

    @classmethod
    def of(cls, text: str) -> "Listen":
        """Read ``ADDRESS:PORT``, ``[ADDRESS]:PORT`` or ``unix:PATH``. Raises BadInput."""
        if text.startswith(UNIX) and len(text) > len(UNIX):
            return cls(path=Path(text.removeprefix(UNIX)).expanduser().absolute())
        host, colon, port = text.rpartition(":")
        bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
        if not colon or not bare or (":" in bare) != (bare != host) or not port.isdecimal() or int(port) > 65535:
            raise BadInput(f"listen {text[:200]!r}: want ADDRESS:PORT, [ADDRESS]:PORT or unix:PATH")
        return cls(bare, int(port))

    @property
    def is_local(self) -> bool:
        """Whether only this computer can connect."""
        if self.path is not None or self.host == "localhost":
            return True
        with suppress(ValueError):
            return ipaddress.ip_address(self.host).is_loopback
        return False  # a name may be given to another address at any time

    @property
    def names(self) -> frozenset[str]:
        """The names of this server in Host headers, beside its address and those of loopback."""
        if self.host in WILDCARDS:
            return frozenset({socket.gethostname().lower(), socket.getfqdn().lower()} - {*LOOPBACK})
        return frozenset({f"[{self.host}]" if ":" in self.host else self.host.lower()} if self.host else ())

    def url(self, bound: socket.socket, *, secure: bool) -> str:
        """Return the address for people, of a bound socket."""
        scheme = "https" if secure else "http"
        if self.path is not None:
            return f"{scheme}://localhost/"
        host = socket.gethostname() if self.host in WILDCARDS else self.host
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{bound.getsockname()[1]}/"

    def bind(self) -> socket.socket:
        """Return a listening socket. Raises Refused when the address is in use or cannot be used."""
        if self.path is not None:
            return _bind_path(self.path)
        try:
            found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            family, _, _, _, address = found[0]
            made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # named, or asyncio lets Nagle delay
            with closing_at_error(made):
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                made.bind(address)
                made.listen(BACKLOG)
        except OSError as error:
            what = f"address {self.host}:{self.port}: {(error.strerror or str(error)).lower()}"
            remedy = "; stop what listens there, or choose another port with --listen"
            raise Refused(what + remedy * (error.errno == errno.EADDRINUSE)) from None
        return made

    def check_free(self) -> None:
        """Raise Refused when the address is in use or cannot be used."""
        self.bind().close()
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def _bind_path(path: Path) -> socket.socket:
    """Return a socket at a path that its user can reach, and the group of its folder if that may enter it.

    So it has mode 0600 in a folder of mode 0700, and 0660 in one of 0750, as for a proxy. Raises Refused.
    """
    try:
        if not path.parent.exists():
            path.parent.mkdir(mode=0o700, parents=True)
        facts = path.parent.stat()
        if facts.st_uid != os.geteuid() or stat.S_IMODE(facts.st_mode) & 0o027:
            raise Refused(
                f"folder {path.parent}: is not yours alone; use one with mode 0700 for the socket, or 0750 with the "
                "group of a proxy"
            )
        if path.is_socket() and not _answers(path):
            path.unlink()
        made, before = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM), os.umask(0o177)
        with closing_at_error(made):
            try:
                made.bind(str(path))
            finally:
                os.umask(before)
            if facts.st_mode & stat.S_IXGRP:
                os.chown(path, -1, facts.st_gid)
                path.chmod(0o660)
            made.listen(BACKLOG)
    except OSError as error:
        raise Refused(f"socket {path}: {(error.strerror or str(error)).lower()}; choose another path") from None
    return made


@contextmanager
def closing_at_error(made: socket.socket) -> Iterator[None]:
    """Close a socket that cannot be used."""
    try:
        yield
    except OSError:
        made.close()
        raise


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        try:
            client.connect(str(path))
        except ConnectionRefusedError:
            return False
    return True
