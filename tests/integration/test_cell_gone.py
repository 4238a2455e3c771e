"""The store answers without the cell: flushed, deleted, empty after a restart, restored from a backup, another cell.

Everybody waits and goes on; which tasks end, and when, is a rule for each case (docs/stores.md).
"""

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from omega.cellstate import keys
from omega.cellstate.backup import Image, read_backup, restore
from omega.cellstate.errors import CellGone
from omega.cellstate.model import MachineSpec, MachineState
from omega.cellstate.redis import RedisCell
from omega.cellstate.resources import Dimensions
from omega.cellstate.server import connect
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.live.processes.supervisor import ProcessSupervisor
from tests.chaos.book import Book
from tests.integration.stage import (
    DEFAULT_EXECUTOR,
    Server,
    check,
    made_cell,
    own_server,
    simple_job,
    started_processes,
    submit,
    unfinished,
    until,
    words_of,
)

pytestmark = pytest.mark.server
LEASE_MS = 500
"""A scheduler's; an agent's is four times as long."""


def saved(cell: RedisCell) -> Image:
    return read_backup(cell, int(time.time() * 1000))


def put_back(server: Server, kept: Image, name: str) -> None:
    with connect(server.url) as client:
        restore(client, kept, name, int(time.time() * 1000), "ada", url=server.url).close()


def flush(server: Server, cell: RedisCell) -> None:
    with connect(server.url) as client:
        client.flushall()


def delete(server: Server, cell: RedisCell) -> None:
    cell.delete()


def restart_empty(server: Server, cell: RedisCell) -> None:
    server.kill()
    server.start()


def waiting(group: ProcessSupervisor, members: tuple[str, ...], times: int) -> Callable[[], bool]:
    """Whether every member has reported so many times that it waits."""
    return lambda: all(len(away(group, each)) >= times for each in members)


def away(group: ProcessSupervisor, member: str) -> list[str]:
    """What a member reported of waiting; each time once."""
    return reported(group, member)[::2]


def working(group: ProcessSupervisor, members: tuple[str, ...]) -> Callable[[], bool]:
    """Whether every member has reported that it goes on since it waited last."""
    return lambda: all(len(reported(group, each)) % 2 == 0 for each in members)


def reported(group: ProcessSupervisor, member: str) -> list[str]:
    """What a member reported in turn: that it waits, and that it goes on."""
    said = [line for line in words_of(group, member) if " away " in line or " back " in line or " goes on " in line]
    assert all((" away " in line) is (number % 2 == 0) for number, line in enumerate(said)), said
    return said


@pytest.mark.chaos
def test_who_works_on_a_cell_that_is_gone_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMEGA_STATE", str(tmp_path / "state"))
    members = ("batch/0", f"simulated/{DEFAULT_EXECUTOR}", "agent/a")
    with (
        own_server() as server,
        made_cell(server.url, "gone", 1) as cell,
        started_processes(cell, server.url, tmp_path / "logs", *members, lease_ms=LEASE_MS) as group,
    ):
        until(lambda: cell.machines.index_of("a"), "the agent has joined")
        kept = saved(cell)
        for number, lose in enumerate((flush, delete, restart_empty), start=1):
            lose(server, cell)
            until(waiting(group, members, number), "all report that they wait")
            assert cell.client.keys(keys.prefix("gone") + "*") == [], "nobody writes into a cell that is not there"
            put_back(server, kept, "gone")
            submit(cell, [simple_job(f"after-{number}", 3, ms=10)])
            until(lambda: not unfinished(cell), "work goes on")
            until(working(group, members), "all go on")
            assert group.dead() == {}
        for member in members:
            said = ("unknown cell 'gone'", "has no such cell now", "no answer")
            assert all(any(words in line for words in said) for line in away(group, member))
        check(cell)


def test_a_restored_cell_runs_no_task_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks that the backup lists go on, others end; what was placed meanwhile starts when no copy can be left."""
    monkeypatch.setenv("OMEGA_STATE", str(tmp_path / "state"))
    book = Book.new(tmp_path / "book")
    listed, pending, later = book.job("listed", 1, 5), book.job("pending", 3, 1.0), book.job("later", 2, 30)
    with (
        own_server() as server,
        made_cell(server.url, "restored") as cell,
        started_processes(
            cell, server.url, tmp_path / "logs", "batch/0", "agent/a", "agent/b", lease_ms=LEASE_MS
        ) as group,
    ):
        submit(cell, [listed])
        until(lambda: book.page("listed", 0).starts, "one runs")
        cell.jobs.submit([pending], 0, "ada", held=True)
        kept = saved(cell)
        cell.jobs.release("pending", 1, "ada")
        submit(cell, [later])
        until(lambda: all(book.page("pending", task).starts for task in range(3)), "the others run")
        until(lambda: all(book.page("later", task).starts for task in range(2)), "and those not in the backup")
        flush(server, cell)
        put_back(server, kept, "restored")
        cell.jobs.release("pending", 1, "ada")
        until(lambda: not unfinished(cell), "what the backup lists ends")
        account = book.compare(cell, [listed, pending])
        assert account.clean, account
        assert len(book.page("listed", 0).starts) == 1, "it went on"
        assert all(len(book.page("pending", task).starts) == 2 for task in range(3)), "they were run again"
        assert not any(book.page("later", task).ends for task in range(2))
        assert group.dead() == {}
        check(cell)


def test_a_cell_is_restored_while_four_clients_change_it(store_url: str) -> None:
    """What they send between the first and the last write of a restore is refused, and damages neither."""
    done, over = Counter[str](), threading.Event()

    def change(cell: RedisCell, number: int) -> None:
        calls = (
            lambda: cell.executors.end([TaskEnd(number % 300, number % 300, EndKind.FINISHED, "0")], 3, "e"),
            lambda: cell.executors.receive(1),
            lambda: cell.jobs.submit([simple_job(f"more-{number}")], 3, "ada"),
            lambda: cell.machines.set_state(number % 300, MachineState(2 * (number % 2)), 3, "ada"),
        )
        for call in calls:
            try:
                call()
                done["ok"] += 1
            except CellGone:
                done["gone"] += 1

    def hammer(own: RedisCell, first: int) -> None:
        for number in itertools.count(first):
            if over.is_set():
                return
            change(own, number)

    with made_cell(store_url, "hammered") as cell:
        cell.executors.register("e", "n", 600_000, 1)
        cell.machines.join("e", [MachineSpec(f"m{number}", (1_000, 1_000)) for number in range(300)], 1)
        cell.jobs.submit([simple_job(f"j{number}", 20) for number in range(300)], 1, "ada")
        kept = saved(cell)
        with ExitStack() as stack, ThreadPoolExecutor(4) as pool:
            clients = [stack.enter_context(connect(store_url)) for _ in range(4)]
            opened = [RedisCell.open(client, "hammered", store_url) for client in clients]
            hammers = [pool.submit(hammer, each, 1_000_000 * i) for i, each in enumerate(opened, 1)]
            try:
                for _ in range(5):
                    with connect(store_url) as client:
                        restore(client, kept, "hammered", 5, "ada", url=store_url).close()
            finally:
                over.set()
        assert [each.result() for each in hammers] == [None] * 4
        assert done["ok"] > 0
        assert done["gone"] > 0
        check(cell)


@pytest.mark.chaos
def test_tasks_of_a_cell_that_stays_away_end_with_the_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then another cell has the name: one with other resources is left alone, one like it is worked on."""
    monkeypatch.setenv("OMEGA_STATE", str(tmp_path / "state"))
    book = Book.new(tmp_path / "book")
    with (
        own_server() as server,
        made_cell(server.url, "foreign") as cell,
        started_processes(cell, server.url, tmp_path / "logs", "batch/0", "agent/a", lease_ms=LEASE_MS) as group,
    ):
        submit(cell, [book.job("old", 1, 60)])
        until(lambda: book.page("old", 0).starts, "it runs")
        (pid,) = [int(line.split()[2]) for line in (book.directory / "old.0").read_text().splitlines()]
        began = time.monotonic()
        flush(server, cell)
        until(lambda: not Path(f"/proc/{pid}").exists(), "the task ends with the lease")
        assert time.monotonic() - began < 4 * LEASE_MS / 1000 + 1.5, "the lease of the agent and some"
        until(waiting(group, ("batch/0", "agent/a"), 1), "both wait")
        with connect(server.url) as client:
            RedisCell.create(client, "foreign", Dimensions(("gpu",)), url=server.url).close()
            time.sleep(2 * LEASE_MS / 1000)
            assert client.hlen(keys.prefix("foreign") + "machines") == 0, "another cell is left alone"
            client.flushall()
            RedisCell.create(client, "foreign", url=server.url).close()
        submit(cell, [book.job("new", 2, 0.1)])
        until(lambda: cell.machines.index_of("a") is not None and not unfinished(cell), "both work on the new cell")
        assert book.compare(cell, [book.job("new", 2, 0.1)]).clean
        assert group.dead() == {}
        check(cell)
