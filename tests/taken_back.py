"""Cells that are taken back to an earlier state, as a store without the last changes would have them."""

from collections.abc import Callable
from typing import Any

from omega.cellstate.connections import Pool
from omega.cellstate.memory import MemoryCell
from omega.cellstate.redis import RedisCell


def copied(cell: MemoryCell | RedisCell) -> Callable[[], None]:
    """Copy a cell as it is; the function takes it back to that.

    On a server it also closes every connection, as a failover does, so that each client compares what it saw.
    """
    assert isinstance(cell, RedisCell)
    client: Any = cell.client
    kept = {key: (client.dump(key), max(0, client.pttl(key))) for key in client.keys(cell.prefix + "*")}

    def restore() -> None:
        with client.pipeline(transaction=True) as pipe:  # nobody meets a cell that is not there
            pipe.delete(*client.keys(cell.prefix + "*"))
            for key, (value, ttl) in kept.items():
                pipe.restore(key, ttl, value)
            pipe.execute()
        if isinstance(client.connection_pool, Pool):
            client.client_kill_filter(_type="normal", skipme=True)

    return restore
