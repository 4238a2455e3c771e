"""Restoring a backup to a store."""

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

import redis

from omega.cellstate import keys, ranges
from omega.cellstate.backup import CHUNK, NAMES, RECENT, SHAPES, WAITERS, Backup, StoredKey, Told, check_schema
from omega.cellstate.cuts import PLACEMENTS_AHEAD
from omega.cellstate.durability import Durability
from omega.cellstate.model import JobState
from omega.cellstate.ports import StoredCell
from omega.cellstate.redis.cell_names import register
from omega.cellstate.redis.confirmation import confirm
from omega.cellstate.redis.job_records import decode, has_links, read_order
from omega.cellstate.redis.records import read_row, read_runs
from omega.cellstate.resources import Dimensions
from omega.cellstate.server import translate
from omega.cellstate.store import unread_cell
from omega.cellstate.sums import shape_fields

META = "meta"
AHEAD = {"placements": PLACEMENTS_AHEAD, "incarnations": 1_000}
"""Increase of these counters. Executors and schedulers that continued after the backup may have newer numbers than it;
reports with those must not apply to objects that get the same numbers again (semantics 1, 15). The log has a fact for
it, ``restore VERSION PLACEMENTS``."""


def without_agent(backup: Backup, live: Container[str]) -> dict[str, int]:
    """Return the running tasks of a backup by machine, for machines with an agent that is not among the `live` ones.

    Such a machine is down, and its tasks are queued again, unless an agent registers its name within a lease.
    """
    agents = {name.partition(b"/")[2].decode() for name in backup.fields("agents")}
    tasks = {}
    for index, static in backup.bulk["static"].items():
        name = static.partition(b"\n")[0].decode()
        if name in agents and name not in live:
            runs = read_runs(int(index), backup.bulk["runs"].get(index, b"").decode())
            tasks[name] = sum(ranges.count(run.tasks) for run in runs if not run.leaving)
    return tasks


def restore(
    client: "redis.Redis", backup: Backup, name: str, at_ms: int, by: str, *, url: str = "",
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
        write(client, keys.prefix(name), backup, told)
        begin(client, keys.prefix(name), counters(backup, before), at_ms, by, lease_ms)
        register(client, name)
        confirm(client, name, _durability(backup))
    except (redis.RedisError, OSError) as error:
        raise translate(error, url) from error
    return cell


def _durability(backup: Backup) -> Durability:
    return Durability.parse(backup.fields(META).get(b"durability", b"none").decode())


def leases(backup: Backup) -> Iterator[int]:
    """Return the lengths (ms) of the leases of the executors in a backup."""
    return (int(record.split(b" ")[2]) for record in backup.fields("agents").values())


def write(client: Any, prefix: str, backup: Backup, told: Told) -> None:
    """Write everything except the counters to keys with a prefix."""
    names = {static.partition(b"\n")[0]: index for index, static in backup.bulk["static"].items()}
    for name, records in (*backup.bulk.items(), (NAMES, names)):
        for chunk in _chunks([word for pair in records.items() for word in pair]):
            client.hset(prefix + name, items=chunk)
            told(len(chunk) // 2)
    small = backup.small | rebuilt(backup)
    for name, key in small.items():
        if name != META:
            _write_key(client, prefix + name, key, told)
    for start in range(0, len(backup.log), CHUNK):
        entries = backup.log[start : start + CHUNK]
        with client.pipeline(transaction=False) as pipe:
            for entry, fields in entries:
                pipe.xadd(prefix + "log", dict(zip(fields[::2], fields[1::2], strict=True)), id=entry)
            pipe.execute()
        told(len(entries))
    for executor in backup.fields("executors").values():
        client.rpush(f"{prefix}box:{executor.decode()}", "!")  # a mark to read everything


def rebuilt(backup: Backup) -> dict[str, StoredKey]:
    """Return the keys that follow from machines and jobs: the index of submissions, machines by shape, waits."""
    size = len(backup.resources)
    rows = (read_row(record, size) for record in backup.bulk["machines"].values())
    shapes = [word.encode() for pair in shape_fields(rows, size).items() for word in pair]
    orders = [word for job, record in backup.bulk["jobs"].items() for word in (job, b"%d" % read_order(record))]
    waits = [word for job, record in backup.bulk["jobs"].items() for word in waiters_of(job.decode(), record, size)]
    keys_ = {
        RECENT: StoredKey("zset", orders), SHAPES: StoredKey("hash", shapes), WAITERS: StoredKey("zset", waits),
    }  # fmt: skip
    return {name: key for name, key in keys_.items() if key.items}


def waiters_of(job: str, record: bytes, size: int) -> Iterator[bytes]:
    """Yield the members of ``waiters`` for a job, each with its score (lua/parts/links.lua)."""
    if has_links(record) and (fields := decode(record, size))["state"] == JobState.HELD:
        for awaited in dict.fromkeys(re.findall(r"<(\w[^<>+]*)", fields["links"])):
            yield f"{awaited} {fields['order']:014} {job}".encode()
            yield b"0"


def counters(backup: Backup, before: Mapping[str, int]) -> dict[str, bytes]:
    """Return the counters of the restored cell. The change list is empty: followers read everything."""
    meta = {name.decode(): value for name, value in backup.fields(META).items()}
    for name, ahead in AHEAD.items():
        meta[name] = b"%d" % (max(before[name], int(meta.get(name, b"0"))) + ahead)
    meta["version"] = meta["floor"] = b"%d" % (backup.version + 1)
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


def _write_key(client: Any, name: str, key: StoredKey, told: Told) -> None:
    for chunk in _chunks(key.items):
        if key.kind == "hash":
            client.hset(name, items=chunk)
        elif key.kind == "list":
            client.rpush(name, *chunk)
        elif key.kind == "zset":
            client.zadd(name, {member: int(score) for member, score in zip(chunk[::2], chunk[1::2], strict=True)})
        else:
            client.set(name, chunk[0])
        told(len(chunk))
    if key.ttl_ms is not None:
        client.pexpire(name, key.ttl_ms)


def _chunks(items: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """Yield chunks with an even number of items."""
    return (items[start : start + 2 * CHUNK] for start in range(0, len(items), 2 * CHUNK))
