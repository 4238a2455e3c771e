"""A server that requires a password, and `omega` with the URL of the store in a file."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from omega.cellstate.server import connect
from tests.integration.stage import own_server


@contextmanager
def guarded_server() -> Iterator[tuple[str, str]]:
    """The URL of a server of a test's own, with its password, and the password; the server's argv does not hold it."""
    password = f"pw-{uuid4().hex}"
    with own_server() as server:
        with connect(server.url) as client:
            client.config_set("requirepass", password)
        yield server.url.replace("unix://", f"unix://:{password}@"), password


@contextmanager
def program(*words: str, state: Path, store: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """`omega` with the store's URL in a file, until the end; interrupted then."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OMEGA_")}
    environment |= {"OMEGA_STATE": str(state), "OMEGA_LOG": "debug"}
    with (state / f"{words[0]}.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "omega.cli.main", "--store-file", str(store), "--cell", "secret", *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)
