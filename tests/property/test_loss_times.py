"""An end costs the same whether its group lost none of its tasks before or two thousand, and wherever its tasks run."""

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any
from uuid import uuid4

import pytest

from omega.cellstate.model import JobSpec, MachineSpec, TaskGroup
from omega.cellstate.redis import RedisCell
from omega.cellstate.replies import CommitRequest
from omega.cellstate.server import connect
from omega.cellstate.tasks import EndKind, TaskEnd
from omega.cellstate.transaction import Claim, Position, Transaction

TASKS = 1_500
MOST_US = 500_000
"""What such a call took before was 15 s."""


@contextmanager
def wide(store_url: str, each: int) -> Iterator[tuple[Any, RedisCell]]:
    """A job with a run of `each` tasks on each of many machines; calls above MOST_US are in the slow log."""
    client: Any = connect(store_url)
    cell = RedisCell.create(client, f"losses-{uuid4().hex[:8]}")
    try:
        cell.register_executor("e0", "nonce", 600_000, 0)
        cell.join("e0", [MachineSpec(f"w{i}", (4, 8)) for i in range(TASKS)], 0)
        cell.submit([JobSpec("wide", "wide", "batch", (TaskGroup((0, 0), each * TASKS),))], 0, "ada")
        member = cell.register_scheduler("batch/0", "nonce", 600_000, 0)
        claims = tuple(Claim(i, 0, each) for i in range(TASKS))
        cell.commit(
            CommitRequest(member, 1, [Transaction("wide", claims)], cell.sync(Position()).position, 0, executors=(1,))
        )
        client.config_set("slowlog-log-slower-than", MOST_US)
        client.slowlog_reset()
        yield client, cell
    finally:
        client.config_set("slowlog-log-slower-than", 10_000)
        cell.delete()
        client.close()


@pytest.mark.server
@pytest.mark.parametrize("order", ["ascending", "descending", "random"])
def test_losses_of_one_group_do_not_look_at_one_another(store_url: str, order: str) -> None:
    with wide(store_url, 1) as (client, cell):
        endings = [TaskEnd(i, 1 + i, EndKind.LOST, "*", "agent") for i in range(TASKS)]
        if order == "random":
            Random(order).shuffle(endings)
        assert sum(cell.end(endings[:: -1 if order == "descending" else 1], 1, "e0")) == TASKS
        found = cell.job("wide")
        assert found is not None
        assert (found.groups[0].delayed, client.slowlog_get()) == (TASKS, [])


@pytest.mark.server
def test_runs_in_many_chunks_end_in_any_order(store_url: str) -> None:
    """Each run stands in a chunk of its own, live and leaving; every third task of a run was lost before a resize."""
    with wide(store_url, 256) as (client, cell):
        evicted = [TaskEnd(i, 1 + i, EndKind.EVICTED, f"{256 * i + 255}", "drain") for i in range(1, TASKS)]
        Random("evicted").shuffle(evicted)
        assert sum(cell.end(evicted, 1, "e0")) == TASKS - 1
        lost = [TaskEnd(i, 1 + i, EndKind.LOST, f"{256 * i + 100},{256 * i + 103}", "agent") for i in range(TASKS)]
        assert sum(cell.end(lost, 2, "e0")) == 2 * TASKS
        cell.housekeep(10**9, "batch/0", 1)
        assert cell.resize("wide", {0: 256 * TASKS - 3 * TASKS}, 3, "ada").groups[0].total == 253 * TASKS
        assert client.slowlog_get() == []
