"""The loss of a task costs the same whether its group lost none before or two thousand."""

from typing import Any
from uuid import uuid4

import pytest

from cellstate.model import JobSpec, MachineSpec, TaskGroup
from cellstate.redis import RedisCell
from cellstate.server import connect
from cellstate.transaction import Claim, Ending, How, Position, Transaction

TASKS = 1_500
MOST_US = 500_000
"""What such a call took before was 15 s."""


@pytest.mark.server
def test_losses_of_one_group_do_not_look_at_one_another(store_url: str) -> None:
    client: Any = connect(store_url)
    cell = RedisCell.create(client, f"losses-{uuid4().hex[:8]}")
    try:
        cell.register_executor("e0", "nonce", 600_000, 0)
        cell.join("e0", [MachineSpec(f"w{i}", (4, 8)) for i in range(TASKS)], 0)
        cell.submit([JobSpec("wide", "wide", "batch", (TaskGroup((1, 1), TASKS),))], 0, "ada")
        member = cell.register_scheduler("batch/0", "nonce", 600_000, 0)
        claims = tuple(Claim(i, 0, 1) for i in range(TASKS))
        cell.commit(member, 1, [Transaction("wide", claims)], cell.sync(Position()).position, 0, None, (1,))
        client.config_set("slowlog-log-slower-than", MOST_US)
        client.slowlog_reset()
        endings = [Ending(i, 1 + i, How.LOST, "*", "agent") for i in range(TASKS)]
        assert sum(cell.end(endings[::-1], 1, "e0")) == TASKS
        found = cell.job("wide")
        assert found is not None
        assert (found.groups[0].delayed, client.slowlog_get()) == (TASKS, [])
    finally:
        client.config_set("slowlog-log-slower-than", 10_000)
        cell.delete()
        client.close()
