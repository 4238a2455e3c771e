"""``omega serve`` with 1,024 open files, 2,000 strangers that come again 200 times a second, and its operator."""

import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from uuid import uuid4

import pytest

from omega.cellstate.redis import RedisCell
from tests.integration.stage import made_cell
from tests.web.serving import free_port

TLS = Path(__file__).parent / "access" / "tls"
STRANGERS, A_SECOND, FILES, TIMES = 2_000, 200, 1_024, 20
SECONDS = 20.0
"""Time of an answer after which it counts as none; `answered` returns how long they took."""
NGINX = """
daemon off; pid {folder}/nginx.pid; error_log {folder}/nginx.log; worker_rlimit_nofile 8192;
events {{ worker_connections 4096; }}
http {{
  access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{ proxy_pass http://127.0.0.1:{behind}; proxy_set_header Host $http_host; proxy_http_version 1.1; }}
  }}
}}
"""

pytestmark = [pytest.mark.server, pytest.mark.chaos]


@pytest.fixture(scope="module")
def cell(store_url: str) -> Iterator[RedisCell]:
    """A cell to serve."""
    with made_cell(store_url, f"crowd-{uuid4().hex[:8]}") as made:
        yield made


@contextmanager
def process(*words: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a process until the block ends."""
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as made:
        try:
            yield made
        finally:
            made.terminate()


@contextmanager
def served(cell: RedisCell, folder: Path, port: int, *options: str) -> Iterator[str]:
    """Serve the cell with few open files; yield the start token."""
    program = [str(Path(sys.executable).with_name("omega")), "--store", cell.url, "--cell", cell.name, "serve"]
    program += ["--listen", f"127.0.0.1:{port}", "--token-file", str(folder / "token"), *options]
    with process("prlimit", f"--nofile={FILES}", *program):
        yield token(folder, port)


def token(folder: Path, port: int) -> str:
    """Return the start token of a server, when it listens."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            socket.create_connection(("127.0.0.1", port), 5).close()
            return (folder / "token").read_text().strip()
        except OSError:
            time.sleep(0.05)
    pytest.fail("the server does not listen")


def answered(port: int, token: str, *, secured: bool) -> list[float]:
    """Ask on connections of their own, one after another; return the seconds until each answer."""
    context = ssl.create_default_context(cafile=str(TLS / "certificate.pem")) if secured else None
    took = []
    for number in range(TIMES):
        began = time.monotonic()
        connection = (
            HTTPSConnection("localhost", port, timeout=SECONDS, context=context)
            if context
            else HTTPConnection("127.0.0.1", port, timeout=SECONDS)
        )
        with closing(connection) as client:
            client.request("GET", "/v1/cells", headers={"Authorization": f"Bearer {token}"})
            assert client.getresponse().status == 200, f"connection {number}"
        took.append(time.monotonic() - began)
    return took


@contextmanager
def strangers(port: int, *, rush: bool = False) -> Iterator[None]:
    """Let strangers hold connections to a port; with `rush` the block begins as they do."""
    words = ("127.0.0.1", str(port), str(STRANGERS), str(A_SECOND))
    with process(sys.executable, "-m", "tests.web.strangers", *words) as held:
        assert held.stdout
        assert held.stdout.readline() == b"rush\n"
        assert rush or held.stdout.readline() == b"held\n"
        yield


@pytest.mark.parametrize("rush", [False, True], ids=["held", "rush"])
@pytest.mark.parametrize("way", ["plain", "tls", "nginx"])
def test_the_operator_is_answered_among_strangers(cell: RedisCell, tmp_path: Path, way: str, *, rush: bool) -> None:
    port, outside = free_port(), free_port()
    options = ("--certificate", str(TLS / "certificate.pem"), "--key", str(TLS / "key.pem")) if way == "tls" else ()
    with served(cell, tmp_path, port, *options) as secret:
        if way == "nginx":
            nginx = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
            if nginx is None:
                pytest.skip("nginx is not installed")
            file = tmp_path / "nginx.conf"
            file.write_text(NGINX.format(folder=tmp_path, port=outside, behind=port))
            with process(nginx, "-c", str(file), "-p", str(tmp_path)):
                token(tmp_path, outside)
                with strangers(outside, rush=rush):
                    took = answered(outside, secret, secured=False)
        else:
            with strangers(port, rush=rush):
                took = answered(port, secret, secured=way == "tls")
    print(f"{way}: the longest of {TIMES} answers took {max(took):.2f} s")  # noqa: T201 - a measurement
