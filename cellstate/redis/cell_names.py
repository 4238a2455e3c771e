"""The cells of a store: a set on one server; on a Cluster, which has no key on all nodes, those on each primary."""

from collections.abc import Iterator
from typing import Any

import redis

from omega.cellstate import keys
from omega.cellstate.addresses import safe_url
from omega.cellstate.errors import Forbidden
from omega.cellstate.server import primaries, translate


def register(client: "redis.Redis", name: str) -> None:
    """Add a cell to the list of a server; on a Cluster its counters are its entry."""
    if primaries(client) is None:
        client.sadd(keys.CELLS, name)


def forget(client: "redis.Redis", name: str) -> None:
    """Remove a cell from the list of a server."""
    if primaries(client) is None:
        client.srem(keys.CELLS, name)


def cells(client: "redis.Redis", url: str = "") -> list[str]:
    """Return the names of the cells on the store at `url`. Raises Forbidden for a user who may not list them."""
    try:
        servers = primaries(client)
        names: Any = client.smembers(keys.CELLS) if servers is None else set(_on_all(servers))
    except (redis.RedisError, OSError) as error:
        translated = translate(error, url)
        if isinstance(translated, Forbidden):
            where = f"the store at {safe_url(url)}"
            raise Forbidden(f"{where} lists its cells for readers and persons only; name yours with --cell") from error
        raise translated from error
    return sorted(name.decode() for name in names)


def _on_all(servers: Iterator["redis.Redis"]) -> Iterator[bytes]:
    """Yield the names of the cells on each primary."""
    before, after = keys.prefix("*").split("*")
    for server in servers:
        with server:
            for key in server.scan_iter(match=f"{before}*{after}meta", count=1_000, _type="hash"):
                yield key[len(before) : -len(f"{after}meta")]
