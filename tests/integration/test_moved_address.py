"""An address that leads to another server while the old one still answers: everybody follows it."""

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import redis

from omega import Client
from omega.cellstate import connections
from omega.cellstate.redis import RedisCell
from omega.cellstate.server import connect
from tests.integration.stage import Server, own_server, simple_job, started_processes, until

pytestmark = pytest.mark.server
LEASE_MS = 8_000


@pytest.fixture
def servers() -> Iterator[tuple[Server, Server]]:
    """Two servers with a cell each; `move` lets the address of the first lead to the second."""
    with own_server() as first, own_server() as second:
        for each in (first, second):
            with connect(each.url) as client:
                RedisCell.create(client, "prod", url=each.url)
        yield first, second


def move(first: Server, second: Server) -> None:
    """The socket of the second takes the path of the first, which goes on serving those that are connected."""
    (second.directory / "store.sock").rename(first.directory / "store.sock")


@pytest.mark.chaos
def test_clients_and_roles_follow_an_address_that_leads_to_another_server(
    servers: tuple[Server, Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = servers
    monkeypatch.setenv("OMEGA_STATE", str(tmp_path / "state"))
    cell = RedisCell.connect(first.url, "prod")
    with (
        Client(first.url, "prod") as client,
        started_processes(cell, first.url, tmp_path, "batch/0", "agent/h1", lease_ms=LEASE_MS),
    ):
        assert client.jobs()["jobs"] == []
        old = redis.Redis(unix_socket_path=str(first.directory / "store.sock"))
        assert old.ping()
        move(first, second)
        moved, seen = time.monotonic(), RedisCell.connect(first.url, "prod")
        assert old.hlen("omega:1:{prod}:schedulers") == 1, "the old server still answers"

        def registered() -> bool:
            with suppress(redis.RedisError):
                return bool(seen.schedulers.members()) and bool(seen.executors.agents())
            return False

        until(registered, "both roles registered with the other server")
        assert time.monotonic() - moved < 2 * LEASE_MS / 1000
        seen.jobs.submit([simple_job("there")], 0, "ada")
        with connect(first.url) as there:
            assert there.info("server")["process_id"] == _pid(second)
        limit = 2 * connections.LONGEST_SECONDS
        until(lambda: client.jobs()["jobs"], "an idle client asks the other server", limit)
        assert old.hlen("omega:1:{prod}:jobs") == 0, "the job is not on the old one"
        assert cell.client.info("server")["process_id"] == _pid(second)
        seen.close()
        old.close()
    cell.close()


def _pid(server: Server) -> int:
    assert server.process is not None
    return server.process.pid


def test_a_connection_is_opened_anew_within_ten_seconds() -> None:
    assert 2 * connections.LONGEST_SECONDS <= 10, "everybody else within twice this time"


def test_an_idle_client_notices_within_that_time(
    servers: tuple[Server, Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = servers
    monkeypatch.setattr("omega.cellstate.connections.LONGEST_SECONDS", 0.5)
    client = connect(first.url)
    pid = client.info("server")["process_id"]
    move(first, second)
    assert client.info("server")["process_id"] == pid, "at once the connection is still the old one"
    time.sleep(0.6)
    assert client.info("server")["process_id"] == _pid(second)
    client.close()


def test_all_connections_lead_to_the_same_server_once_one_noticed(servers: tuple[Server, Server]) -> None:
    first, second = servers
    cell = RedisCell.connect(first.url, "prod")
    pool = cell.client.connection_pool
    one, other = (redis.Redis(connection_pool=pool, single_connection_client=True) for _ in range(2))
    assert one.info("server")["process_id"] == other.info("server")["process_id"] != _pid(second)
    for each in (one, other):
        each.close()
    move(first, second)
    cell.check_there()
    found = [redis.Redis(connection_pool=pool, single_connection_client=True) for _ in range(2)]
    assert [each.info("server")["process_id"] for each in found] == [_pid(second)] * 2
    for each in found:
        each.close()
    cell.close()
