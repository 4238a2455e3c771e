"""A backup of a cell: its state at one version, independent of any server, and the reading of it.

The cell continues meanwhile. Its large hashes are read in chunks; records changed since are read again in one call, as
in an audit (`changed_records.lua`), and all small keys in the same transaction (semantics 18).

Left out are data that only the server or a running process has: leases, wake tokens, the change list (followers of the
cell read it completely), messages to executors (which receive the mark to read everything), last output of tasks, but
for what agents measured of ended ones.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import redis

from omega.cellstate import keys
from omega.cellstate.consumption import STREAM
from omega.cellstate.errors import StoreError, Unsuitable
from omega.cellstate.ports import StoredCell
from omega.cellstate.redis.calls import with_scripts
from omega.cellstate.redis.job_records import chunk_fields, decode
from omega.cellstate.redis.raw_changed_records import RawChangedRecords
from omega.cellstate.redis.scripts import script
from omega.cellstate.resources import Dimensions
from omega.cellstate.server import translate

BULK = ("machines", "runs", "placed", "static", "jobs", "specs", "jobnames")
"""Hashes of a record per machine or job: every change of one is named by a fact."""
NAMES, RECENT, SHAPES, WAITERS = "names", "recent", "shapes", "waiters"
"""Rebuilt from machines and jobs."""
OUTPUT, OUTPUTS = "output", "outputs"
"""Last output of tasks, of which only what agents measured is kept."""
LEFT = ("lease", "wake", "asleep", "changes", "box", OUTPUT, OUTPUTS, "answer", "progress", "log", "settling",
        "unsettled", "confirmed", NAMES, RECENT, SHAPES, WAITERS, *BULK)  # a table # fmt: skip
CHUNK = 1_000
MOST_AT_ONCE = 20_000
"""Maximum number of machines and jobs in the last read, which occupies the server."""
ROUNDS = 200
ATTEMPTS = 5

Told = Callable[[int], object]
"""Called with the number of records read or written so far."""


class StoredKey(NamedTuple):
    """A small key: its type, its content as a flat list of bytes, and its expiry."""

    kind: str
    items: list[bytes]
    ttl_ms: int | None = None


@dataclass(slots=True)
class Backup:
    """A cell at `version`, read at `at_ms`. Keys are named without the cell's prefix."""

    cell: str
    resources: tuple[str, ...]
    schema: int
    at_ms: int
    version: int = 0
    bulk: dict[str, dict[bytes, bytes]] = field(default_factory=lambda: {name: {} for name in BULK})
    small: dict[str, StoredKey] = field(default_factory=dict)
    log: list[tuple[bytes, list[bytes]]] = field(default_factory=list)
    """Entries of the stream: id, then names and values in turn."""

    def fields(self, name: str) -> dict[bytes, bytes]:
        """Return a small hash; empty when there is none."""
        items = self.small[name].items if name in self.small else []
        return dict(zip(items[::2], items[1::2], strict=True))

    @property
    def records(self) -> int:
        """Number of records."""
        return sum(map(len, self.bulk.values())) + sum(len(key.items) for key in self.small.values()) + len(self.log)

    @property
    def size(self) -> int:
        """Bytes of all names and values."""
        size = sum(len(name) + len(value) for records in self.bulk.values() for name, value in records.items())
        size += sum(len(word) for key in self.small.values() for word in key.items)
        return size + sum(len(word) for _, words in self.log for word in words)

    def take(self, shot: RawChangedRecords) -> None:
        """Replace records by newer ones."""
        bulk = self.bulk
        for index, record, runs, static in shot.machines:
            for name, value in (("machines", record), ("runs", runs), ("static", static)):
                _put(bulk[name], index, value)
        gone = {job.encode() for job, record, *_ in shot.jobs if not record}
        if gone:
            bulk["jobnames"] = {name: job for name, job in bulk["jobnames"].items() if (job or name) not in gone}
        size = len(self.resources)
        for job, record, _, holder, spec in shot.jobs:
            known = bulk["jobs"].get(job.encode())
            for _, chunk in chunk_fields(job, known, size) if known else ():
                bulk["placed"].pop(chunk.encode(), None)
            _put(bulk["jobs"], job.encode(), record)
            _put(bulk["specs"], job.encode(), spec)
            if record:
                called = (decode(record, size)["name"] or job).encode()
                _put(bulk["jobnames"], called, holder)
                if holder == called:
                    bulk["jobnames"][called] = b""
        bulk["placed"].update(shot.placed)
        self.version = shot.version


def check_schema(backup: Backup) -> None:
    """Raise Unsuitable unless the records of a backup have the schema of this version."""
    if backup.schema != keys.SCHEMA:
        raise Unsuitable(f"cell {backup.cell}: {keys.other_schema(backup.schema)}")


def _put(records: dict[bytes, bytes], name: bytes, value: bytes) -> None:
    if value:
        records[name] = value
    else:
        records.pop(name, None)


class CellReader:
    """Reads one cell over one client."""

    def __init__(self, cell: StoredCell, told: Told) -> None:
        """Read `cell`, which may be open with any schema."""
        self.client: Any = cell.client
        self.name, self.url, self.told = cell.name, cell.url, told
        self.dimensions: Dimensions = cell.dimensions
        self.prefix = keys.prefix(cell.name)

    def read(self, at_ms: int) -> Backup | None:
        """Read everything; None when it changes faster than it can be read."""
        backup = self._read_bulk(at_ms)
        needed = script("changed_records")
        settled = with_scripts(self.client, lambda: self._catch_up(backup, backup.version), needed)
        if not settled:
            return None
        self._read_measured(backup)
        self._read_log(backup)
        return backup

    def _read_bulk(self, at_ms: int) -> Backup:
        """Read the large hashes, of this version or later ones."""
        schema, version = self.client.hmget(self.prefix + "meta", "schema", "version")
        backup = Backup(self.name, self.dimensions.names, int(schema), at_ms, int(version))
        for name, records in backup.bulk.items():
            for number, (key, value) in enumerate(self.client.hscan_iter(self.prefix + name, count=CHUNK), 1):
                records[key] = value
                if number % CHUNK == 0:
                    self.told(CHUNK)
            self.told(len(records) % CHUNK)
        return backup

    def _small(self) -> dict[str, str]:
        """Return the keys that are read whole, with their types."""
        stored = self.client.scan_iter(match=self.prefix.replace("[", "\\[") + "*", count=500)
        names = sorted({key.decode().removeprefix(self.prefix) for key in stored})
        kinds = {name: self.client.type(self.prefix + name).decode() for name in names if _first(name) not in LEFT}
        return {name: kind for name, kind in kinds.items() if kind != "none"}  # a queue that was emptied meanwhile

    def _catch_up(self, backup: Backup, since: int) -> bool:
        """Bring the backup to one version; return False when facts about changed records are missing."""
        small = self._small()
        for _ in range(ROUNDS):
            answer = self._look(since, small)
            if answer is None:  # there was a new kind of job
                small = self._small()
                continue
            shot, held = answer
            if shot.first > since + 1 or shot.version < since:
                return False
            backup.take(shot)
            since = shot.seen
            # A key created between the listing and the read belongs to it.
            if shot.seen == shot.version and small.keys() >= (now := self._small()).keys():
                backup.small = {name: key for name, key in held.items() if key.items}
                self.told(sum(len(key.items) for key in held.values()))
                return True
            small |= now if shot.seen == shot.version else {}
        return False

    def _look(self, since: int, small: Mapping[str, str]) -> tuple[RawChangedRecords, dict[str, StoredKey]] | None:
        """Read the records that facts after `since` name and the small keys in one transaction; None to repeat."""
        chosen = script("changed_records")
        queues = sorted(name for name in small if _first(name) == "pending")
        named = [self.prefix + name for name in (*chosen.keys, *queues)]
        values = {"dims": len(self.dimensions), "since": since, "most": MOST_AT_ONCE}
        with self.client.pipeline(transaction=True) as pipe:
            pipe.evalsha(chosen.sha, len(named), *named, *chosen.pack_arguments(values))
            self._ask(pipe, small)
            reply, *rest = pipe.execute()
        return None if reply[0] == b"keys" else (RawChangedRecords.of(reply), _keys(small, rest))

    def _ask(self, pipe: Any, small: Mapping[str, str]) -> None:
        for name, kind in small.items():
            key = self.prefix + name
            if kind == "hash":
                pipe.hgetall(key)
            elif kind == "list":
                pipe.lrange(key, 0, -1)
            elif kind == "zset":
                pipe.zrange(key, 0, -1, withscores=True)
            elif kind == "string":
                pipe.get(key)
            else:
                raise StoreError(
                    f"the key {key} is a {kind}, which is no part of a cell; another program created it, delete it"
                )
            pipe.pttl(key)

    def _read_measured(self, backup: Backup) -> None:
        """Read what agents measured: no version of the cell has it, and it expires together."""
        found = dict(self.client.hscan_iter(self.prefix + OUTPUT, match=f"* {STREAM}", count=CHUNK))
        left = self.client.pttl(self.prefix + OUTPUT)
        if found and left > 0:
            pairs = [word for pair in found.items() for word in pair]
            backup.small |= {OUTPUT: StoredKey("hash", pairs, left), OUTPUTS: StoredKey("list", list(found), left)}
            self.told(len(found))

    def _read_log(self, backup: Backup) -> None:
        start = "-"
        while entries := self.client.xrange(self.prefix + "log", start, f"{backup.version}-0", count=CHUNK):
            backup.log += [(key, [word for pair in fields.items() for word in pair]) for key, fields in entries]
            self.told(len(entries))
            start = f"{int(entries[-1][0].partition(b'-')[0]) + 1}-0"


def _first(name: str) -> str:
    return name.partition(":")[0]


def _keys(small: Mapping[str, str], replies: Sequence[Any]) -> dict[str, StoredKey]:
    """Return small keys from a value and an expiry each."""
    columns = zip(small.items(), replies[::2], replies[1::2], strict=True)
    return {name: StoredKey(kind, _flat(kind, value), ttl if ttl > 0 else None) for (name, kind), value, ttl in columns}


def _flat(kind: str, value: Any) -> list[bytes]:
    if kind == "hash":
        return [word for pair in value.items() for word in pair]
    if kind == "zset":
        return [word for member, score in value for word in (member, b"%d" % int(score))]
    if kind == "string":
        return [] if value is None else [value]
    return list(value)


def read_backup(cell: StoredCell, at_ms: int, told: Told = lambda _: None) -> Backup:
    """Read a cell, which schedulers may be changing. Raises StoreError, also when it changes too fast."""
    try:
        for _ in range(ATTEMPTS):
            if backup := CellReader(cell, told).read(at_ms):
                return backup
    except (redis.RedisError, OSError) as error:
        raise translate(error, cell.url) from error
    raise StoreError(f"cell {cell.name}: changes faster than it can be read; try again when less goes on")
