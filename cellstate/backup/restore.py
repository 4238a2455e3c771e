"""Restoring a backup to a store."""

from collections.abc import Container, Iterator, Mapping
from dataclasses import replace
from typing import Any

import redis

from omega.cellstate import derive, keys, ranges
from omega.cellstate.backup import ARRIVALS, check_schema
from omega.cellstate.cuts import PLACEMENTS_AHEAD
from omega.cellstate.durability import Durability
from omega.cellstate.lanes import MOST_LANES
from omega.cellstate.ports import StoredCell
from omega.cellstate.primary import Content, Primary
from omega.cellstate.redis.cell_names import register
from omega.cellstate.redis.image import BULK, CHUNK, Image, Told
from omega.cellstate.redis.link import confirm
from omega.cellstate.redis.primary_records import primary_of
from omega.cellstate.redis.records import read_runs
from omega.cellstate.resources import Dimensions
from omega.cellstate.server import translate
from omega.cellstate.store import unread_cell

META = "meta"
AHEAD = {"placements": PLACEMENTS_AHEAD, "incarnations": 1_000, "lanes": MOST_LANES}
"""Increase of these counters. Executors and schedulers that continued after the backup may have newer numbers than it;
reports with those must not apply to objects that get the same numbers again (semantics 1, 15). The log has a fact for
it, ``restore VERSION PLACEMENTS``."""


def without_agent(backup: Image, live: Container[str]) -> dict[str, int]:
    """Return the running tasks of a backup by machine, for machines with an agent that is not among the `live` ones.

    Such a machine is down, and its tasks are queued again, unless an agent registers its name within a lease.
    """
    agents = {name.partition(b"/")[2].decode() for name in backup.hashes.get("agents", {})}
    tasks = {}
    for index, static in backup.hashes["static"].items():
        name = static.partition(b"\n")[0].decode()
        if name in agents and name not in live:
            runs = read_runs(int(index), backup.hashes["runs"].get(index, b"").decode())
            tasks[name] = sum(ranges.count(run.tasks) for run in runs if not run.leaving)
    return tasks


def restore(
    client: "redis.Redis", backup: Image, name: str, at_ms: int, by: str, *, url: str = "",
    told: Told = lambda _: None,
) -> StoredCell:  # fmt: skip
    """Write the backup as cell `name`; an existing one is deleted first. Raises StoreError, Unsuitable.

    The cell exists only once everything is written: an interrupted restore starts again.
    """
    check_schema(backup)
    cell = unread_cell(client, name, Dimensions(backup.resources), url)
    client = cell.client
    try:
        before = {each: int(client.hget(keys.prefix(name) + META, each) or 0) for each in AHEAD}
        lease_ms = max([*leases(backup), *(record.lease_ms for record in cell.executor_records().values())], default=0)
        cell.delete()
        primary = primary_of_backup(backup, before)
        write(client, keys.prefix(name), backup, primary, told)
        begin(client, keys.prefix(name), counters(backup, primary, before), at_ms, by, lease_ms)
        register(client, name)
        confirm(client, name, _durability(backup))
    except (redis.RedisError, OSError) as error:
        raise translate(error, url) from error
    return cell


def _durability(backup: Image) -> Durability:
    return Durability.parse(backup.hashes[META].get(b"durability", b"none").decode())


def leases(backup: Image) -> Iterator[int]:
    """Return the lengths (ms) of the leases of the executors in a backup."""
    return (int(record.split(b" ")[2]) for record in backup.hashes.get("agents", {}).values())


def write(client: Any, prefix: str, backup: Image, primary: Primary, told: Told) -> None:
    """Write the records of a backup to keys with a prefix, and what follows from them; without the counters."""
    contents: dict[str, Content] = {**backup.hashes, **backup.zsets, **backup.lists}
    for derived in derive.INDEXES.values():
        for name, content in derived(primary).items():
            known = contents.get(name)
            both = isinstance(known, Mapping) and isinstance(content, Mapping)
            contents[name] = {**known, **content} if both else content  # type: ignore[dict-item]
    for name, content in contents.items():
        if name not in (META, ARRIVALS):
            put(client, prefix + name, content, told)
    for name, text in backup.strings.items():
        client.set(prefix + name, text)
    for name, milliseconds in backup.expiries.items():
        client.pexpire(prefix + name, milliseconds)
    for start in range(0, len(backup.log), CHUNK):
        entries = backup.log[start : start + CHUNK]
        with client.pipeline(transaction=False) as pipe:
            for entry, fields in entries:
                pipe.xadd(prefix + "log", dict(zip(fields[::2], fields[1::2], strict=True)), id=entry)
            pipe.execute()
        told(len(entries))
    for executor in backup.hashes.get("executors", {}).values():
        client.rpush(f"{prefix}box:{executor.decode()}", "!")  # a mark to read everything


def put(client: Any, key: str, content: Content, told: Told = lambda _: None) -> None:
    """Write a hash, sorted set or list in pieces: fields and members beside those that are there."""
    items = list(content.items()) if isinstance(content, Mapping) else list(content)
    for start in range(0, len(items), CHUNK):
        piece: list[Any] = items[start : start + CHUNK]
        if not isinstance(content, Mapping):
            client.rpush(key, *piece)
        elif isinstance(piece[0][1], bytes):
            client.hset(key, mapping=dict(piece))
        else:
            client.zadd(key, {member: int(score) for member, score in piece})
        told(len(piece))


def primary_of_backup(backup: Image, before: Mapping[str, int]) -> Primary:
    """Read the records of a backup. Lanes get new serials: schedulers may know lanes by those of the backup."""
    arrivals = backup.hashes.get(ARRIVALS, {})
    kept = {name: dict(records) for name, records in backup.hashes.items() if name != ARRIVALS}
    primary = primary_of(replace(backup, hashes={name: kept.get(name, {}) for name in (*BULK, *kept)}), backup.at_ms)
    primary.arrivals = {job.decode(): int(arrival) for job, arrival in arrivals.items()}
    primary.counters["lanes"] = max(before["lanes"], primary.counters["lanes"])
    return primary


def counters(backup: Image, primary: Primary, before: Mapping[str, int]) -> dict[str, bytes]:
    """Return the counters of the restored cell. The change list is empty: followers read everything."""
    meta = {name.decode(): value for name, value in backup.hashes[META].items()}
    meta |= {name: b"%d" % number for name, number in derive.counters(primary).items() if number or name in meta}
    for name, ahead in AHEAD.items():
        meta[name] = b"%d" % (max(before[name], primary.counters[name]) + ahead)
    meta["version"] = meta["floor"] = b"%d" % (backup.version + 1)
    meta["rules"] = b"%d" % keys.RULES
    return meta


def begin(client: Any, prefix: str, values: Mapping[str, bytes], at_ms: int, by: str, lease_ms: int) -> None:
    """Write the fact of the restore to the log; with its counters the cell exists.

    For the longest lease of an executor no newly placed task starts: disconnected agents may run tasks that the backup
    lists as pending, until their leases expire.
    """
    version = int(values["version"])
    fact = f"restore {version - 1} {values['placements'].decode()}"
    client.xadd(prefix + "log", {"at": at_ms, "by": by, "facts": fact}, id=f"{version}-0")
    if lease_ms:
        client.set(prefix + "settling", values["placements"], px=lease_ms)
    client.hset(prefix + META, mapping=dict(values))
