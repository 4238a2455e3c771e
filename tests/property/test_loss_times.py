"""An end costs the same whether its group lost none of its tasks before or two thousand, and wherever its tasks run."""

from collections.abc import Callable, Iterator
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

SIZES = (300, 1_500)
"""Runs of the group, each on a machine of its own."""
MOST = 12
"""How many times the processor time of the smaller group the larger may need: its calls are 5 times as long, and 25
times as much is needed where each end looks at the others' (15 s, as it was before)."""


@contextmanager
def wide(client: Any, runs: int, each: int) -> Iterator[RedisCell]:
    """A job with a run of `each` tasks on each of many machines."""
    cell = RedisCell.create(client, f"losses-{uuid4().hex[:8]}")
    try:
        cell.executors.register("e0", "nonce", 600_000, 0)
        cell.machines.join("e0", [MachineSpec(f"w{i}", (4, 8)) for i in range(runs)], 0)
        cell.jobs.submit([JobSpec("wide", "wide", "batch", (TaskGroup((0, 0), each * runs),))], 0, "ada")
        member = cell.schedulers.register("batch/0", "nonce", 600_000, 0)
        claims = tuple(Claim(i, 0, each) for i in range(runs))
        cell.schedulers.commit(
            CommitRequest(
                member, 1, [Transaction("wide", claims)], cell.schedulers.sync(Position()).position, 0, executors=(1,)
            )
        )
        yield cell
    finally:
        cell.delete()


def spent(client: Any) -> float:
    """Processor time of the server's main thread until now, in seconds."""
    info = client.info("cpu")
    return float(info["used_cpu_user_main_thread"]) + float(info["used_cpu_sys_main_thread"])


def least_ratio(store_url: str, each: int, lose: Callable[[RedisCell, int], None]) -> float:
    """How many times the processor time of the smaller group the larger needs to lose its tasks: the least of three."""
    client: Any = connect(store_url)
    try:
        took = dict.fromkeys(SIZES, float("inf"))
        for _ in range(3):
            for runs in SIZES:
                with wide(client, runs, each) as cell:
                    began = spent(client)
                    lose(cell, runs)
                    took[runs] = min(took[runs], spent(client) - began)
        return took[SIZES[1]] / took[SIZES[0]]
    finally:
        client.close()


@pytest.mark.server
@pytest.mark.parametrize("order", ["ascending", "descending", "random"])
def test_losses_of_one_group_do_not_look_at_one_another(store_url: str, order: str) -> None:
    def lose(cell: RedisCell, runs: int) -> None:
        endings = [TaskEnd(i, 1 + i, EndKind.LOST, "*", "agent") for i in range(runs)]
        if order == "random":
            Random(order).shuffle(endings)
        assert sum(cell.executors.end(endings[:: -1 if order == "descending" else 1], 1, "e0")) == runs
        found = cell.jobs.get("wide")
        assert found is not None
        assert found.groups[0].delayed == runs

    assert least_ratio(store_url, 1, lose) < MOST


@pytest.mark.server
def test_runs_in_many_chunks_end_in_any_order(store_url: str) -> None:
    """Each run stands in a chunk of its own, live and leaving; every third task of a run was lost before a resize."""

    def lose(cell: RedisCell, runs: int) -> None:
        evicted = [TaskEnd(i, 1 + i, EndKind.EVICTED, f"{256 * i + 255}", "drain") for i in range(1, runs)]
        Random("evicted").shuffle(evicted)
        assert sum(cell.executors.end(evicted, 1, "e0")) == runs - 1
        lost = [TaskEnd(i, 1 + i, EndKind.LOST, f"{256 * i + 100},{256 * i + 103}", "agent") for i in range(runs)]
        assert sum(cell.executors.end(lost, 2, "e0")) == 2 * runs
        cell.jobs.housekeep(10**9, "batch/0", 1)
        assert cell.jobs.resize("wide", {0: 256 * runs - 3 * runs}, 3, "ada").groups[0].total == 253 * runs

    assert least_ratio(store_url, 256, lose) < MOST
