"""The server under measurement: one of its own on a unix socket, or the one that is named."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any
from urllib.parse import quote

import redis

from omega.cellstate import keys
from omega.cellstate.errors import StoreError
from omega.cellstate.redis import RedisCell
from omega.cellstate.server import Answer, check_suitable, connect, ping, server_info, translate
from omega.cellstate.store import connect_cell, create_cell
from omega.embedded.program import allocator_of, find_server, server_environment

STARTING_SECONDS = 10.0
_SUPERVISOR = '"$@" & read -r _; kill -9 $!; rm -rf "$0"'
"""Ends the server and removes its directory when the measurement ends, even by kill -9: its stdin closes then."""
LONGEST_SOCKET = 100
"""Bytes of a socket's path: Linux takes 107, macOS 103."""


@dataclass(slots=True)
class Store:
    """A server and the cell on it that belongs to this measurement alone."""

    url: str
    cell: str
    own: bool
    directory: Path
    """For logs of processes; removed at the end."""
    client: "redis.Redis" = field(init=False)

    def __post_init__(self) -> None:
        """Connect."""
        self.client = connect(self.url, timeout=60.0)

    @property
    def prefix(self) -> str:
        """What every key of the cell begins with."""
        return keys.prefix(self.cell)

    def make_cell(self) -> RedisCell:
        """Make the cell, empty."""
        return create_cell(self.client, self.cell, url=self.url)

    def open_cell(self) -> RedisCell:
        """Another port to the same cell, on connections of its own."""
        return connect_cell(self.url, self.cell, timeout=60.0)

    def cpu_seconds(self) -> float:
        """CPU time the server has used so far."""
        facts: Any = self.client.info("cpu")
        return float(facts["used_cpu_user"]) + float(facts["used_cpu_sys"])

    def pids(self) -> dict[str, int]:
        """Return the process id of the server as ``server``; nothing for a server on another computer."""
        return {"server": server_info(self.url).pid} if self.url.startswith("unix:") else {}

    def memory_bytes(self) -> int:
        """Return the server's memory in use, without its allocator's reserve."""
        facts: Any = self.client.info("memory")
        return int(facts["used_memory"])

    def load_script(self, text: str) -> bytes:
        """Make a script known to the server; returns its SHA-1."""
        sha: Any = self.client.script_load(text)
        return sha if isinstance(sha, bytes) else str(sha).encode()

    def describe(self) -> dict[str, object]:
        """Product, version and persistence, for a report."""
        info = server_info(self.url)
        return {
            "product": info.product,
            "version": info.version,
            "append_only": info.append_only,
            "own": self.own,
            "transport": self.url.partition("://")[0],
            "allocator": allocator_of(info.pid if self.url.startswith("unix:") else 0, info.allocator),
        }

    def clear(self) -> None:
        """Remove the cell and its saved keys; leaves the rest of the store unchanged."""
        self.client.srem(keys.CELLS, self.cell)
        for prefix in (self.prefix, _saved_prefix(self.cell)):
            for key in _found(self, prefix):
                self.client.unlink(key)


def _saved_prefix(cell: str) -> str:
    """Return the prefix of saved cells' keys: the same hash tag keeps them on the same server."""
    return f"bench-saved:{{{cell}}}:"


@contextmanager
def measured_store(url: str | None, *, append_only: bool = False) -> Iterator[Store]:
    """Yield the server at `url`, or one of its own without persistence (`append_only`: flushed every second).

    Its own server is killed at the end; on another the measurement's cell is removed. Raises StoreError.
    """
    if url:
        check_suitable(server_info(url))
    directory = server_directory()
    try:
        if url:
            store = Store(url, f"bench-{token_hex(4)}", own=False, directory=directory)
            try:
                yield store
            finally:
                with suppress(redis.RedisError):  # it is gone: that error is already on its way
                    store.clear()
                store.client.connection_pool.disconnect()
        else:
            with own_server(directory, append_only=append_only) as own:
                store = Store(own, "bench", own=True, directory=directory)
                try:
                    yield store
                finally:
                    store.client.connection_pool.disconnect()
    except redis.RedisError as error:
        raise translate(error, url or "unix://") from error
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """Settings of a benchmark of a store: its URL (None: a server of its own), and whether that logs writes."""

    store: str | None = None
    append_only: bool = False

    def measured_store(self) -> AbstractContextManager[Store]:
        """Return the server to measure."""
        return measured_store(self.store, append_only=self.append_only)

    def values(self, *names: str) -> dict[str, object]:
        """Return some of the settings by name, for a document."""
        return {name: getattr(self, name) for name in names}


def server_directory() -> Path:
    """Make a directory for a server's socket and files; its path is short enough for a socket."""
    directory = Path(tempfile.mkdtemp(prefix="omega-bench-"))
    if len(os.fsencode(directory / "store.sock")) > LONGEST_SOCKET:
        directory.rmdir()
        directory = Path(tempfile.mkdtemp(prefix="omega-bench-", dir="/tmp"))
    return directory


@contextmanager
def own_server(
    directory: Path, *, append_only: bool = False, under: Sequence[str] = (), settings: Mapping[str, str] | None = None
) -> Iterator[str]:  # fmt: skip
    """Yield the URL of a server that is killed at the end, and its directory removed.

    `under` is a program that runs it, such as valgrind, with options; the allocator is then the C library's.
    `settings`: further ones of the server.
    """
    socket, log = directory / "store.sock", directory / "store.log"
    options = {
        "port": "0",
        "unixsocket": str(socket),
        "unixsocketperm": "700",
        "dir": str(directory),
        "save": "",
        "appendonly": "yes" if append_only else "no",
        "appendfsync": "everysec",
        **(settings or {}),
    }
    program = find_server()
    server = [*under, str(program.path), *(word for name, value in options.items() for word in (f"--{name}", value))]
    environment = server_environment(program)
    if under:
        environment.pop("LD_PRELOAD", None)
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["sh", "-c", _SUPERVISOR, str(directory), *server],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=True,
        )
    url = "unix://" + quote(str(socket))
    try:
        deadline = time.monotonic() + STARTING_SECONDS * (6 if under else 1)
        while ping(url) is not Answer.READY:
            if process.poll() is not None or time.monotonic() > deadline:
                lines = log.read_text("utf-8", errors="replace").strip().splitlines()
                raise StoreError(f"the server to measure did not start: {lines[-1] if lines else server[0]}")
            time.sleep(0.01)
        yield url
    finally:
        process.communicate()


@dataclass(slots=True)
class Saved:
    """A cell as it stood when it was saved under `label`. Every round begins with the same bytes in the store.

    Made by COPY, which keeps encodings and expiries, so that a restored cell is as fast as the original.
    """

    store: Store
    label: str
    names: list[str]

    @classmethod
    def save(cls, store: Store, label: str) -> "Saved":
        """Keep a copy of the cell, in place of the last one of that label."""
        names = sorted(key.removeprefix(store.prefix) for key in _found(store, store.prefix))
        saved = cls(store, label, names)
        for key in _found(store, saved._place):
            store.client.delete(key)
        for name in names:
            store.client.copy(store.prefix + name, saved._place + name)
        return saved

    def restore(self) -> None:
        """Restore the cell; later changes are lost."""
        prefix, client = self.store.prefix, self.store.client
        kept = set(self.names)
        for key in _found(self.store, prefix):
            if key.removeprefix(prefix) not in kept:
                client.delete(key)
        for name in self.names:
            client.copy(self._place + name, prefix + name, replace=True)

    @property
    def _place(self) -> str:
        return f"{_saved_prefix(self.store.cell)}{self.label}:"


def _found(store: Store, prefix: str) -> set[str]:
    return {key.decode() for key in store.client.scan_iter(match=prefix + "*", count=1000)}
