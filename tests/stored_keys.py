"""Everything that the store holds of a cell."""

from typing import Any

from omega.cellstate.redis import RedisCell

_READ: dict[bytes, tuple[Any, ...]] = {
    b"hash": ("HGETALL",),
    b"string": ("GET",),
    b"list": ("LRANGE", 0, -1),
    b"set": ("SMEMBERS",),
    b"zset": ("ZRANGE", 0, -1, "WITHSCORES"),
    b"stream": ("XRANGE", "-", "+"),
}


def stored(cell: RedisCell) -> dict[str, Any]:
    """Return every key of a cell and what it holds."""
    client: Any = cell.client
    found = {}
    for key in sorted(client.keys(cell.prefix.replace("[", "\\[") + "*")):
        command, *rest = _READ[client.type(key)]
        found[key.decode()] = client.execute_command(command, key, *rest)
    return found
