"""A cell of an older schema brought to the present one on its store.

Permissions, records and memory are checked before the first write to the cell. The cell is read, upgraded as a backup
is, and written beside the old keys under names that no cell uses; one transaction then replaces the old keys by the new
ones. Until that transaction the old keys are whole, so an interrupted migration is simply repeated. From the first
write the schema number is the present one, so that older versions refuse the cell, and a mark makes this version refuse
it too.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import redis

from omega.cellstate import keys
from omega.cellstate.backup import CHUNK, Backup, CellReader, Told
from omega.cellstate.backup.restore import AHEAD, begin, counters, leases, write
from omega.cellstate.backup.upgrade import STEPS, upgraded
from omega.cellstate.errors import Refused, StoreError, Unsuitable
from omega.cellstate.ports import StoredCell
from omega.cellstate.redis.confirmation import confirm
from omega.cellstate.server import at_cell, translate
from omega.cellstate.store import open_cell

ASIDE = "aside:"
"""Beginning of the names, after the cell's prefix, of the keys that are written aside: no cell has such keys, and all
users with access to the cell have access to them."""
TWICE = 2
"""While both forms are stored, the records need so many times their size."""


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
        return _migrate(at_cell(client, keys.prefix(name)), name, at_ms, by, url, told)
    except (redis.RedisError, OSError) as error:
        raise translate(error, url) from error


def _migrate(client: Any, name: str, at_ms: int, by: str, url: str, told: Told) -> int | None:
    cell = open_cell(client, name, url, any_schema=True)
    prefix, old = keys.prefix(name), schema_of(client, name)
    if old == keys.SCHEMA:
        confirm(client, name, cell.durability)
        return None
    if old not in STEPS:
        raise Unsuitable(f"cell {name}: {keys.other_schema(old, f'omega store migrate {name}')}")
    if live := sorted(key.decode().partition("}:lease:")[2] for key in _keys(client, f"{prefix}lease:")):
        raise Refused(f"cell {name}: {', '.join(live)} still at work; stop schedulers and agents, then repeat this")
    _check_permissions(client, name, url)
    backup = upgraded(_read(cell, old, at_ms, told))
    _check_memory(client, name, backup)
    client.hset(prefix + "meta", mapping={"migrating": old, "schema": keys.SCHEMA})
    if int(client.hget(prefix + "meta", "version")) != backup.version:
        backup = upgraded(_read(cell, old, at_ms, told))
    _drop(client, _keys(client, prefix + ASIDE))
    write(client, prefix + ASIDE, backup, told)
    values = counters(backup, dict.fromkeys(AHEAD, 0))
    begin(client, prefix + ASIDE, values, at_ms, by, max(leases(backup), default=0))
    _replace(client, prefix)
    confirm(client, name, cell.durability)
    return old


def _read(cell: StoredCell, old: int, at_ms: int, told: Told) -> Backup:
    """Read the records of a cell that no client changes, without the mark of a migration."""
    backup = CellReader(cell, told).read_still(at_ms)
    if backup is None:
        raise StoreError(f"cell {cell.name}: modified during the migration; stop all clients, then repeat this")
    backup.schema = old
    meta = backup.small["meta"].items
    fields = dict(zip(meta[::2], meta[1::2], strict=True))
    fields.pop(b"migrating", None)
    meta[:] = [word for pair in fields.items() for word in pair]
    return backup


def _check_permissions(client: Any, name: str, url: str) -> None:
    """Carry out every kind of command of a migration on a key of its own. Raises StoreError when one is refused."""
    probe = f"{keys.prefix(name)}{ASIDE}probe"
    try:
        with client.pipeline(transaction=True) as pipe:
            for kind, commands in _PROBES.items():
                for command in commands:
                    pipe.execute_command(*(f"{probe}:{kind}" if word == "KEY" else word for word in command))
                pipe.rename(f"{probe}:{kind}", probe)
                pipe.delete(probe)
            pipe.execute()
    except (redis.RedisError, OSError) as error:
        cause = translate(error, url)
        raise type(cause)(f"cell {name}: nothing was changed: {cause}") from error


_PROBES: Mapping[str, Sequence[Sequence[str]]] = {
    "hash": [("HSET", "KEY", "field", "1")], "list": [("RPUSH", "KEY", "1")], "zset": [("ZADD", "KEY", "1", "1")],
    "stream": [("XADD", "KEY", "1-0", "field", "1")], "string": [("SET", "KEY", "1"), ("PEXPIRE", "KEY", "60000")],
}  # fmt: skip
"""What a migration writes, by the type of the key."""


def _check_memory(client: Any, name: str, backup: Backup) -> None:
    """Raise Refused when the server has no room for both forms of the records."""
    memory = client.info("memory")
    most, used = int(memory.get("maxmemory", 0)), int(memory["used_memory"])
    needed = TWICE * backup.size
    if most and used + needed > most:
        lacking = (used + needed - most) // 2**20 + 1
        raise Refused(
            f"cell {name}: nothing was changed: its new records need about {needed // 2**20 + 1} MiB beside the old "
            f"ones; raise the server's maxmemory by {lacking} MiB for the migration"
        )


def _replace(client: Any, prefix: str) -> None:
    """Put the new keys in the place of the old ones, all at once."""
    aside = prefix + ASIDE
    new = _keys(client, aside)
    with client.pipeline(transaction=True) as pipe:
        pipe.delete(*(key for key in _keys(client, prefix) if not key.decode().startswith(aside)))
        for key in new:
            pipe.rename(key, prefix + key.decode().removeprefix(aside))
        pipe.execute()


def _drop(client: Any, names: Sequence[bytes]) -> None:
    for start in range(0, len(names), CHUNK):
        client.delete(*names[start : start + CHUNK])


def _keys(client: Any, prefix: str) -> list[bytes]:
    return sorted(set(client.scan_iter(match=prefix.replace("[", "\\[") + "*", count=500)))
