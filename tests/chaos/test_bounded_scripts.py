"""S03: no command occupies the server for long, however many jobs there are: JOBS of them, 200,000 by default."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest

from omega.cellstate.backup import read_backup
from omega.cellstate.model import After, JobSpec, MachineSpec, TaskGroup
from omega.cellstate.pools import Pool, Pools
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import CommitRequest, Membership
from omega.cellstate.server import connect
from omega.cellstate.transaction import Claim, Position, Transaction
from omega.cellstate.verify import verify
from tests.integration.stage import own_server

pytestmark = [pytest.mark.server, pytest.mark.chaos]
JOBS = int(os.environ.get("JOBS", "200000"))
MOST_MS = 100
QUEUE_MS = 150 * JOBS / 2 / 100_000
"""A backup reads a queue in one call, to have it at one moment: so long for the jobs that wait here."""
AT_ONCE = 500


@pytest.fixture(scope="module")
def crowded() -> Iterator[RedisCell]:
    """Half of the jobs wait, half of them have ended."""
    with own_server() as server, connect(server.url) as client:
        cell = RedisCell.create(client, f"crowded-{uuid4().hex[:6]}", keep_jobs=JOBS)
        cell.executors.register("e0", "n", 3_600_000, 0)
        cell.machines.join("e0", [MachineSpec(f"m{i}", (1_000, 1_000)) for i in range(100)], 0)
        for start in range(0, JOBS, AT_ONCE):
            numbers = range(start, min(JOBS, start + AT_ONCE))
            jobs = [JobSpec(f"j{i}", f"j{i}", "batch", (TaskGroup((1, 1), 10),), i % 5) for i in numbers]
            cell.jobs.submit(jobs, 0, "ada")
            for i in numbers[::2]:
                cell.jobs.stop(f"j{i}", 0, "ada")
        yield cell


COMMANDS: dict[str, Callable[[RedisCell], object]] = {
    "all jobs": lambda cell: cell.jobs.all(),
    "heads of all jobs": lambda cell: cell.jobs.heads(),
    "verify": verify,
    "backup": lambda cell: read_backup(cell, int(time.time() * 1000)),
    "retire": lambda cell: cell.jobs.retire(int(time.time() * 1000)),
    "housekeep": lambda cell: cell.jobs.housekeep(int(time.time() * 1000), "batch/0"),
    "facts": lambda cell: cell.log.facts(0, 5_000),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_no_call_occupies_the_server_for_long(crowded: RedisCell, name: str) -> None:
    """By the server's own account (SLOWLOG), which leaves out the network and the client."""
    client = crowded.client
    client.config_set("slowlog-log-slower-than", 1_000)
    client.slowlog_reset()
    began = time.monotonic()
    COMMANDS[name](crowded)
    spent = time.monotonic() - began
    slow = [(entry["duration"] / 1000, bytes(entry["command"])[:60]) for entry in client.slowlog_get(128)]
    slowest, command = max(slow, default=(0.0, b""))
    sys.stdout.write(f"\n{name}: {spent:.1f} s in all, longest call {slowest:.0f} ms ({command!r})\n")
    assert slowest <= max(MOST_MS, QUEUE_MS if name == "backup" else 0), command


MANY = 20_000
"""Jobs that wait for one, lanes, and running tasks of a simulated executor, each of a job of its own."""
ONE = (TaskGroup((1, 1), 1, 1_000),)


@pytest.fixture(scope="module")
def wide() -> Iterator[RedisCell]:
    """Each job runs in a lane of its own, and one has many dependents."""
    with own_server() as server, connect(server.url) as client:
        cell = RedisCell.create(client, f"wide-{uuid4().hex[:6]}")
        cell.executors.register("e0", "n", 3_600_000, 0)
        cell.machines.join("e0", [MachineSpec(f"m{i}", (1_000, 1_000)) for i in range(2_000)], 0)
        member = cell.schedulers.register("batch/0", "n", 3_600_000, 0)
        cell.jobs.submit([JobSpec("first", "first", "batch", ONE)], 0, "ada")
        for number, start in enumerate(range(0, MANY, AT_ONCE), 1):
            ids = range(start, start + AT_ONCE)
            specs = {f"j{i}": {"user": f"u{i}", "pool": f"p{i % 200}"} for i in ids}
            cell.jobs.submit([JobSpec(name, name, "batch", ONE, spec=spec) for name, spec in specs.items()], 0, "ada")
            cell.jobs.submit([JobSpec(f"w{i}", f"w{i}", "batch", ONE, after=(After("first"),)) for i in ids], 0, "ada")
            placed = [Transaction(f"j{i}", (Claim(i % 2_000, 0, 1),)) for i in ids]
            cell.schedulers.commit(CommitRequest(member, number, placed, Position(), 0))
        yield cell


def release_all(cell: RedisCell) -> None:
    cell.jobs.stop("first", 1, "ada")
    while cell.jobs.housekeep(1, "batch/0").more:
        pass


def submit_twice(cell: RedisCell) -> None:
    for _ in range(2):
        cell.jobs.submit(
            [JobSpec("g", "g", "batch", tuple(TaskGroup((1 + i % 7, 1), 1) for i in range(5_000)))], 1, "ada"
        )


LARGE: dict[str, Callable[[RedisCell], object]] = {
    "stop what many wait for": release_all,
    "submit 5,000 groups, again": submit_twice,
    "200 limited pools": lambda cell: cell.pools.set(
        Pools(tuple(Pool(f"p{i}", limits={"tasks": 900}) for i in range(200))), None, 1, "ada"
    ),
    "lose an executor": lambda cell: cell.executors.deregister(Membership("e0", 1), 1, "ada", reaped=False),
}


@pytest.mark.parametrize("name", LARGE)
def test_calls_on_large_objects_are_short(wide: RedisCell, name: str) -> None:
    """By the mean processor time of the scripts of a call, which all do as much."""
    client: Any = wide.client

    def used() -> tuple[float, int]:
        cpu = client.info("cpu")
        calls = client.info("commandstats").get("cmdstat_evalsha", {"calls": 0})["calls"]
        return 1_000 * (cpu["used_cpu_user"] + cpu["used_cpu_sys"]), calls

    before, calls = used()
    LARGE[name](wide)
    after, last = used()
    sys.stdout.write(f"\n{name}: {last - calls} calls, {(after - before) / (last - calls):.0f} ms each\n")
    assert after - before <= MOST_MS * (last - calls)
