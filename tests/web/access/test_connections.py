"""A real server: connections that are slow, too many or malformed, and streams whose token is revoked."""

import asyncio
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from omega.web.access.admissions import Access
from omega.web.access.open_streams import OpenByToken
from omega.web.access.tokens import Tokens, append_line, token_line, write_private
from omega.web.connections import BoundedConnection, Crowd
from omega.web.serving import Server
from tests.web.access.probe import probe
from tests.web.visiting import token_of, tokens

HEAD = "Host: localhost\r\nAuthorization: Bearer {}\r\n"
OK = f"GET /v1/who HTTP/1.1\r\n{HEAD.format(token_of('operator'))}\r\n".encode()
SECONDS = 20.0


@contextmanager
def serving(
    access: Access | None = None, most: int = 20, strangers: int = 20, context: ssl.SSLContext | None = None
) -> Iterator[Callable[[], socket.socket]]:
    """Run a server of the probe; yield what connects to it."""
    bound = socket.create_server(("127.0.0.1", 0))
    ready, access = threading.Event(), access or Access(tokens())
    server = Server.of(probe(access), ready.set, crowd=Crowd(most, strangers), context=context)

    async def run() -> None:
        sweeping = asyncio.create_task(access.streams.sweep())
        await server.serve(sockets=[bound])
        sweeping.cancel()

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    opened = list[socket.socket]()

    def connect() -> socket.socket:
        opened.append(socket.create_connection(bound.getsockname(), SECONDS))
        return opened[-1]

    try:
        assert ready.wait(SECONDS)
        yield connect
    finally:
        for each in opened:
            each.close()
        server.should_exit = True
        thread.join(SECONDS)
        assert not thread.is_alive()


def answer(client: socket.socket, sent: bytes = b"") -> bytes:
    """Return what a connection brings until it ends, or a whole answer with a length."""
    if sent:
        client.sendall(sent)
    got, limit = b"", time.monotonic() + SECONDS
    while (part := _received(client)) and time.monotonic() < limit:
        got += part
        head, end, body = got.partition(b"\r\n\r\n")
        if end and b"content-length: " in head.lower():
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            if len(body) >= length:
                break
    return got


def _received(client: socket.socket) -> bytes:
    try:
        return client.recv(1 << 16)
    except ConnectionResetError:
        return b""


def status(got: bytes) -> int:
    return int(got.split(b" ", 2)[1]) if got else 0


STREAM = "GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\r\n"


def until(client: socket.socket, wanted: bytes) -> bytes:
    got = b""
    while wanted not in got and (part := client.recv(1 << 16)):
        got += part
    return got


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BoundedConnection, "head_seconds", 0.3)
    monkeypatch.setattr(BoundedConnection, "write_seconds", 0.3)


@pytest.mark.parametrize(
    "begun", [b"", b"GET /v1/who HT", b"GET /v1/who HTTP/1.1\r\nHost: localhost\r\nX: y", OK + b"GET / HTTP/1.1\r\nHo"]
)
def test_a_head_that_comes_slowly_is_not_waited_for(hasty: None, begun: bytes) -> None:
    """Slow loris: a byte now and then keeps no connection open."""
    with serving() as connect:
        client = connect()
        client.sendall(begun)
        client.settimeout(0.1)
        limit = time.monotonic() + SECONDS
        with suppress(ConnectionError):
            while time.monotonic() < limit:
                with suppress(TimeoutError):
                    if not client.recv(1 << 16):
                        break
                client.sendall(b"a" if begun else b"")
        assert time.monotonic() < limit
        assert status(answer(connect(), OK)) == 200, "others are served"


def test_a_connection_that_waits_for_its_next_request_is_kept(hasty: None) -> None:
    with serving() as connect:
        client = connect()
        assert status(answer(client, OK)) == 200
        time.sleep(0.8)
        assert status(answer(client, OK)) == 200


def test_a_body_that_nobody_reads_does_not_keep_the_connection(hasty: None) -> None:
    with serving() as connect:
        client = connect()
        head = b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        assert status(answer(client, head)) == 401
        limit = time.monotonic() + SECONDS
        with suppress(ConnectionError):
            while time.monotonic() < limit:
                client.sendall(b"5\r\nhello\r\n")
                time.sleep(0.05)
        assert time.monotonic() < limit


def test_connections_are_bounded() -> None:
    with serving(most=3) as connect:
        kept = [connect() for _ in range(3)]
        for each in kept:
            each.sendall(STREAM.format(token_of("reader")).encode())
            assert b"200 OK" in until(each, b":\n\n")
        refused = answer(connect(), OK)
        assert refused.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after" in refused.lower()
        kept.pop().close()
        for _ in range(100):
            if status(answer(connect(), OK)) == 200:
                break
            time.sleep(0.05)
        else:
            pytest.fail("a place that became free is not given away")


def test_a_connection_that_is_idle_gives_its_place_away() -> None:
    with serving(most=3) as connect:
        idle, stream, begun = connect(), connect(), connect()
        assert status(answer(begun, OK)) == 200
        assert status(answer(idle, OK)) == 200
        stream.sendall(STREAM.format(token_of("reader")).encode())
        assert b"200 OK" in until(stream, b":\n\n")
        begun.sendall(b"GET /v1/who HTTP/1.1\r\n")
        time.sleep(0.2)
        assert status(answer(connect(), OK)) == 200
        assert answer(idle) == b"", "it was closed"
        assert b":" in stream.recv(100)
        assert status(answer(begun, OK.partition(b"\r\n")[2])) == 200
        assert status(answer(begun, OK)) == 200


def chunked(size: int) -> Iterator[bytes]:
    for _ in range(size):
        yield b"100000\r\n" + b"x" * (1 << 20) + b"\r\n"
    yield b"0\r\n\r\n"


def test_a_chunked_body_of_9_mib_is_refused_on_the_wire() -> None:
    with serving() as connect:
        client = connect()
        head = f"POST /v1/jobs HTTP/1.1\r\n{HEAD.format(token_of('operator'))}Transfer-Encoding: chunked\r\n\r\n"
        client.sendall(head.encode())
        for part in chunked(9):
            client.sendall(part)
        got = answer(client)
        assert status(got) == 413
        assert json.loads(got.partition(b"\r\n\r\n")[2])["detail"] == "the body is larger than 8 MiB; send it in parts"
        assert status(answer(client, OK)) == 200, "the connection goes on"


def test_a_body_that_is_cut_costs_nothing() -> None:
    with serving() as connect:
        client = connect()
        head = f"POST /v1/jobs HTTP/1.1\r\n{HEAD.format(token_of('operator'))}Content-Length: 100\r\n\r\nabc"
        client.sendall(head.encode())
        client.close()
        assert status(answer(connect(), OK)) == 200


@pytest.mark.parametrize(
    ("head", "wanted"),
    [
        ("GET /v1/who HTTP/1.1\r\n", {400, 421}),
        ("GET /v1/who HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n", {400, 421}),
        ("GET http://evil.example/v1/who HTTP/1.1\r\nHost: localhost\r\n", {401}),
        ("GET /v1/who HTTP/1.0\r\n", {421}),
        ("GET /static/%2e%2e/v1/who HTTP/1.1\r\nHost: localhost\r\n", {401}),
        ("GET /static/..%2fv1%2fwho HTTP/1.1\r\nHost: localhost\r\n", {401}),
        ("GET /%2fv1/who HTTP/1.1\r\nHost: localhost\r\n", {401}),
        (
            "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            {400, 401},
        ),
        ("POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n", {400}),
        ("POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n", {400, 413}),
        (f"GET /v1/who HTTP/1.1\r\nHost: localhost\r\nX: {'x' * 400_000}\r\n", {400, 431}),
        ("GET /v1/who HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: websocket\r\n", {401}),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n", {400, 401, 421}),
    ],
)
def test_no_malformed_request_is_answered_as_another(head: str, wanted: set[int]) -> None:
    with serving() as connect:
        assert status(answer(connect(), head.encode() + b"\r\n")) in wanted
        assert status(answer(connect(), OK)) == 200


def test_a_revoked_token_ends_its_open_streams_with_a_last_event(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    append_line(file, token_line("one", "ada", "reader"))
    append_line(file, token_line("two", "bob", "operator"))
    with serving(Access(Tokens(file))) as connect:
        one, two = connect(), connect()
        one.sendall(STREAM.format("one").encode())
        two.sendall(STREAM.format("two").encode())
        assert b"200 OK" in until(one, b":\n\n")
        assert b"200 OK" in until(two, b":\n\n")
        write_private(file, token_line("two", "bob", "reader") + "\n")
        last = until(one, b"0\r\n\r\n")
        assert b"event: end" in last
        assert b"the token or session was revoked" in last
        assert last.endswith(b"0\r\n\r\n"), "the stream ends in order"
        assert b"the role is no longer operator, but reader" in until(two, b"0\r\n\r\n")
        assert status(answer(connect(), STREAM.format("one").encode())) == 401


def test_streams_of_one_token_are_bounded_and_a_closed_one_is_given_back() -> None:
    access = Access(tokens(), streams=OpenByToken(2))
    with serving(access) as connect:
        ask, open_ones = STREAM.format(token_of("reader")).encode(), [connect(), connect()]
        for each in open_ones:
            each.sendall(ask)
            assert b"200 OK" in until(each, b":\n\n")
        refused = answer(connect(), ask)
        assert status(refused) == 429
        assert json.loads(refused.partition(b"\r\n\r\n")[2])["title"] == "Too Many Requests"
        assert status(answer(connect(), OK)) == 200
        other = connect()
        other.sendall(STREAM.format(token_of("operator")).encode())
        assert b"200 OK" in until(other, b":\n\n")
        open_ones.pop().close()
        limit = time.monotonic() + SECONDS
        while len(access.streams._open) > 2 and time.monotonic() < limit:
            time.sleep(0.05)
        again = connect()
        again.sendall(ask)
        assert b"200 OK" in until(again, b":\n\n")


def test_a_client_that_takes_nothing_is_closed(hasty: None) -> None:
    with serving() as connect:
        client = connect()
        client.sendall(STREAM.format(token_of("reader")).replace("/v1/events", "/v1/flood").encode())
        time.sleep(1.0)
        last = b""
        while part := _received(client):
            last = part
        assert not last.endswith(b"0\r\n\r\n"), "the answer is not complete"
