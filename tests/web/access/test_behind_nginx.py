"""omega serve behind nginx, as docs/serve.md has it: its own user, a socket, and a port that is not the default."""

import grp
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from omega.cellstate.redis import RedisCell
from tests.integration.stage import made_cell, until
from tests.tutorial.page import DOCS
from tests.web.serving import free_port

USER = "www-data"
NGINX = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(NGINX is None or os.geteuid() != 0, reason="needs nginx, and root to give it another user"),
]


@pytest.fixture
def cell(store_url: str) -> Iterator[RedisCell]:
    """A cell to serve."""
    with made_cell(store_url, f"nginx-{uuid4().hex[:8]}") as made:
        yield made


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the user of nginx may enter."""
    made = Path(tempfile.mkdtemp())
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def test_the_configuration_of_the_page_works(cell: RedisCell, folder: Path) -> None:
    port, run = free_port(), folder / "omega-serve"
    run.mkdir()
    os.chown(run, -1, grp.getgrnam(USER).gr_gid)
    run.chmod(0o750)
    (block,) = re.findall(r"^ *location / \{.*?^ *\}", (DOCS / "serve.md").read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert "/run/omega-serve/web.sock" in block
    block = block.replace("/run/omega-serve", str(run))
    places = " ".join(
        f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"user {USER}; daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log;\nevents {{}}\n"
        f"http {{ access_log off; {places} server {{ listen 127.0.0.1:{port}; {block} }} }}\n"
    )
    omega = [str(Path(sys.executable).with_name("omega")), "--store", cell.url, "--cell", cell.name, "serve"]
    omega += ["--listen", f"unix:{run}/web.sock", "--token-file", str(folder / "token")]
    omega += ["--public-url", f"https://omega.example:{port}"]
    with subprocess.Popen(omega, stdout=subprocess.DEVNULL) as server:
        until((run / "web.sock").exists, "the socket is there")
        with subprocess.Popen([str(NGINX), "-c", str(folder / "nginx.conf"), "-p", str(folder)]) as proxy:
            until(lambda: answer(folder, port) is not None, "nginx answers")
            found = answer(folder, port)
            assert found is not None
            assert found.status_code == 200, f"{found.text} {(folder / 'error.log').read_text('utf-8')}"
            proxy.terminate()
        server.terminate()


def answer(folder: Path, port: int) -> httpx.Response | None:
    """Return the answer to a request by a browser, None while nobody listens."""
    try:
        token = (folder / "token").read_text("utf-8").strip()
        headers = {"Authorization": f"Bearer {token}", "Host": f"omega.example:{port}"}
        return httpx.get(f"http://127.0.0.1:{port}/v1/cells", headers=headers, timeout=20)
    except (httpx.ConnectError, FileNotFoundError):
        return None
