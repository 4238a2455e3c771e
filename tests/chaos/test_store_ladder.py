"""The ladder of faults at the store and on the way to it: agents run commands, and the book is compared with the log.

One fault each: ``make chaos ARGS='tests/chaos/test_store_ladder.py -k full_disk -s'``. ROUNDS repeats it (3).
"""

import resource
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from omega.cellstate.backup import read_backup, restore
from omega.cellstate.errors import StoreError
from omega.cellstate.model import JobSpec
from omega.cellstate.redis import RedisCell
from omega.cellstate.server import connect
from omega.live.processes.supervisor import ProcessSupervisor
from tests.chaos.book import Book, rounds
from tests.chaos.proxy import Proxy, between
from tests.integration.stage import (
    Server,
    check,
    made_cell,
    own_server,
    started_processes,
    submit_again,
    unfinished,
    until,
)

pytestmark = [pytest.mark.server, pytest.mark.chaos]
LEASE_MS = 500
"""A scheduler's; an agent's is four times as long."""
MEMBERS = ("batch/0", "batch/1", "batch/2", "agent/a", "agent/b", "agent/c")


@dataclass
class World:
    """A cell at work behind a proxy, with its store to hurt. `forgets`: the fault may take acknowledged jobs back."""

    server: Server
    proxy: Proxy
    cell: RedisCell
    group: ProcessSupervisor
    book: Book
    rng: Random
    jobs: list[JobSpec] = field(default_factory=list)
    acknowledged: list[JobSpec] = field(default_factory=list)
    unacknowledged: list[JobSpec] = field(default_factory=list)
    forgets: bool = False

    def submit(self, count: int) -> None:
        """Submit jobs of a few tasks; a store that is away acknowledges none of them."""
        wave = [
            self.book.job(f"job-{len(self.jobs) + i}", self.rng.randint(1, 3), self.rng.choice((0.1, 0.5, 3)))
            for i in range(count)
        ]
        self.jobs += wave
        try:
            self.cell.jobs.submit(wave, int(time.time() * 1000), "ada")
        except StoreError:
            self.unacknowledged += wave
        else:
            self.acknowledged += wave

    def during(self, seconds: float) -> None:
        """Let time go by while jobs come in."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.submit(1)
            time.sleep(0.3)

    @property
    def pid(self) -> int:
        assert self.server.process is not None
        return self.server.process.pid


def store_kill(world: World) -> None:
    world.server.kill()
    world.during(world.rng.choice((0.1, 3.0)))
    world.server.start()


def store_stop(world: World) -> None:
    assert world.server.process is not None
    world.server.process.send_signal(signal.SIGSTOP)
    time.sleep(world.rng.choice((0.5, 3.0)))
    world.server.process.send_signal(signal.SIGCONT)


def store_flush(world: World) -> None:
    kept = read_backup(world.cell, int(time.time() * 1000))
    with connect(world.server.url) as client:
        client.flushall()
        time.sleep(world.rng.choice((0.0, 1.0, 3.0)))
        restore(client, kept, world.cell.name, int(time.time() * 1000), "ada", url=world.server.url).close()


def older_backup(world: World) -> None:
    kept = read_backup(world.cell, int(time.time() * 1000))
    world.forgets = True
    world.during(1.5)
    with connect(world.server.url) as client:
        restore(client, kept, world.cell.name, int(time.time() * 1000), "ada", url=world.server.url).close()


def full_disk(world: World) -> None:
    """The store may write no byte more to its files, as on a disk without room."""
    sizes = [each.stat().st_size for each in world.server.directory.rglob("*.aof")]
    _, hard = resource.prlimit(world.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(world.pid, resource.RLIMIT_FSIZE, (max(sizes), hard))
    world.during(3.0)
    resource.prlimit(world.pid, resource.RLIMIT_FSIZE, (hard, hard))


def full_memory(world: World) -> None:
    with connect(world.server.url) as client:
        client.config_set("maxmemory", 1)
        world.during(3.0)
        client.config_set("maxmemory", 0)


def cuts(world: World) -> None:
    """Five losses of every connection in three seconds."""
    for _ in range(5):
        world.proxy.mode = "cut"
        time.sleep(0.15)
        world.proxy.mode = "pass"
        world.during(0.3)


def mode(name: str) -> Callable[[World], None]:
    def act(world: World) -> None:
        world.proxy.mode = name
        world.during(3.0)
        world.proxy.mode = "pass"

    return act


FAULTS = {
    "store_kill": store_kill,
    "store_stop": store_stop,
    "store_flush": store_flush,
    "older_backup": older_backup,
    "full_disk": full_disk,
    "full_memory": full_memory,
    "proxy_cut": cuts,
    "proxy_drop": mode("drop"),
    "proxy_delay": mode("delay"),
    "proxy_half_open": mode("half-open"),
}


def settle(world: World) -> None:
    """Wait until all is over; what the store took back, or never acknowledged, is submitted again."""
    if not world.forgets:
        until(lambda: all(world.cell.jobs.get(job.id) for job in world.acknowledged), "acknowledged jobs are there", 15)
    submit_again(world.cell, world.jobs)
    until(lambda: not unfinished(world.cell), "every task runs to its end")
    assert world.group.dead() == {}, {each: world.group.last_words(each) for each in world.group.dead()}


@pytest.mark.parametrize("fault", FAULTS)
def test_commands_run_once_at_a_time_whatever_happens_to_the_store(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMEGA_STATE", str(tmp_path / "state"))
    with (
        own_server("--appendonly", "yes", "--enable-debug-command", "yes") as server,
        between(server.directory / "store.sock") as proxy,
        made_cell(server.url, "ladder", keep_jobs=200_000) as cell,
        started_processes(cell, proxy.url, tmp_path / "logs", *MEMBERS, lease_ms=LEASE_MS) as group,
    ):
        world = World(server, proxy, cell, group, Book.new(tmp_path / "book"), Random(f"{fault}/ladder"))
        for _ in range(rounds()):
            world.submit(6)
            until(lambda: world.book.page(world.jobs[-1].id, 0).starts, "the last of them runs")
            FAULTS[fault](world)
            settle(world)
        account = world.book.compare(cell, world.jobs)
        tasks = sum(job.total for job in world.jobs)
        starts = sum(len(world.book.page(job.id, task).starts) for job in world.jobs for task in range(job.total))
        found = {name: len(getattr(account, name)) for name in ("overlaps", "doubled", "invented", "lost")}
        refused = f"{len(world.unacknowledged)} jobs not acknowledged"
        figures = f"{rounds()} rounds, {len(world.jobs)} jobs, {tasks} tasks, {starts} starts, {refused}, {found}"
        sys.stdout.write(f"\n{fault}: {figures}\n")
        assert account.clean, account
        check(cell)


CROWD = ("batch/0", "batch/1", "batch/2", *(f"agent/m{i}" for i in range(10)))


def test_ten_agents_take_work_again_after_five_losses_of_the_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S04: 100 jobs are queued when the connections are lost; all finish, and no process is started again."""
    monkeypatch.setenv("OMEGA_STATE", str(tmp_path / "state"))
    with (
        own_server("--appendonly", "yes") as server,
        between(server.directory / "store.sock") as proxy,
        made_cell(server.url, "crowd", keep_jobs=1_000) as cell,
        started_processes(cell, proxy.url, tmp_path / "logs", *CROWD, lease_ms=LEASE_MS) as group,
    ):
        processes = {name: process.pid for name, process in group.members.items()}
        world = World(server, proxy, cell, group, Book.new(tmp_path / "book"), Random("crowd/ladder"))
        world.submit(100)
        until(lambda: world.book.page(world.jobs[0].id, 0).starts, "the first of them runs")
        cuts(world)
        settle(world)
        assert {name: process.pid for name, process in group.members.items()} == processes
        account = world.book.compare(cell, world.jobs)
        assert account.clean, account
        check(cell)
        sys.stdout.write(f"\ncrowd: {len(world.jobs)} jobs, {sum(job.total for job in world.jobs)} tasks\n")
