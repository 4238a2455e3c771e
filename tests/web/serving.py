"""`omega serve` as a process, with a token for each role."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import httpx
import pytest

USERS = {"reader": "rita", "submitter": "ada", "operator": "olga"}
"""The user of each role's token."""
SECONDS = 30.0
"""Time until the server must answer; only a machine under great load takes more than two."""


@dataclass(frozen=True, slots=True)
class Console:
    """A running server: its address, its default cell, and a token for each role."""

    origin: str
    cell: str
    tokens: dict[str, str]
    process: "subprocess.Popen[bytes]"

    def address_of(self, path: str) -> str:
        """Return the address of a path of the server."""
        return self.origin + path

    def page(self, path: str) -> str:
        """Return the address of a page of the cell."""
        return f"{self.origin}/cells/{self.cell}/{path}"

    def login(self, role: str) -> str:
        """Return the address that begins a session of a role."""
        return f"{self.origin}/?token={self.tokens[role]}"


@contextmanager
def serving(store: str, cell: str, folder: Path, *options: str, port: int = 0) -> Iterator[Console]:
    """Serve the cells of a store on a free port, or the given one; the block ends the process."""
    port = port or free_port()
    tokens = {role: f"token-of-the-{role}" for role in USERS}
    lines = [f"sha256:{sha256(token.encode()).hexdigest()} {USERS[role]} {role}\n" for role, token in tokens.items()]
    (folder / "tokens").write_text("".join(lines), encoding="utf-8")
    (folder / "tokens").chmod(0o600)
    program = [str(Path(sys.executable).with_name("omega")), "--store", store, "--cell", cell]
    command = [
        *program,
        "serve",
        "--no-start-token",
        "--listen",
        f"127.0.0.1:{port}",
        "--tokens",
        str(folder / "tokens"),
        *options,
    ]
    log = folder / "serve.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
    try:
        console = Console(f"http://127.0.0.1:{port}", cell, tokens, process)
        _wait_for(console, log)
        yield console
    finally:
        process.terminate()
        try:
            process.wait(SECONDS)
        finally:
            process.kill()


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _wait_for(console: Console, log: Path) -> None:
    deadline = time.monotonic() + SECONDS
    while console.process.poll() is None and time.monotonic() < deadline:
        try:
            httpx.get(console.origin, timeout=SECONDS)
        except httpx.TransportError:
            time.sleep(0.02)
        else:
            return
    pytest.fail(f"the server does not answer on {console.origin}; its log:\n{log.read_text()}", pytrace=False)
