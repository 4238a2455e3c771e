"""A cell of an older schema brought to the present one on its store.

The cell is read, upgraded as a backup is, and written beside the old keys under a name of its own; one transaction then
replaces the old keys by the new ones. Until that transaction the old keys are whole, so an interrupted migration is
simply repeated. From its beginning the schema number is the present one, so that older versions refuse the cell, and a
mark makes this version refuse it too.
"""

from typing import Any

import redis

from omega.cellstate import keys
from omega.cellstate.backup import CellReader, Told
from omega.cellstate.backup.restore import AHEAD, begin, counters, leases, write
from omega.cellstate.backup.upgrade import STEPS, upgraded
from omega.cellstate.errors import Refused, StoreError, Unsuitable
from omega.cellstate.server import translate
from omega.cellstate.store import open_cell, unread_cell

ASIDE = ".migrating"
"""What follows the cell's name in that of the keys that are written aside."""


def schema_of(client: Any, name: str) -> int:
    """Return the schema of a cell's records; of one whose migration was interrupted, the old one. 0: no such cell."""
    schema, migrating = client.hmget(keys.prefix(name) + "meta", "schema", "migrating")
    return int(migrating or schema or 0)


def migrate(
    client: "redis.Redis", name: str, at_ms: int, by: str, *, url: str = "", told: Told = lambda _: None
) -> int | None:
    """Bring a cell to the present schema; returns its old one, None when there is nothing to do.

    Raises Refused while a scheduler or an executor holds a lease, Unsuitable for a schema that has no step.
    """
    try:
        return _migrate(client, name, at_ms, by, url, told)
    except (redis.RedisError, OSError) as error:
        raise translate(error, url) from error


def _migrate(client: Any, name: str, at_ms: int, by: str, url: str, told: Told) -> int | None:
    cell = open_cell(client, name, url, any_schema=True)
    prefix, old = keys.prefix(name), schema_of(client, name)
    if old == keys.SCHEMA:
        return None
    if old not in STEPS:
        raise Unsuitable(f"cell {name}: {keys.other_schema(old, f'omega store migrate {name}')}")
    if live := sorted(key.decode().partition("}:lease:")[2] for key in _keys(client, f"{prefix}lease:")):
        raise Refused(f"cell {name}: {', '.join(live)} still at work; stop schedulers and agents, then repeat this")
    client.hset(prefix + "meta", mapping={"migrating": old, "schema": keys.SCHEMA})
    backup = CellReader(cell, told).read_still(at_ms)
    if backup is None:
        raise StoreError(f"cell {name}: modified during the migration; stop all clients, then repeat this")
    backup.schema = old
    meta = backup.small["meta"].items
    at = meta[::2].index(b"migrating")
    del meta[2 * at : 2 * at + 2]
    upgraded(backup)
    aside = unread_cell(client, name + ASIDE, cell.dimensions, url)
    aside.delete()
    write(client, aside, backup, told)
    values = counters(backup, dict.fromkeys(AHEAD, 0))
    begin(client, aside, values, at_ms, by, max(leases(backup), default=0))
    _replace(client, name, aside.name)
    return old


def _replace(client: Any, name: str, aside: str) -> None:
    """Put the new keys in the place of the old ones, and the cell's name in that of the other, all at once."""
    old, new = keys.prefix(name), keys.prefix(aside)
    with client.pipeline(transaction=True) as pipe:
        pipe.delete(*_keys(client, old))
        for key in _keys(client, new):
            pipe.rename(key, old + key.decode().removeprefix(new))
        pipe.srem(keys.CELLS, aside)
        pipe.sadd(keys.CELLS, name)
        pipe.execute()


def _keys(client: Any, prefix: str) -> list[bytes]:
    return sorted(set(client.scan_iter(match=prefix.replace("[", "\\[") + "*", count=500)))
