"""The end of a lease, which a test does not wait for."""

from omega.cellstate.memory import MemoryCell
from omega.cellstate.redis import RedisCell


def expire(cell: MemoryCell | RedisCell, member: str) -> None:
    """End the lease of a scheduler or an agent, as the server does in time."""
    if isinstance(cell, RedisCell):
        assert cell.client.delete(f"{cell.prefix}lease:{member}") == 1
        return
    holder = cell.registered.get(member) or cell.scheduler_members[member]
    holder.lives = False
