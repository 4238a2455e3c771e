"""A reader of the store calls the scripts of its role with arguments of its own: what a call does is bounded."""

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import uuid4

import pytest

from omega.cellstate.keys import prefix
from omega.cellstate.model import JobSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.redis.scripts import READING
from omega.cellstate.transaction import Position
from tests.integration.stage import made_cell

pytestmark = pytest.mark.server
JOBS, LOG = 300, 20_000


@pytest.fixture(scope="module")
def cell(store_url: str) -> Iterator[RedisCell]:
    """A cell with pending jobs in one lane, and a long log of a few jobs."""
    with made_cell(store_url, f"reader-{uuid4().hex[:8]}", 1) as made:
        made.jobs.submit([JobSpec(f"j{i}", f"j{i}", "batch", (TaskGroup((1, 1), 1),)) for i in range(JOBS)], 0, "ada")
        yield made


def calls(cell: RedisCell, command: str, script: str, values: Mapping[str, Any], **more: Any) -> int:
    """Return how often a script calls a command of the server."""

    def number() -> int:
        stats: Mapping[str, Any] = cell.client.info("commandstats")
        return int(stats.get(f"cmdstat_{command}", {"calls": 0})["calls"])

    before = number()
    cell.run(script, dict(values), **more)
    return number() - before


SYNC = {"dims": 2, "since": 1, "since_tag": "x", "kind": "batch", "asked": "1:0:10", "most": 10, "owned": "1" * 32}


@pytest.mark.parametrize(
    ("given", "most"),
    [
        ({}, 64),
        ({"asked": "1:0:10," * 10_000}, 64),
        ({"asked": "1:9999:10," * 10_000}, 64),
        ({"asked": ",".join(f"{lane}:0:10" for lane in range(10_000))}, 64),
        ({"owned": "1" * 1_000_000}, 64),
        ({"owned": "1" * 1_000_000, "asked": "1:9999:10," * 10_000, "most": "1e300"}, 64),
    ],
)
def test_a_sync_reads_each_lane_and_bucket_once(cell: RedisCell, given: Mapping[str, Any], most: int) -> None:
    extra = ["pending:batch"]
    assert calls(cell, "zrangebyscore", "sync", {**SYNC, **given}, extra=extra) <= most
    assert calls(cell, "hget", "sync", {**SYNC, **given}, extra=extra) <= 256


def test_a_sync_brings_a_bounded_number_of_jobs(cell: RedisCell) -> None:
    cell.jobs.submit([JobSpec(f"m{i}", f"m{i}", "many", (TaskGroup((1, 1), 1),)) for i in range(5_000)], 0, "ada")
    lane = next(number for number, (_, lane) in cell.schedulers.lanes().items() if lane.kind == "many")
    asked = {**SYNC, "kind": "many", "asked": f"{lane}:0:99999", "most": "inf"}
    reply = cell.run("sync", asked, extra=["pending:many"])
    assert (len(reply) - 8) // 4 == 4_096


def test_the_log_is_read_in_parts(cell: RedisCell) -> None:
    """Entries that name nothing new count too, so that a call ends whatever `most` is."""
    for version in range(0, LOG, 4_000):
        with cell.client.pipeline(transaction=False) as pipe:
            for number in range(version, version + 4_000):
                pipe.xadd(prefix(cell.name) + "log", {"facts": "stopped 0 0 j0"}, id=f"{10**9 + number}-0")
            pipe.execute()
    try:
        cell.client.hset(prefix(cell.name) + "meta", "version", 10**9 + LOG)
        values = {"dims": 2, "since": 0, "most": "1e300"}
        assert calls(cell, "xrange", "changed_records", values, extra=["pending:batch"]) <= 8_192 // 64 + 4
    finally:
        cell.client.delete(prefix(cell.name) + "log")


def test_positions_are_bounded(cell: RedisCell) -> None:
    words = [word for _ in range(50_000) for word in Position(1, "x" * 10)]
    assert min(calls(cell, "lindex", "agreed", {}, rest=words) for _ in range(3)) <= 16  # others use the server, too


def test_these_are_all_scripts_of_a_reader() -> None:
    assert READING == ("agreed", "changed_records", "sync")
