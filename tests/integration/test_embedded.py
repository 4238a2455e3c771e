"""The embedded store with its real server: one for all, found again after a crash, stopped with its data."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import redis

from omega.cellstate import server
from omega.cellstate.errors import ReadOnly, StoreError, StoreFull, Unreachable, Unsuitable
from omega.cellstate.model import MachineSpec
from omega.cellstate.redis import RedisCell
from omega.cellstate.server import Answer
from omega.embedded import server as embedded
from omega.embedded.places import Places
from omega.embedded.program import find_server
from tests.integration.stage import until

ROOT = Path(__file__).parents[2]
Connect = Callable[..., Any]
pytestmark = pytest.mark.server


def await_end(places: Places) -> None:
    """Wait until no server holds the lock."""
    with places.lock.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)


def kill(pid: int, places: Places) -> None:
    """End the server at once, as a crash would."""
    os.kill(pid, signal.SIGKILL)
    await_end(places)


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> Iterator[Places]:
    """The places of a store of the test's own; whatever it started is ended."""
    top = Path(tempfile.mkdtemp(prefix="omega-test-"))
    monkeypatch.setenv("OMEGA_STATE", str(top / "state"))
    yield Places((top / "state").resolve())
    for lock in top.rglob("store.lock"):
        found = Places(lock.parent.resolve())
        with lock.open("w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                kill(int(found.pid.read_text()), found)
        if found.socket.parent != found.state:
            shutil.rmtree(found.socket.parent)
    shutil.rmtree(top)


@pytest.fixture
def connect() -> Iterator[Connect]:
    """`server.connect`, whose clients are closed with the test."""
    with ExitStack() as clients:
        yield lambda url: clients.enter_context(server.connect(url))


def test_a_store_is_started_once_and_described(places: Places, connect: Connect) -> None:
    first, second = embedded.ensure(), embedded.ensure()
    assert (first.started, second.started) == (True, False)
    assert first.pid == second.pid
    assert first.url == embedded.default_url()
    status = embedded.status()
    assert (status.running, status.loading, status.pid) == (True, False, first.pid)
    assert (status.directory, status.server) == (places.state, find_server().path)
    assert status.version == first.version
    assert "append-only" in status.persistence
    assert status.memory_bytes is not None
    assert status.memory_bytes > 0
    assert status.uptime_seconds is not None
    info = server.server_info(first.url)
    assert (info.append_only, info.maxmemory_policy, info.role) == (True, "noeviction", "master")
    client = connect(first.url)
    assert client.config_get("save", "port", "appendfsync") == {"save": "", "port": "0", "appendfsync": "everysec"}
    assert places.socket.stat().st_mode & 0o077 == 0


def test_many_commands_at_once_start_one_server(places: Places) -> None:
    code = "import sys; from omega.embedded import server; input(); s = server.ensure(); print(s.pid, s.started)"
    command = [sys.executable, "-c", code]
    starters = [
        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    for starter in starters:  # all have been created; let them go together
        assert starter.stdin is not None
        starter.stdin.write("\n")
        starter.stdin.flush()
    said = [starter.communicate(timeout=60)[0].split() for starter in starters]
    assert len({pid for pid, _ in said}) == 1
    assert sorted(started for _, started in said) == ["False", "False", "False", "True"]
    assert places.log.read_text().count("Ready to accept connections") == 1
    assert embedded.ensure().pid == int(said[0][0]), "it outlives the commands that started it"


def test_a_crash_loses_nothing_that_was_written(places: Places, connect: Connect) -> None:
    first = embedded.ensure()
    client = connect(first.url)
    client.set("a", "kept")
    kill(first.pid, places)
    assert places.socket.exists(), "a crash leaves its socket behind"
    assert not embedded.status().running
    again = embedded.ensure()
    assert again.started
    assert again.pid != first.pid
    assert client.get("a") == b"kept", "the same client finds the new server"


def test_a_torn_last_write_does_not_keep_the_store_from_starting(places: Places, connect: Connect) -> None:
    first = embedded.ensure()
    client = connect(first.url)
    client.set("a", "kept")
    client.set("b", "torn")
    log = max(places.data.rglob("*.aof"), key=lambda file: file.stat().st_size)
    until(lambda: log.read_bytes().endswith(b"torn\r\n"), "both written: a flush in progress puts a write off")
    kill(first.pid, places)
    os.truncate(log, log.stat().st_size - 3)
    assert embedded.ensure().started
    assert (client.get("a"), client.get("b")) == (b"kept", None)


@pytest.mark.parametrize(
    "end",
    [
        b"\0" * 600,
        b"*3\r\n$3\r\nSET\r\n$1\r\nc" + b"\xff" * 600,
        b"*1\r\n$5\r\nMULTI\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\nx\r\n" + b"\0" * 600,
        b"nonsense",
    ],
    ids=["zeros", "a torn command", "a torn transaction", "text"],
)
def test_a_damaged_end_is_cut_and_said(places: Places, connect: Connect, end: bytes) -> None:
    first = embedded.ensure()
    client = connect(first.url)
    cell = RedisCell.create(client, "prod")
    cell.machines.join("e", [MachineSpec("m", (4000, 4096))], 0)
    client.set("a", "kept")
    log = max(places.data.rglob("*.aof"), key=lambda file: file.stat().st_size)
    until(lambda: log.read_bytes().endswith(b"kept\r\n"), "all is written")
    kill(first.pid, places)
    whole, version = log.read_bytes(), 0
    log.write_bytes(whole + end)
    again = embedded.ensure()
    assert again.started
    assert client.get("a") == b"kept"
    version = cell.counters()["version"]
    assert again.repaired.startswith(
        f"the last {len(end)} bytes of {log.name} were damaged and are cut (cells continue: "
    )
    assert f"prod at version {version}; later changes are lost" in again.repaired
    (copy,) = places.data.rglob("*.damaged")
    assert copy.read_bytes() == whole + end
    assert again.repaired in places.log.read_text()
    assert embedded.ensure().repaired == ""


def test_files_that_cannot_be_read_are_named(places: Places, connect: Connect) -> None:
    first = embedded.ensure()
    connect(first.url).set("a", "b")
    kill(first.pid, places)
    log = max(places.data.rglob("*.aof"), key=lambda file: file.stat().st_size)
    log.write_bytes(b"nonsense\r\n" + log.read_bytes())
    with pytest.raises(StoreError, match=rf"ended while starting: Bad file format.*\(see {places.log}\)$"):
        embedded.ensure()


def test_stop_keeps_the_data_and_may_be_repeated(places: Places, connect: Connect) -> None:
    client = connect(embedded.ensure().url)
    client.set("a", "kept")
    assert embedded.stop() is True
    assert embedded.stop() is False
    assert not places.socket.exists()
    assert not embedded.status().running
    assert embedded.ensure().started
    assert client.get("a") == b"kept"


def test_a_path_too_long_for_a_socket_works(places: Places, connect: Connect) -> None:
    long = places.state.parent / ("x" * 120)
    store = embedded.ensure(long)
    assert store.directory == long
    assert str(long) not in store.url
    assert connect(store.url).set("a", "b")
    assert embedded.status(long).pid == store.pid
    assert not embedded.ensure(long).started
    assert embedded.stop(long) is True


@pytest.fixture
def answers(
    places: Places, connect: Connect, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> list[Answer]:
    """A stopped store that will read 3,000 keys, each in so many µs; the list collects what PING is answered."""
    client = connect(embedded.ensure().url)
    client.mset({f"k{i}": "x" * 100 for i in range(3000)})
    client.bgrewriteaof()
    while client.info("persistence")["aof_rewrite_in_progress"]:
        time.sleep(0.01)
    embedded.stop()
    options, ping, answers = embedded._options, server.ping, []
    slow = {"key-load-delay": str(request.param), "loading-process-events-interval-bytes": "1024"}

    def heard(url: str, *, timeout: float) -> Answer:
        answers.append(ping(url, timeout=timeout))
        return answers[-1]

    monkeypatch.setattr(embedded, "_options", lambda where: options(where) | slow)
    monkeypatch.setattr("omega.embedded.server.server.ping", heard)
    return answers


@pytest.mark.parametrize("answers", [300], indirect=True)
def test_a_store_that_reads_its_data_is_waited_for(answers: list[Answer], connect: Connect) -> None:
    store = embedded.ensure()
    assert Answer.LOADING in answers
    assert answers[-1] is Answer.READY
    assert connect(store.url).dbsize() == 3000


@pytest.mark.parametrize("answers", [2_000], indirect=True)
@pytest.mark.chaos
def test_waiting_for_the_data_has_a_limit_and_can_be_stopped(answers: list[Answer]) -> None:
    with pytest.raises(Unreachable, match=r"still reads its data after 1\.5 s; try again"):
        embedded.ensure(timeout=1.5)
    assert embedded.status().loading
    assert embedded.stop() is True
    assert Answer.READY not in answers


def test_a_server_that_hangs_is_not_doubled(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "_PING_SECONDS", 0.1)
    store = embedded.ensure()
    os.kill(store.pid, signal.SIGSTOP)
    for act in (lambda: embedded.ensure(timeout=0.1), embedded.status, lambda: embedded.stop(timeout=0.1)):
        with pytest.raises(Unreachable, match=f"runs as process {store.pid} but did not answer"):
            act()
    os.kill(store.pid, signal.SIGCONT)
    assert embedded.ensure().pid == store.pid
    assert places.log.read_text().count("Ready to accept connections") == 1


@pytest.mark.usefixtures("places")
def test_a_store_that_was_set_to_evict_is_refused(connect: Connect) -> None:
    client = connect(embedded.ensure().url)
    client.config_set("maxmemory-policy", "allkeys-lru")
    with pytest.raises(Unsuitable, match="maxmemory-policy allkeys-lru"):
        embedded.ensure()
    assert embedded.stop() is True


@pytest.mark.usefixtures("places")
@pytest.mark.parametrize(
    ("setting", "value", "kind"),
    [("maxmemory", "1", StoreFull), ("replicaof", "127.0.0.1 1", ReadOnly), ("min-replicas-to-write", "1", ReadOnly)],
)
@pytest.mark.parametrize("protocol", [2, 3])
def test_refusals_of_a_real_server_are_understood(
    setting: str, value: str, kind: type[StoreError], protocol: int, connect: Connect
) -> None:
    url = embedded.ensure().url
    client = connect(f"{url}?protocol={protocol}")
    if setting == "replicaof":
        client.replicaof(*value.split())
    else:
        client.config_set(setting, value)
    ways: list[Callable[[], object]] = [
        lambda: client.set("a", "b"),
        lambda: client.eval("return redis.call('SET', KEYS[1], 'b')", 1, "a"),
        lambda: client.pipeline(transaction=False).set("a", "b").get("a").execute(),
    ]
    for write in ways:
        with pytest.raises(redis.RedisError) as caught:
            write()
        assert type(server.translate(caught.value, url)) is kind
