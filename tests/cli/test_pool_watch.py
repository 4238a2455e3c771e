"""`omega pool watch`: the list whenever something changes, and the figure of pools over time."""

import json
import re
from pathlib import Path

import pytest

from omega.cellstate.model import JobSpec, TaskGroup
from omega.cellstate.pools import Pool, Pools
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import CommitRequest
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Position, Transaction
from omega.queries.pool_shares import pools_json
from omega.queries.pool_watch import PoolWatch
from tests.cli.conftest import Omega, join

pytestmark = pytest.mark.server


def test_watch_draws_pools_over_time(omega: Omega, cell: RedisCell, tmp_path: Path) -> None:
    join(cell, 1)
    assert "no pools to draw" in omega.run("pool", "watch", "--for", "0", "--figures", str(tmp_path), code=1).stderr
    omega.run("pool", "set", "a")
    folder = tmp_path / "figures"
    text = omega.run("pool", "watch", "--every", "0.1", "--for", "0.25", "--figures", str(folder))
    assert re.match(r"\d\d:\d\d:\d\d\npool +weight", text.stdout)
    assert {path.name for path in folder.iterdir()} == {"pools.svg", "pools.png"}


def test_what_was_watched(cell: RedisCell) -> None:
    """Tasks of a pool that are evicted meanwhile, with the time that they had run."""
    join(cell, 1)
    cell.pools.set(Pools((Pool("a"), Pool("b"))), 0, 0, "ada")
    cell.jobs.submit([JobSpec("x", "x", "batch", (TaskGroup((1000, 64), 2),), spec={"pool": "b"})], 0, "ada")
    member = cell.schedulers.register("batch/0", "n", 60_000, 0)
    cell.schedulers.commit(CommitRequest(member, 1, [Transaction("x", (Claim(0, 0, 2),))], Position(), 3_000))
    watched = PoolWatch(cell, 10_000)
    watched.add(pools_json(cell), 10_500)
    cell.executors.end([TaskEnd(0, 1, EndKind.EVICTED, "0-1", "drain")], 13_000, "ada")
    watched.add(pools_json(cell), 14_000)
    history = watched.history()
    assert [(each.at, each.usage[0]) for each in history.samples["b"]] == [(0.5, 0.5), (4.0, 0.0)]
    assert [tuple(each) for each in history.evictions] == [(3.0, "b", 2, 20.0)]


def test_watch_prints_what_changed(omega: Omega) -> None:
    omega.run("pool", "set", "a")
    result = omega.run("--json", "pool", "watch", "--every", "0.1", "--for", "0.25")
    assert [json.loads(line)["pools"][0]["name"] for line in result.stdout.splitlines()] == ["a"]
