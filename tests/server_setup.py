"""How the servers of a group run: program, certificates, password."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import redis

from tests.certificates import Certificates


@dataclass(frozen=True)
class Setup:
    """How all servers of a group run: their program, their certificates, and the password of their default user."""

    program: Sequence[str] = ()
    """Words that start it; empty for the installed server."""
    tls: Certificates | None = None
    password: str = ""

    def options(self, port: int, *, sentinel: bool) -> list[str]:
        """Return lines of the configuration of a server or Sentinel."""
        lines = [f"port {port}", "bind 127.0.0.1"]
        if self.tls is not None:
            lines[0] = "port 0"
            lines += [f"tls-port {port}", f"tls-ca-cert-file {self.tls.authority}", "tls-auth-clients no"]
            lines += [f"tls-cert-file {self.tls.certificate}", f"tls-key-file {self.tls.key}"]
            lines += ["tls-replication yes", *([] if sentinel else ["tls-cluster yes"])]
        if self.password:
            lines += [f"requirepass {self.password}"]
            lines += [f"sentinel sentinel-pass {self.password}" if sentinel else f"masterauth {self.password}"]
        return lines

    def client(self, port: int, login: tuple[str, str] | None = None) -> Any:
        """Return a client of one server, as its default user or another."""
        user, password = login or (None, self.password or None)
        tls: dict[str, Any] = {"ssl": True, "ssl_ca_certs": str(self.tls.authority)} if self.tls else {}
        return redis.Redis(port=port, socket_timeout=2, username=user, password=password, **tls)

    def url(self, kind: str, ports: Iterable[int], path: str = "", login: str = "", **query: object) -> str:
        """Return the URL of a store; `login` is USER:PASSWORD, else the default user's."""
        scheme = ("rediss" if self.tls else "redis") + (f"+{kind}" if kind else "")
        login = login or (f":{self.password}" if self.password else "")
        if self.tls is not None:
            query = {"ssl_ca_certs": self.tls.authority, **query}
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
        return f"{scheme}://{login}{'@' * bool(login)}{hosts}{path}{'?' * bool(query)}{urlencode(query)}"
