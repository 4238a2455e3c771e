"""Requirements of the durability of a cell on its server: replicas that follow it, or files that are synced."""

from collections.abc import Mapping
from typing import Any

import redis

from omega.cellstate.durability import Durability
from omega.cellstate.errors import Refused, Unsuitable
from omega.cellstate.refused_writes import following

WANTED = {"appendonly": "yes", "appendfsync": "always", "no-appendfsync-on-rewrite": "no"}
"""Settings of a server that syncs each write before it answers; the last one also while it rewrites its file."""


def check_replicas(facts: Mapping[str, Any], cell: str, durability: Durability) -> None:
    """Raise Refused when fewer replicas than a durability requires follow a server. `facts`: its INFO."""
    count = following(facts)
    if facts.get("role", "master") == "master" and count < durability.replicas:
        raise Refused(
            f"cell {cell}: durability {durability.text} needs {durability.replicas} connected replicas, and the store "
            f"has {count}; connect more"
        )


def syncs_each_write(connection: Any) -> bool:
    """Return whether a connection's user may read how its server syncs. Raises Unsuitable when it does otherwise."""
    try:
        settings, readable = _pairs(_asked(connection, "CONFIG", "GET", "*append*")), True
    except redis.ResponseError:  # CONFIG is forbidden to this user, or renamed
        lines = _text(_asked(connection, "INFO", "persistence")).split()
        settings, readable = {"appendonly": "yes" if "aof_enabled:1" in lines else "no"}, False
    for name, value in WANTED.items():
        if settings.get(name, value) != value:
            where = getattr(connection, "path", "") or f"{connection.host}:{connection.port}"
            raise Unsuitable(
                f"the store at {where} has {name} {settings[name]}, and the cell has durability fsync; set {name} "
                f"{value} there, or see omega cell durability"
            )
    return readable


def _asked(connection: Any, *words: str) -> Any:
    connection.send_command(*words)
    return connection.read_response()


def _pairs(reply: Any) -> dict[str, str]:
    """Return settings, which a server sends as a map (RESP3) or as a list (RESP2)."""
    pairs = reply.items() if isinstance(reply, dict) else zip(reply[::2], reply[1::2], strict=True)
    return {_text(name): _text(value) for name, value in pairs}


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
