"""What each durability loses when a server is killed or a replica is promoted, for the table of docs/durability.md.

``make chaos ARGS='tests/chaos/test_losses.py -s'`` prints the counts.
"""

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from omega.cellstate import server
from omega.cellstate.durability import Durability
from omega.cellstate.errors import NotReplicated
from omega.cellstate.model import JobSpec, TaskGroup
from omega.cellstate.store import connect_cell, create_cell
from tests.conftest import socket_directory
from tests.integration.stage import own_server
from tests.server_groups import Server, free_ports, until

pytestmark = [pytest.mark.server, pytest.mark.chaos]
CALLS = 200


def submitted(url: str) -> list[str]:
    """Submit jobs one by one; return those that were acknowledged."""
    acknowledged = []
    with closing(connect_cell(url, "default")) as cell:
        for number in range(CALLS):
            try:
                cell.jobs.submit([JobSpec(f"j{number}", f"j{number}", "batch", (TaskGroup((1, 1), 1),))], 0, "me")
            except NotReplicated:
                if number > 1:
                    break  # each further one waits as long
            else:
                acknowledged.append(f"j{number}")
    return acknowledged


def lacking(url: str, acknowledged: list[str]) -> int:
    """Return how many acknowledged jobs a server lacks."""
    with closing(connect_cell(url, "default")) as cell:
        return len(acknowledged) - len(cell.jobs.by_id(acknowledged))


@pytest.mark.parametrize(
    ("name", "options", "durability", "most"),
    [
        ("no append-only file", ("--appendonly", "no"), Durability(), CALLS),
        ("everysec", ("--appendonly", "yes", "--appendfsync", "everysec"), Durability(), 0),
        ("fsync", ("--appendonly", "yes", "--appendfsync", "always"), Durability(fsync=True), 0),
    ],
)
def test_a_killed_server(name: str, options: tuple[str, ...], durability: Durability, most: int) -> None:
    """A killed process loses nothing that it wrote to a file: the operating system has it."""
    with own_server(*options) as store:
        create_cell(server.connect(store.url), "default", durability=durability, url=store.url).close()
        acknowledged = submitted(store.url)
        store.kill()
        store.start()
        create_cell(server.connect(store.url), "default", url=store.url).close()
        lost = lacking(store.url, acknowledged)
    sys.stdout.write(f"\n{name}: server killed: {lost} of {len(acknowledged)} acknowledged submissions lost\n")
    assert len(acknowledged) == CALLS
    assert lost == most


@contextmanager
def replicated() -> Iterator[tuple[Server, Server, Server]]:
    """A primary and two replicas."""
    directory, ports = socket_directory(), free_ports(3)
    memory = ("save ''", "appendonly no", "repl-diskless-sync-delay 0")
    follow = f"replicaof 127.0.0.1 {ports[0]}"
    servers = [Server(port, directory, (*memory, *([follow] if port != ports[0] else []))) for port in ports]
    try:
        for each in servers:
            each.start()
        until(lambda: servers[0].replicas_in_step == 2)
        yield servers[0], servers[1], servers[2]
    finally:
        for each in servers:
            each.kill()


@pytest.mark.parametrize(
    ("durability", "acknowledges", "certain"),
    [(Durability(), True, False), (Durability(1, 1_000), True, True), (Durability(2, 1_000), False, True)],
    ids=lambda value: value.text if isinstance(value, Durability) else "",
)
def test_a_promoted_replica(durability: Durability, acknowledges: bool, certain: bool) -> None:
    """One of two replicas loses its primary, then the primary is killed; what each replica has is what remains.

    Sentinels promote the one with the larger offset, unless they cannot reach it or its priority is lower.
    """
    with replicated() as (primary, near, behind):
        url = f"redis://127.0.0.1:{primary.port}"
        create_cell(server.connect(url), "default", durability=durability, url=url).close()
        until(lambda: behind.client.exists("omega:1:{default}:meta"))
        behind.cut_off()
        acknowledged = submitted(url)
        primary.kill()
        until(lambda: near.replication["master_link_status"] == "down")
        of_near, of_behind = (lacking(f"redis://127.0.0.1:{each.port}", acknowledged) for each in (near, behind))
    sys.stdout.write(
        f"\n{durability.text}: {len(acknowledged)} acknowledged submissions; lost with the replica that kept up: "
        f"{of_near}, with the one that was cut off: {of_behind}\n"
    )
    assert (len(acknowledged) == CALLS) == acknowledges
    assert of_behind == len(acknowledged)
    assert not (certain and of_near)
