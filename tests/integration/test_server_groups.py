"""Cells on a Redis Cluster, and behind Sentinels: commands and processes follow the primary."""

import re
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial

import pytest
import redis

from omega.cellstate import server
from omega.cellstate.connections import slot_of
from omega.cellstate.errors import OmegaError, Unsuitable
from omega.cellstate.keys import prefix
from omega.cellstate.model import JobSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.store import cells, connect_cell, create_cell
from omega.cellstate.verify import verify
from tests.conftest import ROOT
from tests.server_groups import Cluster, Sentinels, cluster, sentinels, until

pytestmark = pytest.mark.server
LONG_SECONDS = 60.0
"""Time-out of calls that are to end before."""


def job(name: str) -> JobSpec:
    return JobSpec(name, name, "batch", (TaskGroup((1, 1), 3),))


def created(url: str, name: str = "default") -> RedisCell:
    return create_cell(server.connect(url), name, url=url)


def listed(url: str) -> list[str]:
    client = server.connect(url)
    try:
        return cells(client, url)
    finally:
        client.close()


@pytest.fixture(scope="module")
def nodes() -> Iterator[Cluster]:
    with cluster() as running:
        yield running


@pytest.fixture
def watched() -> Iterator[Sentinels]:
    with sentinels(replicas=1) as running:
        yield running


class Submitter(threading.Thread):
    """Submits jobs one after the other until it is stopped; keeps the names of those that were acknowledged."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.cell, self.acknowledged, self.errors = connect_cell(url, "default"), list[str](), list[str]()
        self.stopped = False

    def run(self) -> None:
        number = 0
        while not self.stopped:
            number += 1
            try:
                self.cell.jobs.submit([job(f"n{number}")], 0, "me")
            except OmegaError as error:
                self.errors.append(str(error))
            else:
                self.acknowledged.append(f"n{number}")
            time.sleep(0.001)

    def has(self, number: int) -> bool:
        """Return whether so many jobs were acknowledged."""
        return len(self.acknowledged) > number

    def close(self) -> None:
        self.stopped = True
        self.join()
        self.cell.close()


def test_cells_spread_over_the_nodes_of_a_cluster(nodes: Cluster) -> None:
    names = [f"spread-{number}" for number in range(8)]
    for name in names:
        with closing(created(nodes.url, name)) as cell:
            cell.jobs.submit([job("j")], 0, "me")
    owners = {nodes.owner(slot_of(prefix(name))).port for name in names}
    assert len(owners) > 1
    assert set(names) <= set(listed(nodes.url))
    for name in names:
        with closing(connect_cell(nodes.url, name)) as cell:
            found = cell.jobs.get("j")
            assert found is not None
            assert found.unplaced == 3
            assert verify(cell).ok
            cell.delete()
    assert not set(names) & set(listed(nodes.url))


@pytest.mark.parametrize("atomic", [True, False], ids=["migrateslots", "setslot"])
def test_a_slot_moves_while_clients_submit(nodes: Cluster, atomic: bool) -> None:
    cell, slot = created(nodes.url), slot_of(prefix("default"))
    submitter = Submitter(nodes.url)
    submitter.start()
    try:
        for _ in range(2):
            before = nodes.owner(slot)
            after = next(each for each in nodes.servers if each is not before)
            nodes.move(slot, after, atomic=atomic)
            until(partial(submitter.has, len(submitter.acknowledged) + 20))
    finally:
        submitter.close()
    assert submitter.errors == []
    assert all(cell.jobs.get(name) is not None for name in submitter.acknowledged)
    assert verify(cell).ok
    cell.delete()
    cell.close()


def test_clients_follow_a_failover(watched: Sentinels) -> None:
    cell = created(watched.url)
    cell.jobs.submit([job("before")], 0, "me")
    until(lambda: all(each.client.exists(f"{prefix('default')}jobs") for each in watched.servers))
    old = watched.primary()
    old.kill()
    cell.jobs.submit([job("after")], 0, "me")
    assert watched.next_after(old) is not old
    assert cell.jobs.get("before") is not None
    assert cell.jobs.get("after") is not None
    assert verify(cell).ok
    cell.close()


@pytest.mark.chaos
def test_a_primary_that_lost_its_role_is_left(watched: Sentinels) -> None:
    """Nobody is killed: the old primary answers, as a replica, and would go on to serve reads."""
    cell = created(watched.url)
    old = watched.primary()
    watched.sentinels[0].client.execute_command("SENTINEL", "FAILOVER", "omega")
    watched.next_after(old)
    with closing(connect_cell(watched.url, "default")) as other:
        other.jobs.submit([job("after")], 0, "me")
    until(lambda: cell.jobs.get("after") is not None, 3.0)
    until(lambda: old.client.info("replication")["role"] == "slave")
    assert cell.jobs.get("after") is not None
    cell.close()


@pytest.mark.chaos
def test_a_silent_primary_is_left_once_another_is_named(watched: Sentinels) -> None:
    """Its connections stay open, as of a machine that lost its network; calls in flight end before their time-out."""
    cell = created(watched.url)
    old = watched.primary()
    waits = [connect_cell(watched.url, "default", timeout=LONG_SECONDS) for _ in range(2)]
    done = list[str]()

    def call(number: int) -> None:
        waits[number].jobs.submit([job(f"silent-{number}")], 0, "me")
        done.append(f"silent-{number}")

    for each in waits:
        each.jobs.get("x")  # it is connected
    old.halt()
    threads = [threading.Thread(target=call, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    until(lambda: len(done) == len(threads), LONG_SECONDS / 2)
    old.kill()
    watched.next_after(old)
    assert all(cell.jobs.get(name) is not None for name in done)
    for each in (*waits, cell):
        each.close()


@pytest.mark.chaos
def test_a_server_that_is_named_and_is_a_replica_serves_no_reads(
    watched: Sentinels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Sentinel that was cut off may name a server that follows another one by now."""
    (replica,) = watched.replicas()
    with closing(server._connect(watched.url, 3, 1.0, 0)) as client:
        located = client.connection_pool.located  # type: ignore[attr-defined]
        monkeypatch.setattr(located.primary, "find", lambda _: ("127.0.0.1", replica.port))
        with pytest.raises(redis.ConnectionError, match=r"is not the primary: it is a replica"):
            client.get("anything")


@pytest.mark.chaos
def test_sentinels_with_the_user_of_the_page() -> None:
    found = re.search(
        r"^user omega-sentinel on >PASSWORD .*$", (ROOT / "docs" / "store-addresses.md").read_text(), re.MULTILINE
    )
    assert found is not None
    lines = (
        found[0].replace("PASSWORD", "least"), "user admin on >most ~* &* +@all", "user default off",
        "sentinel sentinel-user admin", "sentinel sentinel-pass most",
    )  # fmt: skip
    with sentinels(replicas=1, of_sentinels=lines, sentinel_login=("admin", "most")) as group:
        url = f"{group.url}?sentinel_username=omega-sentinel&sentinel_password=least"
        with closing(created(url)) as cell:
            until(lambda: all(each.client.exists(f"{prefix('default')}meta") for each in group.servers))
            group.fail_over()
            cell.jobs.submit([job("after")], 0, "me")
            assert cell.jobs.get("after") is not None
        with pytest.raises(Unsuitable, match="the Sentinels refuse the login"):
            listed_once(group.url)
        with redis.Redis.from_url(f"redis://omega-sentinel:least@127.0.0.1:{group.sentinels[0].port}") as least:
            for words in (("SENTINEL", "FAILOVER", "omega"), ("SENTINEL", "REMOVE", "omega"), ("INFO",), ("SHUTDOWN",)):
                with pytest.raises(redis.exceptions.NoPermissionError):
                    least.execute_command(*words)


def listed_once(url: str) -> list[str]:
    """Return the cells of a store that is tried once."""
    with closing(server._connect(url, 3, 1.0, 0)) as client:
        return cells(client, url)
