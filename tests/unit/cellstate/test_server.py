"""URLs, answers, suitability and errors of a server, without a real one."""

from dataclasses import replace

import pytest
import redis
from hypothesis import given, strategies as st

from omega.cellstate import server
from omega.cellstate.addresses import safe_url
from omega.cellstate.errors import BadInput, Forbidden, ReadOnly, StoreError, StoreFull, Unreachable, Unsuitable
from omega.cellstate.refused_writes import why_writes_are_refused
from omega.cellstate.server import Answer, ServerInfo, translate
from tests.answering import answering

URL = "redis://user:secret@m1:6379/0"
INFO = ServerInfo(
    url="redis://m1:6379",
    product="valkey",
    version="9.1.2",
    redis_compatible_version=(7, 2, 4),
    uptime_seconds=1,
    used_memory_bytes=1,
    maxmemory_policy="noeviction",
    role="master",
    loading=False,
    pid=1,
    append_only=True,
    executable="/bin/valkey-server",
    allocator="libc",
    script_bytes=1,
    refuses="",
    scripts_fill="",
)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://m1:6379/0", "redis://m1:6379/0"),
        ("redis://user:secret@m1:6379/0", "redis://user:***@m1:6379/0"),
        ("rediss://:secret@m1", "rediss://:***@m1"),
        ("redis://secret@m1", "redis://***@m1"),
        ("redis://:secret", "redis://:***"),
        ("redis://[::1]:6379", "redis://[::1]:6379"),
        ("redis://m1?password=secret", "redis://m1?***"),
        ("redis://m1?db=3", "redis://m1?db=3"),
        ("redis://:a?secret@m1", "redis://***"),
        ("unix:///run/a@b.sock?db=2", "unix:///run/a@b.sock?db=2"),
        ("unix://user:secret@/run/s.sock", "unix://user:***@/run/s.sock"),
        ("m1:6379", "m1:6379"),
        ("user:secret@m1:6379", "user:***@m1:6379"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert safe_url(url) == shown


@given(st.lists(st.sampled_from(["SECRET", "/", "?", "#", "@", ":", "&", "=", "%", "://", "[", " ", "\n"])))
def test_no_message_shows_a_password_however_badly_it_is_escaped(pieces: list[str]) -> None:
    url = f"redis://user:SECRET{''.join(pieces)}@m1:6379/0"
    said = [safe_url(url), str(translate(redis.AuthenticationError("invalid"), url))]
    try:
        server.connect(url)
    except BadInput as error:
        said.append(str(error))
    assert all("SECRET" not in text and "\n" not in text for text in said)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("", "not a URL of a store"),
        ("m1:6379", "not a URL of a store"),
        ("http://m1", "not a URL of a store"),
        ("REDIS://m1", "not a URL of a store"),
        ("redis://m1:port", "not a URL of a store"),
        ("redis://m1:99999", "not a URL of a store"),
        ("redis://m1..m2", "not a URL of a store"),
        ("redis://" + "m" * 64, "not a URL of a store"),
        ("redis://m1/cell", "the database must be a number"),
        ("redis://m1?db=-1", "the database must be a number"),
        ("redis://:12#34@m1", "write # in a password as %23"),
        ("unix://", "the path of the socket must be absolute"),
        ("unix://run/s.sock", "the path of the socket must be absolute"),
        ("redis://m1?decode_responses=1", "an option after ? is unknown"),
        ("redis://m1?socket_timeout=soon", "an option after ? does not fit"),
        ("redis://m1?ssl_nonsense=1", "an option after ? does not fit"),
    ],
)
def test_a_url_that_names_no_store_is_refused(url: str, reason: str) -> None:
    with pytest.raises(BadInput, match=r"redis://MACHINE:PORT/DB") as caught:
        server.connect(url)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://user:a%23b@m1:7000/2", {"host": "m1", "port": 7000, "db": 2, "password": "a#b", "username": "user"}),
        ("rediss://m1", {"host": "m1"}),
        ("unix:///run/a%20b.sock?db=3", {"path": "/run/a b.sock", "db": 3}),
    ],
)
def test_the_three_kinds_of_url_are_understood(url: str, expected: dict[str, object]) -> None:
    client = server.connect(url, timeout=7.0)
    kept = client.connection_pool.connection_kwargs
    assert {name: kept.get(name) for name in expected} == expected
    assert (kept["protocol"], kept["socket_timeout"], kept["socket_connect_timeout"]) == (3, 7.0, 5.0)


def test_a_client_without_time_limit_still_limits_connecting() -> None:
    kept = server.connect("redis://m1?protocol=2", timeout=None).connection_pool.connection_kwargs
    assert (kept["protocol"], kept["socket_timeout"], kept["socket_connect_timeout"]) == (2, None, 5.0)


OOM_IN_OLD_SCRIPT = "Error running script (call to f_0a): @user_script:3: @user_script: 3: -OOM command not allowed"
PIPELINED = "Command # 2 (EVALSHA 0a 1 k READONLY secret) of pipeline caused error: MISCONF cannot save"


@pytest.mark.parametrize(
    ("error", "kind", "phrase"),
    [
        (redis.OutOfMemoryError("command not allowed"), StoreFull, "is out of memory (maxmemory reached)"),
        (redis.ResponseError(OOM_IN_OLD_SCRIPT), StoreFull, "is out of memory"),
        (redis.ReadOnlyError("You can't write"), ReadOnly, "is a read-only replica"),
        (redis.ResponseError("MISCONF Errors writing to the AOF file"), ReadOnly, "cannot save its data"),
        (redis.ResponseError(PIPELINED), ReadOnly, "cannot save its data"),
        (redis.ResponseError("NOREPLICAS Not enough good replicas"), ReadOnly, "too few replicas"),
        (redis.BusyLoadingError("loading"), Unreachable, "still reading its data"),
        (redis.ResponseError("BUSY Valkey is busy running a script"), Unreachable, "busy with a long script"),
        (redis.exceptions.MasterDownError("link down"), Unreachable, "lost its primary"),
        (redis.exceptions.ClusterDownError("down"), Unreachable, "a group of servers that is down"),
        (redis.exceptions.MovedError("12 m2:6379"), Unsuitable, "is a node of a Cluster"),
        (redis.ResponseError("DB index is out of range"), Unsuitable, "has no database of this number"),
        (redis.ResponseError("SELECT is not allowed in cluster mode"), Unsuitable, "a Cluster has database 0 only"),
        (redis.exceptions.ClusterCrossSlotError("keys"), Unsuitable, "is a node of a Cluster"),
        (redis.AuthenticationError("invalid username-password pair"), StoreError, "refuses the login"),
        (redis.exceptions.NoPermissionError("User x"), Forbidden, "does not permit this"),
        (redis.ResponseError("unknown command `HELLO`, with args beginning with: `3`"), Unsuitable, "is too old"),
        (redis.ConnectionError("max number of clients reached"), Unreachable, "takes no more connections"),
        (redis.TimeoutError("Timeout reading from socket"), Unreachable, "did not answer in time"),
        (TimeoutError("timed out"), Unreachable, "did not answer in time"),
        (redis.ConnectionError("Connection closed by server."), Unreachable, ": Connection closed by server;"),
        (ConnectionRefusedError(111, "Connection refused"), Unreachable, ": Connection refused;"),
        (redis.ResponseError("wrong number\nof arguments"), StoreError, "answered 'wrong number of arguments'"),
    ],
)
def test_every_error_of_the_server_becomes_one_clear_line(
    error: redis.RedisError | OSError, kind: type[StoreError], phrase: str
) -> None:
    translated = translate(error, URL)
    assert type(translated) is kind
    text = str(translated)
    assert "the store at redis://user:***@m1:6379/0" in text
    assert phrase in text
    assert ";" in text, "says what to do"
    assert "\n" not in text
    assert "secret" not in text


def test_the_reason_of_a_failed_connection_is_named() -> None:
    with pytest.raises(Unreachable, match=r"no answer from the store at unix:///nowhere/s.sock: No such file"):
        server.server_info("unix:///nowhere/s.sock")


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        (b"+PONG\r\n", Answer.READY),
        (b"-LOADING the dataset\r\n", Answer.LOADING),
        (b"-BUSY running a script\r\n", Answer.BUSY),
        (b"-ERR max number of clients reached\r\n", Answer.BUSY),
        (b"-MISCONF cannot save\r\n", Answer.READY),
        (b"", Answer.BUSY),
    ],
)
def test_ping_tells_a_server_that_is_busy_from_none(reply: bytes, answer: Answer) -> None:
    with answering(lambda: reply) as url:
        assert server.ping(url, timeout=0.2 if not reply else 5.0) is answer
    assert server.ping(url) is Answer.ABSENT


def test_ping_says_when_the_login_is_refused() -> None:
    with (
        answering(lambda: b"-NOAUTH Authentication required.\r\n") as url,
        pytest.raises(StoreError, match="refuses the login"),
    ):
        server.ping(url)


def test_a_server_from_before_the_third_protocol_is_called_too_old() -> None:
    with answering(lambda: b"-ERR unknown command `HELLO`, with args beginning with: `3`\r\n") as url:
        client = server.connect(url)
        with pytest.raises(redis.RedisError) as caught:
            client.ping()
        assert isinstance(translate(caught.value, url), Unsuitable)


@pytest.mark.parametrize("version", [(6, 2, 0), (7, 2, 4), (8, 0, 1), (10, 0, 0)])
def test_a_recent_server_that_never_evicts_is_suitable(version: tuple[int, ...]) -> None:
    server.check_suitable(replace(INFO, redis_compatible_version=version))


@pytest.mark.parametrize("version", [(), (0,), (5, 0, 14), (6, 0, 16)])
def test_a_server_older_than_6_2_is_refused(version: tuple[int, ...]) -> None:
    old = replace(INFO, product="redis", version="6.0.16", redis_compatible_version=version)
    with pytest.raises(Unsuitable, match=r"redis://m1:6379 is redis 6.0.16, too old; use Redis 6.2 or newer"):
        server.check_suitable(old)


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
def test_a_server_that_may_evict_the_cell_is_refused(policy: str) -> None:
    with pytest.raises(Unsuitable, match=f"maxmemory-policy {policy}.*CONFIG SET maxmemory-policy noeviction"):
        server.check_suitable(replace(INFO, maxmemory_policy=policy))


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({}, ""),
        ({"maxmemory": 10, "used_memory": 9}, ""),
        ({"maxmemory": 2 << 20, "used_memory": 3 << 20}, "its memory is full (3 of 2 MiB); raise its maxmemory or"),
        (
            {"maxmemory": 1, "used_memory": 1, "used_memory_scripts": 300 << 20, "number_of_cached_scripts": 7},
            "its memory is full (0 of 0 MiB); 7 scripts take 300 MiB; SCRIPT FLUSH on the server frees them",
        ),
        ({"aof_last_write_status": "err"}, "it cannot write its append-only file; make room on its disk"),
        ({"rdb_last_bgsave_status": "err"}, "it cannot save its data; make room on its disk"),
        ({"min_slaves_good_slaves": 0}, "too few replicas follow it"),
        ({"min_slaves_good_slaves": 2, "min-replicas-to-write": "2"}, ""),
        ({"min_slaves_good_slaves": 2, "min-replicas-to-write": "3"}, "too few replicas follow it"),
        ({"role": "slave"}, "it is a read-only replica"),
    ],
)
def test_why_a_server_refuses_writes(facts: dict[str, object], said: str) -> None:
    assert why_writes_are_refused(facts).startswith(said)
    assert bool(why_writes_are_refused(facts)) is bool(said)
