"""A new cell like another one, on the shard of a Redis Cluster that has the fewest cells.

The name of a cell is its hash tag, so its slot, and with it the primary, follows from the name: a cell is spread by the
choice of its name.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from omega.cellstate.errors import Refused
from omega.cellstate.server import connect
from omega.cellstate.store import cells, create_like, shards

if TYPE_CHECKING:
    from omega.cellstate.redis import RedisCell
    from omega.cellstate.redis.cell_names import Shards

MOST_NUMBER = 100_000
"""The largest number that is tried after a name."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Where a cell lies on a Cluster: its primary, other cells there, and a name on a primary with fewer."""

    primary: str
    others: int
    fewest: int
    better: str | None


def spread(found: "Shards | None", name: str) -> Spread | None:
    """Return where a cell of this name lies; None without a Cluster, or while its slot has no primary."""
    node = found.of(name) if found is not None else None
    if found is None or node is None:
        return None
    others, fewest = found.load(name)
    better = next(names_like(name, {*chain(*found.cells.values())}, found), None) if others > fewest else None
    return Spread(f"{node[0]}:{node[1]}", others, fewest, better)


def names_like(name: str, taken: Collection[str], found: "Shards | None") -> Iterator[str]:
    """Yield free names ``NAME-2``, ``NAME-3``, …: on a Cluster those on primaries with the fewest cells."""
    stem = re.sub(r"-\d+$", "", name) or name
    for number in range(2, MOST_NUMBER):
        each = f"{stem}-{number}"
        if each in taken:
            continue
        if found is not None:
            others, fewest = found.load(each)
            if others > fewest or found.of(each) is None:
                continue
        yield each


def look(url: str) -> "tuple[set[str], Shards | None]":
    """Return the names of all cells, and on a Cluster its shards."""
    client = connect(url)
    try:
        found = shards(client, url)
        return set(cells(client, url)) if found is None else {*chain(*found.cells.values())}, found
    finally:
        client.close()


def create_next(url: str, like: str, at_ms: int, by: str) -> "RedisCell":
    """Create a cell like another one under a free name, and return it.

    Another client may take a name first; then the next one is tried, on the shards as they are then.
    """
    lost = set[str]()
    while True:
        there, found = look(url)
        name = next(names_like(like, there | lost, found), None)
        if name is None:
            raise Refused(f"cell {like}: no free name {like}-N is left; name the new cell")
        try:
            cell, new = create_like(url, name, at_ms, by, like=like)
        except Refused:
            if name not in look(url)[0]:
                raise
        else:
            if new:
                return cell
            cell.close()
        lost.add(name)
