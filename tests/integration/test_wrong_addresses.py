"""Addresses that lead to other servers than they say: one line each, at once where waiting does not help."""

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial

import pytest

from omega.cellstate import server
from omega.cellstate.connections import slot_of
from omega.cellstate.errors import OmegaError, ReadOnly, StoreError, Unreachable, Unsuitable
from omega.cellstate.keys import prefix
from omega.cellstate.server import check_suitable, report_waits, server_info
from omega.cellstate.store import connect_cell, create_cell
from tests.cli.conftest import Omega
from tests.server_groups import Cluster, Sentinels, Server, cluster, cluster_info, sentinels, until
from tests.server_setup import Setup

pytestmark = pytest.mark.server
PASSWORD = "s3cret"  # noqa: S105


@pytest.fixture(scope="module")
def watched() -> Iterator[Sentinels]:
    with sentinels(1, Setup(password=PASSWORD)) as running:
        yield running


@pytest.fixture(scope="module")
def nodes() -> Iterator[Cluster]:
    with cluster(2) as running:
        yield running


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Waits are short; returns what is told of them."""
    told = list[str]()
    monkeypatch.setattr(server, "WAIT_SECONDS", 1.0)
    monkeypatch.setattr(server, "QUIET_SECONDS", 0.2)
    monkeypatch.setattr(server.Patience, "told", staticmethod(bool))
    report_waits(told.append)
    return told


def to(servers: list[Server], scheme: str, path: str = "") -> str:
    return f"{scheme}://:{PASSWORD}@127.0.0.1:{servers[0].port}{path}"


WRONG: dict[str, tuple[Callable[[Sentinels], str], type[StoreError], str]] = {
    "name": (lambda group: group.url.replace("/omega", "/other"), Unsuitable, "know no primary named 'other'; check"),
    "sentinels' password": (
        lambda group: group.url_of(sentinel_password="x"), Unsuitable, "the Sentinels refuse the login .*sentinel_pa"  # noqa: S106
    ),
    "no sentinels' password": (
        lambda group: group.url.partition("?")[0], Unsuitable, "the Sentinels refuse the login .*sentinel_username and"
    ),
    "servers' password": (lambda group: group.url_of(":x"), StoreError, "refuses the login; check the user and passw"),
    "server as Sentinel": (lambda group: to(group.servers, "redis+sentinel", f"/omega?sentinel_password={PASSWORD}"),
        Unsuitable, r"127.0.0.1:\d+ is no Sentinel; check the port, or write redis://"),
    "server as Cluster": (lambda group: to(group.servers, "redis+cluster"), Unsuitable, "is not part of a Cluster"),
    "Sentinel as Cluster": (lambda group: to(group.sentinels, "redis+cluster"), Unsuitable, "is not part of a Cluster"),
    "Sentinel as server": (lambda group: to(group.sentinels, "redis"), Unsuitable, r"is a Sentinel; write redis\+sent"),
    "database": (lambda group: group.url.replace("/omega", "/omega/99"), Unsuitable, "no database of this number"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.chaos
def test_what_no_waiting_changes_is_reported_at_once(
    what: str, watched: Sentinels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "WAIT_SECONDS", 30.0)
    url, kind, reason = WRONG[what]
    with pytest.raises(StoreError, match=reason) as caught:
        check_suitable(server_info(url(watched)))
    assert type(caught.value) is kind
    assert PASSWORD not in str(caught.value)


def test_a_replica_serves_reads_only(watched: Sentinels) -> None:
    with closing(create_cell(server.connect(watched.url), "prod", url=watched.url)):
        replica = next(each for each in watched.servers if each is not watched.primary())
        until(lambda: replica.client.exists(f"{prefix('prod')}meta"))
    url = f"redis://:{PASSWORD}@127.0.0.1:{replica.port}"
    with closing(connect_cell(url, "prod")) as cell:
        assert cell.jobs.all() == []
    with pytest.raises(ReadOnly, match="is a read-only replica; give the URL of its primary"):
        create_cell(server.connect(url), "other", url=url)
    assert "refuses writes: it is a read-only replica" in Omega(url, "prod").run("cell", "status").stderr


def test_without_sentinels_a_command_waits_and_says_so(watched: Sentinels, impatient: list[str]) -> None:
    for each in watched.sentinels:
        each.kill()
    try:
        with pytest.raises(
            Unreachable, match=r"no Sentinel knows a primary named 'omega' .*refused.*; start the server"
        ):
            server_info(watched.url)
        assert [each[:40] for each in impatient] == ["no Sentinel knows a primary named 'omega'"[:40]]
    finally:
        for each in watched.sentinels:
            each.start()
        until(lambda: watched.primary() is not None)
    check_suitable(server_info(watched.url))


@pytest.mark.chaos
def test_one_node_of_a_cluster_is_no_store(nodes: Cluster) -> None:
    """Its cells could move away, and the others are elsewhere."""
    url = f"redis://127.0.0.1:{nodes.servers[0].port}"
    said = Omega(url).error("cell", "create", "prod")
    assert said == f"the store at {url} is a node of a Cluster; write redis+cluster://HOST:PORT,… as its URL"
    assert "has no database of this number; a Cluster has database 0 only" in Omega(f"{url}/1").error("cell", "list")
    assert nodes.servers[0].client.dbsize() == 0


def two_cells(nodes: Cluster) -> tuple[str, str]:
    """Create two cells on different nodes."""
    names = [f"c{number}" for number in range(20)]
    first = names[0]
    second = next(each for each in names if node_of(nodes, each) is not node_of(nodes, first))
    for name in (first, second):
        create_cell(server.connect(nodes.url), name, url=nodes.url).close()
    return first, second


def node_of(nodes: Cluster, cell: str) -> Server:
    return nodes.owner(slot_of(prefix(cell)))


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("coverage", ["yes", "no"])
@pytest.mark.chaos
def test_a_slot_that_no_node_has(nodes: Cluster, coverage: str) -> None:
    """Cells of other slots work on unless the Cluster requires all slots."""
    whole, without = two_cells(nodes)
    slot, owner = slot_of(prefix(without)), node_of(nodes, without)
    for each in nodes.servers:
        each.client.config_set("cluster-require-full-coverage", coverage)
    for each in nodes.servers:
        each.client.execute_command("CLUSTER", "DELSLOTS", slot)
    try:
        until(lambda: coverage == "no" or b"cluster_state:fail" in cluster_info(nodes.servers[0]))
        with pytest.raises(Unreachable, match=f"no node holds slot {slot}"):
            connect_cell(nodes.url, without)
        if coverage == "no":
            connect_cell(nodes.url, whole).close()
        else:
            with pytest.raises(Unreachable, match=r"is not the primary: .*The cluster is down|.*CLUSTERDOWN"):
                connect_cell(nodes.url, whole)
    finally:
        owner.client.execute_command("CLUSTER", "ADDSLOTS", slot)
    until(lambda: b"cluster_state:ok" in cluster_info(nodes.servers[0]))
    for name in (whole, without):
        until(partial(gone, nodes, name))


def gone(nodes: Cluster, name: str) -> bool:
    """Delete a cell, as soon as the Cluster lets it."""
    try:
        with closing(connect_cell(nodes.url, name)) as cell:
            cell.delete()
    except OmegaError:
        return False
    return True


@pytest.mark.usefixtures("impatient")
def test_a_cell_whose_slot_is_half_moved_waits(nodes: Cluster) -> None:
    name, other = two_cells(nodes)
    slot, source, to = slot_of(prefix(name)), node_of(nodes, name), node_of(nodes, other)
    ids = {each.port: each.client.execute_command("CLUSTER", "MYID").decode() for each in nodes.servers}
    to.client.execute_command("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[source.port])
    source.client.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[to.port])
    keys = source.client.execute_command("CLUSTER", "GETKEYSINSLOT", slot, 100)
    source.client.execute_command("MIGRATE", "127.0.0.1", to.port, keys[0], 0, 5_000)
    with pytest.raises(Unreachable, match=r"is not the primary: .*; start the server"):
        connect_cell(nodes.url, name)
    nodes.move(slot, to, atomic=False)
    with closing(connect_cell(nodes.url, name)) as cell:
        assert cell.jobs.all() == []
        cell.delete()
    assert gone(nodes, other)


@pytest.mark.usefixtures("impatient")
def test_a_command_prints_that_it_waits() -> None:
    """Nothing listens there: several seconds without a line would look like a program that hangs."""
    said = Omega("redis+cluster://127.0.0.1:1,127.0.0.1:2").run("cell", "list", code=1).stderr.splitlines()
    reason = "the Cluster has no primary for it (127.0.0.1:1: Error 111 connecting to 127.0.0.1:1. Connection refused; "
    assert said[0].startswith(f"waiting for the store: {reason}127.0.0.1:2: ")
    assert said[1].startswith("error: no answer from the store at redis+cluster://127.0.0.1:1,127.0.0.1:2: the Cluster")
    assert len(said) == 2
