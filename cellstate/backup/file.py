"""Image files: consecutive MessagePack objects, validated on reading because anyone may have written them.

    ["omega-backup", 1, {"cell", "resources", "schema", "at_ms", "version", "by"}]      a cell begins
    [key, type, ttl_ms or nil, [bytes, …]]                                              a piece of a key
    ["end", number of these, BLAKE2b of all objects of the cell so far]                 a cell ends

Keys are named without the cell's prefix. Items of a hash are names and values in turn, of a sorted set members and
scores, of the log an entry's id and then its number of words and the words. The items of a key are those of its pieces
joined; a piece has whole pairs and entries.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import chain
from typing import Any, BinaryIO

import msgpack

from omega.cellstate.errors import BadInput
from omega.cellstate.redis.image import CHUNK, KINDS, Image

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
