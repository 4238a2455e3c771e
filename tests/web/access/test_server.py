"""`omega serve`: where it listens, what it refuses, its start token, and how it ends."""

import asyncio
import json
import os
import signal
import socket
import ssl
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute, APIRouter

from omega.cellstate.errors import BadInput, Refused
from omega.cellstate.redis import RedisCell
from omega.web.access.tokens import digest
from omega.web.app import ROUTERS
from omega.web.listening import Listen
from omega.web.member import settings_of
from omega.web.server import Settings, WebServer
from tests.cli.conftest import Omega, cell, omega
from tests.integration.stage import until

__all__ = ["cell", "omega"]

TLS = Path(__file__).with_name("tls")
CERTIFICATE = {"certificate": str(TLS / "certificate.pem"), "key": str(TLS / "key.pem")}
SECONDS = 30.0


def test_answers_are_not_delayed_until_the_client_acknowledges_their_beginning() -> None:
    """Nagle's algorithm is off, as asyncio does it for sockets that name TCP only."""

    async def accepted() -> bool:
        with Listen.of("127.0.0.1:0").bind() as bound:
            found: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

            def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                connection = writer.get_extra_info("socket")
                found.set_result(bool(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)))
                writer.close()

            async with await asyncio.start_server(serve, sock=bound):
                host, port = bound.getsockname()[:2]
                _, writer = await asyncio.open_connection(host, port)
                answer = await found
                writer.close()
                await writer.wait_closed()
                return answer

    assert asyncio.run(accepted())


@pytest.mark.parametrize(
    ("text", "local"),
    [
        ("127.0.0.1:7070", True), ("127.9.9.9:0", True), ("localhost:1", True), ("[::1]:7070", True), ("unix:/x", True),
        ("0.0.0.0:7070", False), ("[::]:7070", False), ("10.0.0.1:7070", False), ("omega.example:80", False),
        ("localhost.example:80", False), ("127.0.0.1.example:80", False), ("2130706433:80", False),
    ],
)  # fmt: skip
def test_only_loopback_needs_no_tls(text: str, local: bool) -> None:
    assert Listen.of(text).is_local == local
    if local:
        Settings(listen=text).check()
    else:
        with pytest.raises(BadInput, match="clear text; give --certificate and --key"):
            Settings(listen=text).check()
    Settings(listen=text, insecure=True).check()
    Settings(listen=text, **CERTIFICATE).check()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text", ["", "7070", ":7070", "localhost", "::1:7070", "[::1]", "a:b", "a:70707", "unix:", "[a]:"]
)
def test_other_forms_of_addresses_are_refused(text: str) -> None:
    with pytest.raises(BadInput, match="want ADDRESS:PORT, "):
        Listen.of(text)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"certificate": "c"}, "--certificate and --key belong together"),
        ({"start_token": False}, "nobody could use the server"),
        ({"proxies": ("10.0.0.1",)}, "--trusted-proxy needs --trusted-proxy-header"),
        ({"proxy_header": "X-User"}, "name them with --trusted-proxy"),
        ({"proxy_header": "X-User", "proxies": ("unix",)}, "--trusted-proxy unix needs --listen unix:PATH"),
        ({"proxy_header": "X User", "proxies": ("10.0.0.1",)}, "want the name of a header"),
        ({"proxy_header": "Host", "proxies": ("10.0.0.1",)}, "want the name of a header"),
        ({"proxy_header": "X-User", "proxies": ("10.0.0.1/8",)}, "has host bits set"),
        ({"public": ("omega.example",)}, "want http:// or https://"),
        ({"public": ("https://omega.example/path",)}, "want http:// or https://"),
        ({"allow_origins": ("*",)}, "want http:// or https://"),
        ({"allow_origins": ("null",)}, "want http:// or https://"),
        ({"user": "a b"}, "user 'a b'"),
        ({"tokens": "/nowhere"}, "tokens file /nowhere: no such file"),
    ],
)
def test_options_that_do_not_fit_are_refused_before_anything_starts(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadInput, match=problem.replace("(", r"\(")):
        WebServer("unix:///nowhere", None, Settings(**given))


def test_a_mistake_in_the_tokens_is_refused_at_the_start(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text("oops\n")
    file.chmod(0o600)
    with pytest.raises(BadInput, match="line 1: want HASH USER ROLE"):
        WebServer("unix:///nowhere", None, Settings(tokens=str(file)))


def test_the_start_token_is_an_operators_and_each_start_has_another() -> None:
    made = [WebServer("unix:///nowhere", None, Settings(user="ada")) for _ in range(2)]
    assert made[0].token != made[1].token
    for each in made:
        visitor = each.access.tokens.visitor(digest(each.token or ""))
        assert visitor is not None
        assert (visitor.user, visitor.role) == ("ada", "operator")
    assert settings_of("127.0.0.1:0").user


def test_a_unix_socket_is_its_users_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "web.sock"
    with Listen.of(f"unix:{path}").bind():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        with pytest.raises(Refused, match="address already in use"):
            Listen.of(f"unix:{path}").bind()
    with Listen.of(f"unix:{path}").bind() as again:  # what a killed server left behind
        assert again.getsockname() == str(path)
    path.parent.chmod(0o755)
    with pytest.raises(Refused, match="is not yours alone; use one with mode 0700"):
        Listen.of(f"unix:{path}").bind()
    assert (tmp_path / "file").write_text("mine")
    tmp_path.chmod(0o700)
    with pytest.raises(Refused, match="choose another path"):
        Listen.of(f"unix:{tmp_path / 'file'}").bind()
    assert (tmp_path / "file").read_text() == "mine"


def test_a_port_in_use_is_named_with_the_remedy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as there:
        port = there.getsockname()[1]
        with pytest.raises(Refused, match=f"127.0.0.1:{port}: address already in use; stop what listens there"):
            Listen.of(f"127.0.0.1:{port}").bind()


def test_a_proxy_of_the_folders_group_reaches_the_socket(tmp_path: Path) -> None:
    folder, group = tmp_path / "of-a-proxy", 33 if os.geteuid() == 0 else os.getegid()
    folder.mkdir()
    os.chown(folder, -1, group)
    folder.chmod(0o750)
    with Listen.of(f"unix:{folder / 'web.sock'}").bind():
        facts = (folder / "web.sock").stat()
        assert (stat.S_IMODE(facts.st_mode), facts.st_gid) == (0o660, group)
    for mode in (0o770, 0o751, 0o705):
        folder.chmod(mode)
        with pytest.raises(Refused, match="is not yours alone"):
            Listen.of(f"unix:{folder / 'web.sock'}").bind()


@contextmanager
def started(store: str, state: Path, *words: str) -> Iterator[tuple[subprocess.Popen[str], Any]]:
    """Run omega serve; yield the process and the document that it prints."""
    command = [sys.executable, "-m", "omega.cli.main", "--store", store, "--json", "serve", *words]
    environment = {**os.environ, "OMEGA_STATE": str(state), "OMEGA_USER": "ada"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.stderr and process.stderr.read()
        yield process, json.loads(line)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_a_signal_and_leaves_no_token(store_url: str, cell: RedisCell, tmp_path: Path, by: int) -> None:
    with started(store_url, tmp_path, "--listen", "127.0.0.1:0", "--cell", cell.name) as (process, said):
        file = Path(said["token_file"])
        token = file.read_text().strip()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert said["login"] == f"{said['url']}?token={token}"
        assert httpx.get(f"{said['url']}v1/openapi.json").status_code == 401
        sent = {"Authorization": f"Bearer {token}"}
        answer = httpx.get(f"{said['url']}v1/openapi.json", headers=sent)
        assert answer.status_code == 200
        assert "server" not in answer.headers
        with httpx.Client() as browser, browser.stream("GET", said["login"], follow_redirects=True) as page:
            assert page.status_code < 400
            assert "token" not in str(page.url)
        process.send_signal(by)
        out, errors = process.communicate(timeout=SECONDS)
        assert (process.returncode, out) == (0, "")
        assert token not in errors
        assert not file.exists()


def test_it_speaks_tls_and_its_cookies_are_secure(store_url: str, cell: RedisCell, tmp_path: Path) -> None:
    words = ("--listen", "127.0.0.1:0", "--certificate", CERTIFICATE["certificate"], "--key", CERTIFICATE["key"])
    with started(store_url, tmp_path, *words) as (_, said):
        assert said["url"].startswith("https://127.0.0.1:")
        context = ssl.create_default_context(cafile=str(TLS / "certificate.pem"))
        answer = httpx.get(said["login"], verify=context)
        port = said["url"].rstrip("/").rpartition(":")[2]
        assert answer.headers["set-cookie"].startswith(f"__Host-omega-{port}=")
        assert "; Secure" in answer.headers["set-cookie"]


def test_it_listens_on_a_unix_socket_and_removes_it(store_url: str, cell: RedisCell, tmp_path: Path) -> None:
    path = tmp_path / "w" / "s"
    with started(store_url, tmp_path, "--listen", f"unix:{path}") as (process, said):
        token = Path(said["token_file"]).read_text().strip()
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(path))) as client:
            assert client.get("http://localhost/v1/openapi.json").status_code == 401
            sent = {"Authorization": f"Bearer {token}"}
            assert client.get("http://localhost/v1/openapi.json", headers=sent).status_code == 200
            assert client.get("http://evil.example/", headers=sent).status_code == 421
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=SECONDS)
        assert not path.exists()


def test_a_certificate_that_is_none_is_one_line(omega: Omega, tmp_path: Path) -> None:
    for name in ("c", "k"):
        (tmp_path / name).write_text("x")
    words = ("serve", "--listen", "127.0.0.1:0", "--certificate", str(tmp_path / "c"), "--key", str(tmp_path / "k"))
    assert "want PEM files" in omega.error(*words)
    assert "no such file" in omega.error("serve", "--certificate", str(tmp_path / "none"), "--key", "x").lower()


def test_without_the_extra_it_is_named(tmp_path: Path) -> None:
    program = "import sys; sys.modules['fastapi'] = None; from omega.cli.main import main; main()"
    command = [sys.executable, "-c", program, "serve", "--store", f"unix://{tmp_path}/none"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    remedy = "pip install 'omega-scheduler[web]'"
    assert (done.returncode, done.stderr) == (1, f"error: the web server: fastapi is not installed; {remedy}\n")
    token = subprocess.run([*command[:3], "token", "ada"], capture_output=True, text=True, check=True)
    assert token.stdout.startswith("token  "), "a token needs no server"


def test_omega_serve_refuses_other_computers_without_tls(omega: Omega) -> None:
    assert omega.error("serve", "--listen", "0.0.0.0:0").startswith("listen 0.0.0.0:0: tokens of other computers")


def test_omega_token_makes_a_line_that_admits_its_token(omega: Omega, tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    made = omega.json("token", "ada", "--role", "submitter")
    assert made["line"] == f"{digest(made['token'])} ada submitter"
    assert made["file"] is None
    text = omega.text("token", "bob", "--tokens", str(file))
    token = text.split()[1]
    assert file.read_text() == f"{digest(token)} bob reader\n"
    assert "user 'a b'" in omega.error("token", "a b")
    server = WebServer(omega.url or "", None, Settings(tokens=str(file), start_token=False))
    assert server.access.known(token) == digest(token)
    assert server.token is None


def routes_of(router: APIRouter) -> Iterator[APIRoute]:
    for each in router.routes:
        if isinstance(each, APIRoute):
            yield each
        elif isinstance(inner := getattr(each, "original_router", None), APIRouter):
            yield from routes_of(inner)


def roles_of(route: APIRoute) -> list[str]:
    called = [each.call for each in route.dependant.dependencies]
    return [role for each in called if (role := getattr(each, "role", None))]


CHECKED_WITHIN = ["/v1/jobs"]
"""Submission checks its role itself, which costs less; tests/web/api/test_submissions.py sends a reader."""

PREVIEWED, VERIFIED = "/cells/{cell}/pools/change", "/v1/cell/verify"
"""Everybody may see the effect of a change of pools; `test_only_operators_make_a_previewed_change` sends the change.
A verification changes nothing."""


def test_every_route_declares_a_role() -> None:
    """A route without one would be open to every reader, also for changes."""
    routes = [each for name in ROUTERS for each in routes_of(import_module(name).router)]
    assert routes
    assert [each.path for each in routes if len(roles_of(each)) != 1] == CHECKED_WITHIN
    read = ["reader"]
    changing = [each for each in routes if roles_of(each) == read and (each.methods or set()) - {"GET", "HEAD"}]
    assert [each.path for each in changing if not each.path.endswith("/plan")] == [VERIFIED, PREVIEWED]


@pytest.mark.parametrize("mode", [0o644, 0o600])
def test_the_start_token_is_in_no_file_that_others_can_read(
    store_url: str, cell: RedisCell, tmp_path: Path, mode: int
) -> None:
    log = tmp_path / "serve.log"
    log.touch(mode=mode)
    log.chmod(mode)
    command = [sys.executable, "-m", "omega.cli.main", "--store", store_url, "serve", "--listen", "127.0.0.1:0"]
    command += ["--public-url", "https://host:8443"]
    environment = {**os.environ, "OMEGA_STATE": str(tmp_path), "COLUMNS": "500"}
    with log.open("wb") as output, subprocess.Popen(command, env=environment, stdout=output) as process:
        until(lambda: b"ready" in log.read_bytes(), "it serves")
        said = log.read_text("utf-8")
        (token,) = (path.read_text("utf-8").strip() for path in (tmp_path / "web").glob("*.token"))
        process.terminate()
        process.wait(SECONDS)
    assert ("https://host:8443/v1" in said, token in said) == (True, mode == 0o600), said
