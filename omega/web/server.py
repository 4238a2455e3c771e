"""``omega serve``: its settings, its start token, and the server process until it is asked to end."""

import asyncio
import gc
import logging
import os
import resource
import socket
import ssl
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from omega import admission
from omega.cellstate.errors import BadInput
from omega.client.defaults import account_name
from omega.embedded.places import state_directory
from omega.schedulers.process.log import log
from omega.web.access.addresses import Addresses, Proxy, origin_of
from omega.web.access.admissions import Access
from omega.web.access.open_streams import MOST_STREAMS, OpenByToken
from omega.web.access.tokens import Tokens, checked_user, digest, new_token, read, write_private
from omega.web.access.visitors import Visitor
from omega.web.app import create_app
from omega.web.connections import MOST_CONNECTIONS, MOST_STRANGERS, SPARE_FILES, Crowd
from omega.web.listening import DEFAULT, Listen
from omega.web.service import Service
from omega.web.serving import Server
from omega.web.sse import OpenStreams

COLLECTION = (20_000, 4, 250)
"""Thresholds of the garbage collector. With Python's own it searched everything in memory several times a second while
jobs were submitted; requests leave next to nothing that only a search finds. A search holds the interpreter's lock:
one of the second generation goes through 80,000 objects, some ten milliseconds."""
SWITCH_SECONDS = 0.001
"""Time after which a thread gives the interpreter's lock to another: the loop may wait for each thread in turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The options of ``omega serve``, as they are given."""

    listen: str = DEFAULT
    user: str | None = None
    tokens: str | None = None
    token_file: str | None = None
    start_token: bool = True
    public: tuple[str, ...] = ()
    allow_origins: tuple[str, ...] = ()
    proxy_header: str | None = None
    proxies: tuple[str, ...] = ()
    certificate: str | None = None
    key: str | None = None
    insecure: bool = False
    read_only: bool = False
    most_connections: int = MOST_CONNECTIONS
    most_streams: int = MOST_STREAMS

    def check(self) -> None:
        """Raise BadInput for options that exclude one another, or would open the server to others unprotected."""
        listen = Listen.of(self.listen)
        if (self.certificate is None) != (self.key is None):
            raise BadInput("--certificate and --key belong together; give both")
        if not (listen.is_local or self.certificate or self.insecure):
            raise BadInput(
                f"listen {self.listen}: tokens of other computers would be sent in clear text; give --certificate and "
                "--key, listen on 127.0.0.1 behind a proxy with TLS, or accept it with --insecure"
            )
        if not (self.start_token or self.tokens or self.proxy_header):
            raise BadInput("nobody could use the server: give --tokens, or leave out --no-start-token")
        if self.proxies and not self.proxy_header:
            raise BadInput("--trusted-proxy needs --trusted-proxy-header, the header with the user's name")
        if "unix" in self.proxies and listen.path is None:
            raise BadInput("--trusted-proxy unix needs --listen unix:PATH")


class Serving(NamedTuple):
    """A server that listens: its address, the same with its start token, and the file with that token."""

    url: str
    login: str
    token_file: Path | None

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {"url": self.url, "login": self.login, "token_file": str(self.token_file) if self.token_file else None}


@dataclass(slots=True)
class WebServer:
    """A server of the cells of a store. `cell` is the default one."""

    store: str
    cell: str | None
    settings: Settings
    token: str | None = None
    """The start token; without one it is made."""
    listen: Listen = field(init=False)
    access: Access = field(init=False)

    def __post_init__(self) -> None:
        """Check the settings. Raises BadInput, Refused."""
        said = self.settings
        said.check()
        self.listen = Listen.of(said.listen)
        start: Mapping[str, Visitor] = {}
        if said.start_token:
            self.token = self.token or new_token()
            start = {digest(self.token): Visitor(checked_user(said.user or account_name()), "operator")}
        addresses = Addresses(
            secure=said.certificate is not None,
            names=self.listen.names,
            public=tuple(origin_of(each) for each in said.public),
            listed=frozenset(origin_of(each) for each in said.allow_origins),
        )
        file = None if said.tokens is None else Path(said.tokens).expanduser().absolute()
        if file is not None:
            check_tokens(file)
        proxy = None if said.proxy_header is None else Proxy.of(said.proxy_header, said.proxies)
        tokens = Tokens(file, start, log.warning)
        self.access = Access(tokens, addresses, proxy, said.read_only, streams=OpenByToken(said.most_streams))

    def run(self, ready: Callable[[Serving], None]) -> None:
        """Serve until SIGINT or SIGTERM; `ready` is called when requests are answered. Raises Refused, BadInput."""
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
        context = _tls(self.settings)
        bound, written = self.listen.bind(), None
        try:
            url = f"{origin_of(self.settings.public[0])}/" if self.settings.public else self._url(bound)
            written = self._write_token(bound)
            login = f"{url}{f'?token={quote(self.token)}' if self.token else ''}"
            with admission.bounded():  # one that does not return would hold the jobs of everybody
                asyncio.run(self._serve(bound, context, lambda: ready(Serving(url, login, written))))
        finally:
            for path in (written, self.listen.path):
                if path is not None:
                    path.unlink(missing_ok=True)
            bound.close()

    def _url(self, bound: socket.socket) -> str:
        return self.listen.url(bound, secure=self.settings.certificate is not None)

    def _write_token(self, bound: socket.socket) -> Path | None:
        """Write the start token to a file that only the user can read."""
        if self.token is None:
            return None
        path = self.listen.path
        name = bound.getsockname()[1] if path is None else f"{path.name}-{sha256(os.fsencode(path)).hexdigest()[:8]}"
        named = self.settings.token_file
        file = Path(named).expanduser().absolute() if named else state_directory() / "web" / f"{name}.token"
        write_private(file, self.token + "\n")
        return file

    async def _serve(self, bound: socket.socket, context: ssl.SSLContext | None, ready: Callable[[], None]) -> None:
        app = create_app(Service(self.store, self.cell), self.access)
        gc.freeze()  # modules and routes live as long as the process
        gc.set_threshold(*COLLECTION)
        sys.setswitchinterval(SWITCH_SECONDS)
        streams: OpenStreams = app.state.streams
        crowd = Crowd.within(_open_files(self.settings.most_connections), self.settings.most_connections)
        if crowd.most < self.settings.most_connections:
            log.warning("fewer connections than --connections: the limit of open files is low", most=crowd.most)
        server = Server.of(app, ready, closing=streams.close, crowd=crowd, context=context)
        await server.serve(sockets=[bound])


def _open_files(connections: int) -> int:
    """Return how many files this process may open, after raising that to what its connections need, if it may."""
    wanted = connections + MOST_STRANGERS + SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    more = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (more, hard))
        return more
    return soft


def _tls(settings: Settings) -> ssl.SSLContext | None:
    if settings.certificate is None or settings.key is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(settings.certificate, settings.key, password=_no_password)
    except (OSError, ssl.SSLError) as error:
        said = error.strerror or str(error)
        raise BadInput(f"certificate {settings.certificate}, key {settings.key}: {said}; want PEM files") from None
    return context


def _no_password() -> str:
    raise BadInput("the key has a password; store it without one, readable by the user of omega serve only")


def check_tokens(file: Path) -> None:
    """Raise BadInput for a file of tokens with any mistake: at the start, an operator is there to correct it."""
    try:
        _, wrong = read(file)
    except OSError as error:
        raise BadInput(f"tokens file {file}: {(error.strerror or str(error)).lower()}") from None
    if wrong:
        raise BadInput(wrong[0])
