"""A store that refuses writes: every command that describes the cell says so, with the remedy."""

import resource
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import redis

from omega.cellstate.errors import StoreError
from omega.cellstate.server import connect
from omega.cli.up import _tell_refused
from tests.cli.conftest import Omega
from tests.integration.stage import Server, made_cell, own_server, simple_job, started_processes, submit, until

pytestmark = pytest.mark.server


def full_memory(server: Server) -> None:
    with connect(server.url) as client:
        client.config_set("maxmemory", 1)


def full_disk(server: Server) -> None:
    """The store may write no byte more to its files, as on a disk without room; then somebody tries to write."""
    sizes = [each.stat().st_size for each in server.directory.rglob("*.aof")]
    assert server.process is not None
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (max(sizes), resource.RLIM_INFINITY))
    with connect(server.url) as client, suppress(redis.RedisError):
        client.set("x", "y" * 10)
        time.sleep(1.2)  # it flushes once a second
        client.set("x", "y" * 10)


def few_replicas(server: Server) -> None:
    with connect(server.url) as client:
        client.config_set("min-replicas-to-write", 1)


FAULTS: dict[str, tuple[Callable[[Server], None], str]] = {
    "memory": (full_memory, "its memory is full"),
    "disk": (full_disk, "it cannot write its append-only file; make room on its disk"),
    "replica": (few_replicas, "too few replicas follow it"),
}


@pytest.fixture
def server() -> Iterator[Server]:
    with own_server("--appendonly", "yes") as made:
        yield made


@pytest.mark.parametrize("fault", FAULTS)
def test_every_description_of_the_cell_says_that_the_store_refuses_writes(server: Server, fault: str) -> None:
    begin, reason = FAULTS[fault]
    with made_cell(server.url, "refusing") as cell:
        submit(cell, [simple_job("waits")])
        omega = Omega(server.url, cell.name)
        commands = (
            ("store", "status"),
            ("cell", "status"),
            ("top", "--once"),
            ("scheduler", "list"),
            ("job", "why", "waits"),
        )
        for words in commands:
            result = omega.run(*words)
            assert "refuses writes" not in result.stdout + result.stderr, words
        begin(server)
        with pytest.raises(StoreError):
            submit(cell, [simple_job("more")])
        for words in commands:
            result = omega.run(*words)
            assert f"The store refuses writes: {reason}" in result.stdout + result.stderr, words
            assert omega.json(*words)["refuses_writes"].startswith(reason), words
        assert _tell_refused(cell, "").startswith(reason)
        server.kill()
        server.start()


@pytest.mark.chaos
def test_metrics_have_it(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMEGA_METRICS", "0")
    with (
        made_cell(server.url, "measured") as cell,
        started_processes(cell, server.url, tmp_path, "batch/0", lease_ms=900),
    ):
        until(lambda: cell.schedulers.figures().get("batch/0", {}).get("metrics"), "its figures name the endpoint")
        url = str(cell.schedulers.figures()["batch/0"]["metrics"])

        def gauge() -> str:
            text = str(urllib.request.urlopen(url, timeout=5).read().decode())  # noqa: S310 - of this test
            return next(
                line.split()[-1] for line in text.splitlines() if line.startswith("omega_store_refuses_writes{")
            )

        assert gauge() == "0.0"
        full_memory(server)
        until(lambda: gauge() == "1.0", "the next heartbeat reads it")
        with connect(server.url) as client:
            client.config_set("maxmemory", 0)
        until(lambda: gauge() == "0.0", "and that it is over")


def test_agents_without_a_scheduler_keep_their_leases_through_a_restart(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMEGA_STATE", str(tmp_path / "state"))
    with (
        made_cell(server.url, "restarted") as cell,
        started_processes(cell, server.url, tmp_path, "agent/h1", lease_ms=2_000),
    ):
        before = cell.executors.agents()["h1"]
        for _ in range(2):
            server.kill()
            server.start()
            beat = cell.client.pttl(f"omega:1:{{{cell.name}}}:lease:agent/h1")
            until(lambda: cell.client.pttl(f"omega:1:{{{cell.name}}}:lease:agent/h1") > 7_000, "it renews its lease")
            assert int(str(beat)) < 8_001
        assert cell.executors.agents()["h1"] == before
        assert [fact.event[0] for fact in cell.log.facts() if fact.event[0] in ("lapse", "leave")] == []
