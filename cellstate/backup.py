"""A backup of a cell: its primary records at one version, independent of any server.

The cell continues meanwhile (cellstate/redis/image.py). A restore writes what follows from these records
(cellstate/derive.py). Left out are also data that only the server or a running process has: leases, wake tokens, the
change list (followers of the cell read it completely), messages to executors (which receive the mark to read
everything), last output of tasks, but for what agents measured of ended ones.

A file has consecutive MessagePack objects, validated on reading because anyone may have written them:

    ["omega-backup", 1, {"cell", "resources", "schema", "at_ms", "version", "by"}]      a cell begins
    [key, type, ttl_ms or nil, [bytes, …]]                                              a piece of a key
    ["end", number of these, BLAKE2b of all objects of the cell so far]                 a cell ends

Keys are named without the cell's prefix. Items of a hash are names and values in turn, of a sorted set members and
scores, of the log an entry's id and then its number of words and the words. The items of a key are those of its pieces
joined; a piece has whole pairs and entries.
"""

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import chain
from typing import Any, BinaryIO

import msgpack
import redis

from omega.cellstate import derive, keys, ranges
from omega.cellstate.cuts import PLACEMENTS_AHEAD
from omega.cellstate.durability import Durability
from omega.cellstate.errors import BadInput, StoreError, Unsuitable
from omega.cellstate.lanes import BUCKET_SPAN, MOST_LANES
from omega.cellstate.primary import Content, Primary
from omega.cellstate.redis import RedisCell
from omega.cellstate.redis.cell_names import register
from omega.cellstate.redis.image import BULK, CHUNK, KINDS, Image, Told, read_image
from omega.cellstate.redis.link import confirm
from omega.cellstate.redis.primary_records import primary_of
from omega.cellstate.redis.records import read_runs
from omega.cellstate.resources import Dimensions
from omega.cellstate.server import translate
from omega.cellstate.store import unread_cell
from omega.cellstate.tasks import STREAM

__all__ = ["Image", "Told", "check_schema", "check_written", "read", "read_backup", "restore", "without_agent", "write"]

ARRIVALS, OUTPUT, OUTPUTS = "arrivals", "output", "outputs"
"""The first is a key of backups alone: job id → the order of becoming pending, in place of the queues."""
OF_PROCESSES = ("lease", "wake", "asleep", "owners", "changes", "box", OUTPUT, OUTPUTS, "answer", "progress",
                "settling", "unsettled", "confirmed")  # a table # fmt: skip
_SOME = ("pending", "done", "kinds", *derive.ALONE)
"""Indexes that say something which no record gives: of these a backup has that alone."""
LEFT = frozenset((*OF_PROCESSES, "lanenames", *(name for name in derive.INDEXES if name not in _SOME)))
ATTEMPTS = 5


def check_schema(backup: Image) -> None:
    """Raise Unsuitable unless the records of a backup have the schema of this version, and not newer rules."""
    if backup.schema != keys.SCHEMA:
        raise Unsuitable(f"cell {backup.cell}: {keys.other_schema(backup.schema)}")
    rules = backup.hashes["meta"].get(b"rules", b"")
    if rules.isdigit() and int(rules) > keys.RULES:
        raise Unsuitable(f"cell {backup.cell} {keys.other_rules(int(rules))}")


def read_backup(cell: RedisCell, at_ms: int, told: Told = lambda _: None) -> Image:
    """Read a cell, which schedulers may be changing. Raises StoreError, also when it changes too fast."""
    try:
        for _ in range(ATTEMPTS):
            backup = read_image(cell, at_ms, LEFT, told)
            if backup is not None:
                for key, kind in backup.others.items():
                    raise StoreError(
                        f"the key {keys.prefix(cell.name)}{key} is a {kind}, which is no part of a cell; another"
                        " program created it, delete it"
                    )
                _keep_primary(backup)
                _read_measured(cell, backup)
                _read_log(cell, backup, told)
                return backup
    except (redis.RedisError, OSError) as error:
        raise translate(error, cell.url) from error
    raise StoreError(f"cell {cell.name}: changes faster than it can be read; try again when less goes on")


def _keep_primary(backup: Image) -> None:
    """Drop what follows from other records."""
    hashes, size = backup.hashes, len(backup.resources)
    for name in LEFT.intersection(BULK):  # changes of these are read with their machines and jobs
        hashes[name] = {}
    for name in [name for name in backup.zsets if name.startswith("pending:")]:
        queue = backup.zsets.pop(name)
        hashes.setdefault(ARRIVALS, {}).update({job[2:]: b"%d" % (at % BUCKET_SPAN) for job, at in queue.items()})
    for kind, record in hashes.get("kinds", {}).items():
        hashes["kinds"][kind] = b" ".join([*record.split(b" ")[: 3 + size], *[b"0"] * (1 + size)])
    for name in ("pools", "results"):
        hashes[name] = {each: record for each, record in hashes.get(name, {}).items() if not derive.follows(name, each)}
        if not hashes[name]:
            del hashes[name]


def _read_measured(cell: RedisCell, backup: Image) -> None:
    """Read what agents measured: no version of the cell has it, and it expires together."""
    client: Any = cell.client
    key = keys.prefix(cell.name) + OUTPUT
    found, left = dict(client.hscan_iter(key, match=f"* {STREAM}", count=CHUNK)), client.pttl(key)
    if found and left > 0:
        backup.hashes[OUTPUT], backup.lists[OUTPUTS] = found, list(found)
        backup.expiries |= {OUTPUT: left, OUTPUTS: left}


def _read_log(cell: RedisCell, backup: Image, told: Told) -> None:
    client: Any = cell.client
    start = "-"
    while entries := client.xrange(keys.prefix(cell.name) + "log", start, f"{backup.version}-0", count=CHUNK):
        backup.log += [(key, [word for pair in fields.items() for word in pair]) for key, fields in entries]
        told(len(entries))
        start = f"{int(entries[-1][0].partition(b'-')[0]) + 1}-0"


# Files

MAGIC, FORMAT = "omega-backup", 3
"""From the second format on there are primary records alone; in the third a job has numbers of fixed widths."""
LARGEST_OBJECT = 256 * 2**20
MOST_ITEMS, MOST_BYTES = 2 * CHUNK, 16 * 2**20
"""What a piece has at most; a pair or an entry of more bytes is a piece of its own."""
_KEY = re.compile(r"[a-z]+(:[A-Za-z0-9._/-]{1,200})?")
_WRITTEN = ("cell", "resources", "schema", "at_ms", "version", "hashes", "zsets", "lists", "strings", "expiries", "log")
_ENTRY = re.compile(rb"[0-9]{1,15}-0")


def write(backup: Image, to: BinaryIO, by: str) -> int:
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


def _pieces(backup: Image) -> Iterator[list[Any]]:
    hashes = ((name, "hash", records.items()) for name, records in backup.hashes.items())
    zsets = ((name, "zset", _scores(members)) for name, members in backup.zsets.items())
    lists = ((name, "list", ((entry,) for entry in entries)) for name, entries in backup.lists.items())
    strings = ((name, "string", [(text,)]) for name, text in backup.strings.items())
    for name, kind, units in chain[tuple[str, str, Iterable[Sequence[bytes]]]](hashes, zsets, lists, strings):
        yield from ([name, kind, backup.expiries.get(name), items] for items in _cut(units))
    entries = ((entry, b"%d" % len(words), *words) for entry, words in backup.log)
    yield from (["log", "stream", None, items] for items in _cut(entries))


def _scores(members: Mapping[bytes, float]) -> Iterator[tuple[bytes, bytes]]:
    return ((member, b"%d" % int(score)) for member, score in members.items())


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


def check_written(backup: Image, source: BinaryIO, what: str) -> None:
    """Read the cell that `source` has from where it stands. Raises BadInput if it is not `backup`."""
    (found,) = read(source, what)
    for name in _WRITTEN:
        if getattr(found, name) != getattr(backup, name):
            raise BadInput(
                f"backup {what}: {name} of cell {backup.cell} is read back as something else than was written; "
                "check the disk, and report this if it is in order"
            )


def read(source: BinaryIO, what: str) -> list[Image]:
    """Read all cells from where `source` stands and check every object; `what`: its name in errors. Raises BadInput."""
    start = source.tell()
    unpacker = msgpack.Unpacker(source, max_buffer_size=LARGEST_OBJECT, strict_map_key=True)
    backups: list[Image] = []
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


def _cell(unpacker: "msgpack.Unpacker", first: Any) -> Image:
    _check(isinstance(first, list) and len(first) == 3 and first[0] == MAGIC, "not written by omega store backup")
    remedy = "use the Omega that wrote it" if first[1] in range(FORMAT) else "use the newer Omega"
    _check(first[1] == FORMAT, f"written in format {first[1]!r}, this Omega reads format {FORMAT}; {remedy}")
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
            _check("meta" in backup.hashes, f"cell {backup.cell} has no counters")
            return backup
        digest.update(msgpack.packb(item))
        count += 1
        _take(backup, item)


def _header(header: Any) -> Image:
    _check(isinstance(header, dict), "a header of unknown form")
    cell, resources = header["cell"], header["resources"]
    numbers = [header[name] for name in ("schema", "at_ms", "version")]
    good = isinstance(cell, str) and all(type(number) is int and number >= 0 for number in numbers)
    good = good and isinstance(resources, list) and all(isinstance(name, str) for name in resources)
    _check(good, "a header of unknown form")
    schema, at_ms, version = numbers
    return Image(cell=cell, resources=tuple(resources), schema=schema, at_ms=at_ms, version=version)


def _take(backup: Image, item: Sequence[Any]) -> None:
    name, kind, ttl_ms, items = item
    good = isinstance(name, str) and _KEY.fullmatch(name) and kind in (*KINDS, "stream")
    good = good and (ttl_ms is None or (type(ttl_ms) is int and ttl_ms > 0))
    good = good and isinstance(items, list) and all(type(item) is bytes for item in items)
    _check(good, "a key of unknown form in it")
    _check(kind not in ("hash", "zset") or len(items) % 2 == 0, f"key {name} has half a pair")
    if ttl_ms is not None:
        backup.expiries[name] = ttl_ms
    if kind == "stream":
        backup.log.extend(_entries(items))
    elif kind == "list":
        backup.lists.setdefault(name, []).extend(items)
    elif kind == "string":
        (backup.strings[name],) = items
    elif kind == "hash":
        backup.hashes.setdefault(name, {}).update(zip(items[::2], items[1::2], strict=True))
    else:
        backup.zsets.setdefault(name, {}).update(zip(items[::2], map(int, items[1::2]), strict=True))


def _entries(items: list[bytes]) -> Iterator[tuple[bytes, list[bytes]]]:
    at = 0
    while at < len(items):
        entry, size = items[at], int(items[at + 1])
        _check(_ENTRY.fullmatch(entry) and 0 < size <= len(items) - at - 2 and size % 2 == 0, "a bad entry of the log")
        yield entry, items[at + 2 : at + 2 + size]
        at += 2 + size


# Restores

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
) -> RedisCell:  # fmt: skip
    """Write the backup as cell `name`; an existing one is deleted first. Raises StoreError, Unsuitable.

    The cell exists only once everything is written: an interrupted restore starts again.
    """
    check_schema(backup)
    cell = unread_cell(client, name, Dimensions(backup.resources), url)
    client = cell.client
    try:
        before = {each: int(client.hget(keys.prefix(name) + META, each) or 0) for each in AHEAD}
        lease_ms = max([*leases(backup), *(record.lease_ms for record in cell.executors.records().values())], default=0)
        cell.delete()
        primary = primary_of_backup(backup, before)
        write_records(client, keys.prefix(name), backup, primary, told)
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


def write_records(client: Any, prefix: str, backup: Image, primary: Primary, told: Told) -> None:
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
