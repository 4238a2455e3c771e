"""A backup of a cell: its state at one version, independent of any server, and the reading of it.

The cell continues meanwhile. Its large hashes are read in chunks; records changed since are read again in one call, as
in an audit (`changed_records.lua`), and all small keys in the same transaction (semantics 18).

Left out are data that only the server or a running process has: leases, wake tokens, the change list (followers of the
cell read it completely), messages to executors (which receive the mark to read everything), last output of tasks, but
for what agents measured of ended ones.
"""

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from hashlib import blake2b
from typing import Any, BinaryIO, NamedTuple

import msgpack
import redis

from omega.cellstate import keys, ranges
from omega.cellstate.cuts import PLACEMENTS_AHEAD
from omega.cellstate.durability import Durability
from omega.cellstate.errors import BadInput, StoreError, Unsuitable
from omega.cellstate.model import JobState
from omega.cellstate.pages import shape_fields
from omega.cellstate.ports import StoredCell
from omega.cellstate.redis.calls import with_scripts
from omega.cellstate.redis.cell_names import register
from omega.cellstate.redis.job_records import chunk_fields, decode, has_links, read_order
from omega.cellstate.redis.link import confirm
from omega.cellstate.redis.records import RawChangedRecords, read_row, read_runs
from omega.cellstate.redis.scripts import script
from omega.cellstate.resources import Dimensions
from omega.cellstate.server import translate
from omega.cellstate.store import unread_cell
from omega.cellstate.tasks import STREAM

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


# Backup files: consecutive MessagePack objects, validated on reading because anyone may have written them.
#
#     ["omega-backup", 1, {"cell", "resources", "schema", "at_ms", "version", "by"}]      a cell begins
#     [key, type, ttl_ms or nil, [bytes, …]]                                              a piece of a key
#     ["end", number of these, BLAKE2b of all objects of the cell so far]                 a cell ends
#
# Keys are named without the cell's prefix. Items of a hash are names and values in turn, of a sorted set members and
# scores, of the log an entry's id and then its number of words and the words. The items of a key are those of its
# pieces
# joined; a piece has whole pairs and entries.

MAGIC, FORMAT = "omega-backup", 1
LARGEST_OBJECT = 256 * 2**20
MOST_ITEMS, MOST_BYTES = 2 * CHUNK, 16 * 2**20
"""What a piece has at most; a pair or an entry of more bytes is a piece of its own."""
_KINDS = ("hash", "list", "zset", "string", "stream")
_KEY = re.compile(r"[a-z]+(:[A-Za-z0-9._/-]{1,200})?")
_ENTRY = re.compile(rb"[0-9]{1,15}-0")


def write_file(backup: Backup, to: BinaryIO, by: str) -> int:
    """Write a cell; return the number of bytes. `by`: the program and its version."""
    digest, count, size = blake2b(), 0, 0

    def put(item: object) -> int:
        data: bytes = msgpack.packb(item)
        digest.update(data)
        return to.write(data)

    header = {name: getattr(backup, name) for name in ("cell", "resources", "schema", "at_ms", "version")} | {"by": by}
    size += put([MAGIC, FORMAT, header])
    for count, piece in enumerate(_pieces(backup), 1):  # noqa: B007 - the last number is written
        size += put(piece)
    return size + to.write(msgpack.packb(["end", count, digest.digest()]))


def _pieces(backup: Backup) -> Iterator[list[Any]]:
    for name, records in backup.bulk.items():
        yield from ([name, "hash", None, items] for items in _cut(records.items()))
    for name, key in backup.small.items():
        step = 2 if key.kind in ("hash", "zset") else 1
        units = (key.items[at : at + step] for at in range(0, len(key.items), step))
        yield from ([name, key.kind, key.ttl_ms, items] for items in _cut(units))
    entries = ((entry, b"%d" % len(words), *words) for entry, words in backup.log)
    yield from (["log", "stream", None, items] for items in _cut(entries))


def _cut(units: Iterable[Sequence[bytes]]) -> Iterator[list[bytes]]:
    """Yield lists of items, cut between units: pairs, entries, single items."""
    items: list[bytes] = []
    size = 0
    for unit in units:
        more = sum(map(len, unit))
        if items and (len(items) + len(unit) > MOST_ITEMS or size + more > MOST_BYTES):
            yield items
            items, size = [], 0
        items.extend(unit)
        size += more
    if items:
        yield items


def check_written(backup: Backup, source: BinaryIO, what: str) -> None:
    """Read the cell that `source` has from where it stands. Raises BadInput if it is not `backup`."""
    (found,) = read_file(source, what)
    for each in fields(Backup):
        if getattr(found, each.name) != getattr(backup, each.name):
            raise BadInput(
                f"backup {what}: {each.name} of cell {backup.cell} is read back as something else than was written; "
                "check the disk, and report this if it is in order"
            )


def read_file(source: BinaryIO, what: str) -> list[Backup]:
    """Read all cells from where `source` stands and check every object; `what`: its name in errors. Raises BadInput."""
    start = source.tell()
    unpacker = msgpack.Unpacker(source, max_buffer_size=LARGEST_OBJECT, strict_map_key=True)
    backups: list[Backup] = []
    try:
        while True:
            try:
                first = unpacker.unpack()
            except msgpack.OutOfData:
                break
            backups.append(_cell(unpacker, first))
    except (msgpack.UnpackException, ValueError, TypeError, KeyError, IndexError) as error:
        reason = str(error) if isinstance(error, _Damaged) else "it is damaged, or something else"
        raise BadInput(f"backup {what}: {reason}; nothing was changed; take another copy of it") from error
    if not backups or unpacker.tell() != source.tell() - start:
        raise BadInput(f"backup {what}: not written by omega store backup, or something follows that was not")
    return backups


class _Damaged(ValueError):
    """The damage, as a message."""


def _check(true: object, wrong: str) -> None:
    if not true:
        raise _Damaged(wrong)


def _cell(unpacker: "msgpack.Unpacker", first: Any) -> Backup:
    _check(isinstance(first, list) and len(first) == 3 and first[0] == MAGIC, "not written by omega store backup")
    _check(first[1] == FORMAT, f"written in format {first[1]!r}, this Omega reads format {FORMAT}; use the newer Omega")
    backup = _header(first[2])
    digest, count = blake2b(msgpack.packb(first)), 0
    while True:
        try:
            item = unpacker.unpack()
        except msgpack.OutOfData:
            raise _Damaged(f"ends in the middle of cell {backup.cell}") from None
        _check(isinstance(item, list) and len(item) in (3, 4), "an object of unknown form in it")
        if item[0] == "end":
            _check(item[1:] == [count, digest.digest()], f"cell {backup.cell} is not as it was written")
            _check("meta" in backup.small, f"cell {backup.cell} has no counters")
            return backup
        digest.update(msgpack.packb(item))
        count += 1
        _take(backup, item)


def _header(header: Any) -> Backup:
    _check(isinstance(header, dict), "a header of unknown form")
    cell, resources = header["cell"], header["resources"]
    numbers = [header[name] for name in ("schema", "at_ms", "version")]
    good = isinstance(cell, str) and all(type(number) is int and number >= 0 for number in numbers)
    good = good and isinstance(resources, list) and all(isinstance(name, str) for name in resources)
    _check(good, "a header of unknown form")
    schema, at_ms, version = numbers
    return Backup(cell, tuple(resources), schema, at_ms, version)


def _take(backup: Backup, item: Sequence[Any]) -> None:
    name, kind, ttl_ms, items = item
    good = isinstance(name, str) and _KEY.fullmatch(name) and kind in _KINDS
    good = good and (ttl_ms is None or (type(ttl_ms) is int and ttl_ms > 0))
    good = good and isinstance(items, list) and all(type(item) is bytes for item in items)
    _check(good, "a key of unknown form in it")
    _check(kind not in ("hash", "zset") or len(items) % 2 == 0, f"key {name} has half a pair")
    if kind == "stream":
        backup.log.extend(_entries(items))
    elif name in BULK:
        backup.bulk[name].update(zip(items[::2], items[1::2], strict=True))
    elif name in backup.small:
        backup.small[name].items.extend(items)
    else:
        backup.small[name] = StoredKey(kind, items, ttl_ms)


def _entries(items: list[bytes]) -> Iterator[tuple[bytes, list[bytes]]]:
    at = 0
    while at < len(items):
        entry, size = items[at], int(items[at + 1])
        _check(_ENTRY.fullmatch(entry) and 0 < size <= len(items) - at - 2 and size % 2 == 0, "a bad entry of the log")
        yield entry, items[at + 2 : at + 2 + size]
        at += 2 + size


# Restoring a backup to a store.

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
        _write_records(client, keys.prefix(name), backup, told)
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


def _write_records(client: Any, prefix: str, backup: Backup, told: Told) -> None:
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
