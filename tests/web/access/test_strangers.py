"""Clients without a valid token: what they send, and the connections that they hold, on a real server."""

import os
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from omega.web import connections
from omega.web.access.admissions import Access
from omega.web.connections import MOST_CONNECTIONS, BoundedConnection, Crowd
from tests.web.access.test_connections import OK, SECONDS, answer, serving, status
from tests.web.visiting import tokens

LOGIN = b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
TLS = Path(__file__).with_name("tls")
FILES = 1_024


@pytest.fixture
def unsafe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let strangers be displaced at once."""
    monkeypatch.setattr(connections, "SAFE_SECONDS", 0.0)


@pytest.mark.parametrize("size", [5 << 10, 8 << 20])
@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_without_a_token_has_at_most_4_kib(size: int, chunked: bool) -> None:
    body = b"a=b&" * (size // 4)
    head = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % size if chunked else b"Content-Length: %d\r\n\r\n" % size
    with serving() as connect:
        client = connect()
        client.sendall(LOGIN + head)
        try:
            client.sendall(body + (b"\r\n0\r\n\r\n" if chunked else b""))
        except OSError:  # it need not be read
            return
        got = answer(client)
        assert status(got) == 413
        assert b"larger than 4 KiB" in got
        form = b"token=token-of-the-operator"
        assert status(answer(connect(), LOGIN + b"Content-Length: %d\r\n\r\n" % len(form) + form)) == 303


@pytest.mark.parametrize("path", ["/login?", "/?token=x&", "/v1/who?", "/cells/a/who?"])
def test_a_query_is_short(path: str) -> None:
    with serving() as connect:
        head = f"GET {path}{'a=b&' * 5_000} HTTP/1.1\r\nHost: localhost\r\n\r\n"
        assert status(answer(connect(), head.encode())) == 414


def test_a_head_that_arrives_at_once_is_bounded_too() -> None:
    with serving() as connect:
        assert status(answer(connect(), OK[:-2] + b"Cookie: " + b"a;" * 40_000 + b"\r\n\r\n")) == 400


def test_strangers_do_not_close_the_kept_connection_of_a_user(unsafe: None) -> None:
    with serving(most=5, strangers=5) as connect:
        kept = connect()
        assert status(answer(kept, OK)) == 200
        held = [connect() for _ in range(30)]
        time.sleep(0.2)
        assert status(answer(kept, OK)) == 200, "it is the user's own connection that was closed"
        assert len(held) == 30


@pytest.fixture
def secured() -> ssl.SSLContext:
    """TLS of a server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "certificate.pem", TLS / "key.pem")
    return context


@pytest.fixture(params=["plain", "tls"])
def crowded(request: pytest.FixtureRequest) -> Iterator[Callable[[], socket.socket]]:
    """A server of at most ten strangers, plain and with TLS; sockets of it send nothing."""
    context = request.getfixturevalue("secured") if request.param == "tls" else None
    with serving(most=5, strangers=10, context=context) as connect:
        yield connect


def talking(connect: Callable[[], socket.socket], secured: bool) -> socket.socket:
    """Return a connection that speaks, with TLS where the server does."""
    raw = connect()
    if not secured:
        return raw
    context = ssl.create_default_context(cafile=str(TLS / "certificate.pem"))
    return context.wrap_socket(raw, server_hostname="localhost")


def test_a_user_gets_in_while_strangers_hold_every_place(
    request: pytest.FixtureRequest, crowded: Callable[[], socket.socket], unsafe: None
) -> None:
    secured, held = "tls" in request.node.name, [crowded() for _ in range(60)]
    for number in range(20):
        held.append(crowded())
        client = talking(crowded, secured)
        assert status(answer(client, OK)) == 200, f"connection {number}"
        client.close()


def test_strangers_in_their_safe_time_are_not_displaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "SAFE_SECONDS", 3_600.0)
    with serving(most=5, strangers=3) as connect:
        held = [connect() for _ in range(3)]
        time.sleep(0.1)
        assert answer(connect()).startswith(b"HTTP/1.1 503 ")
        assert status(answer(held[0], OK)) == 200
        assert status(answer(connect(), OK)) == 200, "one of them is a stranger no longer"


def test_a_handshake_that_does_not_come_is_not_waited_for(
    secured: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert connections.HANDSHAKE_SECONDS == 10.0
    monkeypatch.setattr(BoundedConnection, "handshake_seconds", 0.2)
    crowd = Crowd()
    monkeypatch.setattr("tests.web.access.test_connections.Crowd", lambda *_: crowd)
    with serving(Access(tokens()), context=secured) as connect:
        assert [connect().recv(1) for _ in range(3)] == [b"", b"", b""]
        until = time.monotonic() + SECONDS
        while crowd._number and time.monotonic() < until:
            time.sleep(0.01)
        assert not crowd._number
        with talking(connect, secured=True) as client:
            assert status(answer(client, OK)) == 200


class _Known:
    """A connection that a crowd counts."""

    is_idle = True

    def __init__(self, address: str) -> None:
        self.address, self.closed = address, False

    def abort(self) -> None:
        self.closed = True


def test_the_oldest_of_the_address_with_most_strangers_goes_first() -> None:
    crowd = Crowd(5, 4)
    many, one = [_Known("192.0.2.1") for _ in range(3)], _Known("192.0.2.2")
    for at, each in enumerate([one, *many]):
        assert crowd.enter(each, float(at))  # type: ignore[arg-type]
    late = _Known("192.0.2.3")
    assert crowd.enter(late, 10.0)  # type: ignore[arg-type]
    assert [each.closed for each in (one, *many)] == [False, True, False, False]
    assert crowd.admit(many[1])  # type: ignore[arg-type]
    assert crowd.enter(_Known("192.0.2.4"), 10.0)  # type: ignore[arg-type]
    assert [each.closed for each in (one, *many, late)] == [False, True, False, False, False]
    assert crowd.enter(_Known("192.0.2.4"), 10.5)  # type: ignore[arg-type]
    assert one.closed, "of two addresses with one each, the one that is no longer safe"


@pytest.mark.parametrize("a_second", [200, 449, 1_000, 2_000, 4_000])
def test_in_a_rush_everybody_gets_a_place_for_a_while(a_second: int) -> None:
    """With 1,024 open files: nobody is answered 503, and a client has time for a handshake and a request."""
    crowd, gone = Crowd.within(FILES), dict[int, float]()

    class Stranger(_Known):
        def abort(self) -> None:
            gone[id(self)] = now

    held = list[tuple[float, Stranger]]()
    for number in range(3 * a_second):
        now = number / a_second
        held.append((now, Stranger("192.0.2.1")))
        assert crowd.enter(held[-1][1], now), f"{now:.2f} s"  # type: ignore[arg-type]
    shortest = min(gone[id(each)] - since for since, each in held if id(each) in gone)
    assert shortest >= min(1.0, 0.95 * crowd.most_strangers / a_second)


@pytest.mark.parametrize("files", [256, FILES, 4_096, 1 << 20])
def test_connections_leave_64_open_files(files: int) -> None:
    crowd = Crowd.within(files)
    left = files - crowd.most - crowd.most_strangers
    assert left == 64 if files < 2 * MOST_CONNECTIONS else left > 64
    assert min(crowd.most, crowd.most_strangers) >= min(MOST_CONNECTIONS, 60)


def test_an_address_of_ipv6_is_its_network() -> None:
    assert connections._address(("2001:db8::1", 1, 0, 0)) == connections._address(("2001:db8::ffff", 1, 0, 0))
    assert connections._address(("2001:db8::1", 1, 0, 0)) != connections._address(("2001:db8:0:1::1", 1, 0, 0))
    assert connections._address(("192.0.2.1", 1)) == "192.0.2.1"
    assert connections._address(os.fsencode("")) == ""
