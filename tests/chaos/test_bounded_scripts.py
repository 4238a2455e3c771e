"""S03: no command occupies the server for long, however many jobs there are: JOBS of them, 200,000 by default."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest

from omega.cellstate.audit import verify
from omega.cellstate.backup import read_backup
from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.server import connect
from tests.integration.stage import own_server

pytestmark = [pytest.mark.server, pytest.mark.chaos]
JOBS = int(os.environ.get("JOBS", "200000"))
MOST_MS = 100
QUEUE_MS = 150 * JOBS / 2 / 100_000
"""Backup and verify read a queue in one call, to have it at one moment: so long for the jobs that wait here."""
AT_ONCE = 500


@pytest.fixture(scope="module")
def crowded() -> Iterator[RedisCell]:
    """Half of the jobs wait, half of them have ended."""
    with own_server() as server, connect(server.url) as client:
        cell = RedisCell.create(client, f"crowded-{uuid4().hex[:6]}", keep_jobs=JOBS)
        cell.register_executor("e0", "n", 3_600_000, 0)
        cell.join("e0", [MachineSpec(f"m{i}", (1_000, 1_000)) for i in range(100)], 0)
        for start in range(0, JOBS, AT_ONCE):
            numbers = range(start, min(JOBS, start + AT_ONCE))
            jobs = [JobSpec(f"j{i}", f"j{i}", "batch", (TaskGroup((1, 1), 10),), i % 5) for i in numbers]
            cell.submit(jobs, 0, "ada")
            for i in numbers[::2]:
                cell.stop(f"j{i}", 0, "ada")
        yield cell


COMMANDS: dict[str, Callable[[RedisCell], object]] = {
    "all jobs": lambda cell: cell.jobs(),
    "heads of all jobs": lambda cell: cell.job_heads(),
    "verify": verify,
    "backup": lambda cell: read_backup(cell, int(time.time() * 1000)),
    "retire": lambda cell: cell.retire(int(time.time() * 1000)),
    "housekeep": lambda cell: cell.housekeep(int(time.time() * 1000), "batch/0"),
    "facts": lambda cell: cell.facts(0, 5_000),
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
    assert slowest <= max(MOST_MS, QUEUE_MS if name in ("verify", "backup") else 0), command
