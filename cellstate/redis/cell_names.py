"""The cells of a store: a set on one server; on a Cluster, which has no key on all nodes, those on each primary."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import redis

from omega.cellstate import keys
from omega.cellstate.addresses import Node, safe_url
from omega.cellstate.connections import slot_of
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


def answering(client: "redis.Redis", url: str = "") -> tuple[list[str], dict[str, str]]:
    """Return the cells on the primaries that answer, and by ``HOST:PORT`` the errors of the others of a Cluster.

    Raises as `cells` when no primary answers.
    """
    try:
        servers = primaries(client)
    except (redis.RedisError, OSError) as error:
        raise translate(error, url) from error
    if servers is None:
        return cells(client, url), {}
    names, wrong = set[bytes](), dict[str, str]()
    for each in servers:
        try:
            names.update(_on_all(iter((each,))))
        except (redis.RedisError, OSError) as error:
            host, port = _node(each)
            wrong[f"{host}:{port}"] = str(translate(error, ""))
    return sorted(name.decode() for name in names), wrong


@dataclass(frozen=True, slots=True)
class Shards:
    """The primaries of a Cluster: the slots that each holds, and its cells."""

    spans: Sequence[tuple[int, int, Node]]
    cells: Mapping[Node, Sequence[str]]

    def of(self, name: str) -> Node | None:
        """Return the primary on which a cell of this name lies; None while its slot has none."""
        slot = slot_of(keys.prefix(name))
        return next((node for first, last, node in self.spans if first <= slot <= last), None)

    def load(self, name: str) -> tuple[int, int]:
        """Return how many other cells lie on the primary of this name, and on the one with the fewest."""
        there = {node: [each for each in cells if each != name] for node, cells in self.cells.items()}
        own = self.of(name)
        return len(there[own]) if own in there else 0, min(map(len, there.values()), default=0)


def shards(client: "redis.Redis", url: str = "") -> Shards | None:
    """Return the primaries of a Cluster with their cells; None for another store. Raises as `cells`."""
    try:
        servers = primaries(client)
        if servers is None:
            return None
        names = {_node(each): sorted(name.decode() for name in _on_all(iter((each,)))) for each in servers}
        return Shards(client.connection_pool.located.primary.spans(), names)  # type: ignore[attr-defined]
    except (redis.RedisError, OSError) as error:
        raise translate(error, url) from error


def _node(client: "redis.Redis") -> Node:
    options = client.connection_pool.connection_kwargs
    return str(options["host"]), int(options["port"])


def _on_all(servers: Iterator["redis.Redis"]) -> Iterator[bytes]:
    """Yield the names of the cells on each primary."""
    before, after = keys.prefix("*").split("*")
    for server in servers:
        with server:
            for key in server.scan_iter(match=f"{before}*{after}meta", count=1_000, _type="hash"):
                yield key[len(before) : -len(f"{after}meta")]
