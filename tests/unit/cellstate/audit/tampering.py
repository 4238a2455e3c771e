"""Every way to tamper with a stored cell: each key, entry and word is removed, changed, duplicated and moved.

The table follows from what a cell stores. It knows the types of a server and how records are written (text in words,
numbers of eight bytes, MessagePack), and no key by name except where a record is binary.
"""

import re
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgpack

from omega.cellstate.redis.job_records import decode, encode

WAYS = ("removed", "changed", "duplicated", "moved")
BINARY = {"machines": 0, "changes": 10, "lanes": 0}
"""Records of numbers of eight bytes, and how many characters are before them."""
FIRST_ROW, LANE = 64, 88
"""Bytes of a machine's record with two resources; of several in one entry the first stands for the others. Bytes of
a lane's record before its name."""
_WORDS = re.compile(r"([ ;,:@<>!\n/+-])")
Edit = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Tampering:
    """One row of the table: which key (by its name), what of it, in which way."""

    key: str
    place: str
    way: str
    edit: Edit
    keys: tuple[str, ...]
    """The keys that it touches."""

    @property
    def row(self) -> str:
        """As the list of exceptions names it."""
        return f"{self.key} {self.place} {self.way}"


def words_of(text: str, way: str) -> Iterator[tuple[str, str]]:
    """Every word of a text edited in one way: its place, and the text then."""
    pieces = _WORDS.split(text)
    places = [i for i in range(0, len(pieces), 2) if pieces[i]]
    for number, at in enumerate(places):
        now = list(pieces)
        if way == "removed":
            now[at] = ""
        elif way == "changed":
            now[at] = str(int(now[at]) + 1) if now[at].isdigit() else now[at] + "x"
        elif way == "duplicated":
            now[at] = f"{now[at]} {now[at]}"
        elif number + 1 < len(places):
            now[at], now[places[number + 1]] = now[places[number + 1]], now[at]
        if now != pieces:
            yield f"word {number}", "".join(now)


def numbers_of(record: bytes, lead: int, way: str, length: int = FIRST_ROW) -> Iterator[tuple[str, bytes]]:
    """Every number of a binary record, and the characters before them, edited in one way."""
    end = lead + length
    head, rest = record[:lead], record[end:]
    numbers = [record[i : i + 8] for i in range(lead, min(end, len(record)), 8)]
    if head:
        tag = {"removed": head[1:], "changed": head[:-1] + b"_", "duplicated": head + head, "moved": head[::-1]}[way]
        yield "tag", tag + b"".join(numbers) + rest
    for at, number in enumerate(numbers):
        now = list(numbers)
        if way == "removed":
            now[at] = b""
        elif way == "changed":
            now[at] = struct.pack("<q", struct.unpack("<q", number)[0] + 1)
        elif way == "duplicated":
            now[at] = number + number
        elif at + 1 < len(numbers):
            now[at], now[at + 1] = now[at + 1], now[at]
        if now != numbers:
            yield f"number {at}", head + b"".join(now) + rest


def packed_of(data: bytes, way: str) -> Iterator[tuple[str, bytes]]:
    """MessagePack with its first entry edited in one way, and cut short."""
    values: Any = msgpack.unpackb(data)
    if way == "removed":
        yield "bytes", data[:-1]
    names = list(values)
    first = values[names[0]]
    if way == "removed":
        del values[names[0]]
    elif way == "changed":
        values[names[0]] = first[1:] if isinstance(first, list) else f"{first}x"
    elif way == "duplicated":
        values[f"{names[0]}2"] = first
    elif len(names) > 1:
        values[names[0]], values[names[1]] = values[names[1]], first
    if msgpack.packb(values) != data:
        yield "entry", msgpack.packb(values)


def fields_of(record: bytes, way: str) -> Iterator[tuple[str, bytes]]:
    """Every field of a job's record, and of its last group, edited in one way; the record cut short, or longer."""
    job = decode(record, 2)
    group = job["groups"][-1]
    if way in ("removed", "duplicated"):
        yield "bytes", record[:-1] if way == "removed" else record + record[-1:]
    for lead, fields in (("", job), ("group ", group)):
        names = [name for name in fields if name not in ("groups", "need", "size")]
        for at, name in enumerate(names):
            value, after = fields[name], fields[names[(at + 1) % len(names)]]
            moved = after if type(after) is type(value) else value
            edits = list(words_of(value, way)) if isinstance(value, str) else [("", _number(value, moved, way))]
            for place, now in edits:
                changed = fields | {name: now}
                whole = changed if not lead else {**job, "groups": [*job["groups"][:-1], changed]}
                with suppress(struct.error):  # does not fit its field, so that nothing can write it
                    if encode(whole) != record:
                        yield f"{lead}{name} {place}".rstrip(), encode(whole)


def _number(value: int, other: int, way: str) -> int:
    edited = {"removed": 0, "changed": value + 1, "duplicated": 2 * value, "moved": other}[way]
    return bool(edited % 2) if isinstance(value, bool) else edited


def record_of(key: str, value: bytes, way: str) -> Iterator[tuple[str, bytes]]:
    """Every part of a record edited in one way."""
    if key == "jobs":
        yield from fields_of(value, way)
        return
    if key == "box":  # the first message of a call stands for the others
        first, newline, rest = value.partition(b"\n")
        yield from ((place, text.encode() + newline + rest) for place, text in words_of(first.decode(), way))
        return
    if key in BINARY and len(value) >= FIRST_ROW + BINARY[key]:
        if key == "lanes":
            for place, name in words_of(value[LANE:].decode(), way):
                yield f"name {place}", value[:LANE] + name.encode()
            for place, record in numbers_of(value[:LANE], 0, way, LANE):
                yield place, record + value[LANE:]
        else:
            yield from numbers_of(value, BINARY[key], way)
        return
    if value[:1] and 0x90 <= value[0] <= 0x9F:  # a packed list
        edited = {"removed": value[:-1], "changed": value[:-1] + bytes([value[-1] ^ 1]), "duplicated": value * 2}
        if way in edited:
            yield "bytes", edited[way]
        return
    head, newline, packed = value.partition(b"\n")
    for lead, data in ((b"", value), (head + newline, packed)):
        if (data[:1] and 0x80 <= data[0] <= 0x8F) or data[:1] == b"\xde":
            for place, now in packed_of(data, way):
                yield place, lead + now
            value = lead[:-1]
            break
    if value:
        tail = newline + packed if value == head and newline and packed[:1] and packed[0] >= 0x80 else b""
        for place, text in words_of(value.decode(), way):
            yield place, text.encode() + tail


class Table:
    """The table of a cell whose keys all begin with `prefix`."""

    def __init__(self, client: Any, prefix: str) -> None:
        self.client, self.prefix = client, prefix
        self.keys = sorted(key.decode() for key in client.keys(prefix + "*"))
        self.saved: Mapping[str, tuple[int, bytes]] = {
            key: (max(client.pttl(key), 0), client.dump(key)) for key in self.keys
        }

    def restore(self, keys: tuple[str, ...]) -> None:
        """Undo what was done to these keys."""
        for key in keys:
            if key in self.saved:
                ttl, value = self.saved[key]
                self.client.restore(key, ttl, value, replace=True)
            else:
                self.client.delete(key)

    def rows(self) -> Iterator[Tampering]:
        """All of it: every key, every field; for the parts of a record one or two of each name stand for the others."""
        seen: set[str] = set()
        for key in self.keys:
            name = key.removeprefix(self.prefix).partition(":")[0]
            kind = self.client.type(key).decode()
            for way in WAYS:
                yield self._whole(name, key, way)
                for place, edit in getattr(self, f"_{kind}")(name, key, way) if name not in seen else ():
                    yield Tampering(name, place, way, edit, (key,))
            seen.add(name)

    def _whole(self, name: str, key: str, way: str) -> Tampering:
        client, other = self.client, f"{key}2"
        edits: dict[str, Edit] = {
            "removed": lambda: client.delete(key),
            "changed": lambda: (client.delete(key), client.pfadd(key, "x")),
            "duplicated": lambda: client.copy(key, other),
            "moved": lambda: client.rename(key, other),
        }
        if client.type(key) == b"string":
            edits["changed"] = lambda: (client.delete(key), client.rpush(key, "x"))
        return Tampering(name, "key", way, edits[way], (key, other))

    def _hash(self, name: str, key: str, way: str) -> Iterator[tuple[str, Edit]]:
        client, fields = self.client, dict(sorted(self.client.hgetall(key).items()))
        chosen = list(fields) if name == "meta" else self._examples(fields)
        for number, field in enumerate([*chosen, *(each for each in fields if each not in chosen)]):
            value, parts = fields[field], number < len(chosen)
            word = number if parts else "other" if value not in (b"", b"-") else "empty"
            place = f"field {field.decode()}" if name == "meta" else f"field {word}"
            others = [each for each in fields if fields[each] != value]
            edits: dict[str, Edit] = {
                "removed": partial(client.hdel, key, field),
                "changed": partial(self._rename_field, key, field, value),
                "duplicated": partial(client.hset, key, field + b"2", value),
            }
            if others:
                edits["moved"] = partial(client.hset, key, mapping={field: fields[others[0]], others[0]: value})
            if way in edits:
                yield place, edits[way]
            for part, now in record_of(name, value, way) if parts else ():
                yield f"{place} {part}", partial(client.hset, key, field, now)

    def _rename_field(self, key: str, field: bytes, value: bytes) -> None:
        self.client.hdel(key, field)
        self.client.hset(key, field + b"2", value)

    @staticmethod
    def _examples(fields: Mapping[bytes, bytes]) -> list[bytes]:
        """The longest record stands for the others; so does the shortest that is not empty."""
        ranked = sorted((field for field in fields if fields[field]), key=lambda field: (len(fields[field]), field))
        return list(dict.fromkeys((ranked[-1], ranked[0])))

    def _list(self, name: str, key: str, way: str) -> Iterator[tuple[str, Edit]]:
        items = self.client.lrange(key, 0, -1)
        at = max(range(len(items)), key=lambda i: len(items[i]))

        def put(now: list[bytes]) -> Edit:
            return lambda: (self.client.delete(key), self.client.rpush(key, *now) if now else None)

        edited = {
            "removed": [*items[:at], *items[at + 1 :]], "duplicated": [*items, items[at]],
            "moved": [items[at], *items[:at], *items[at + 1 :]],
        }.get(way)  # fmt: skip
        if edited is not None and edited != items:
            yield "item", put(edited)
        for part, now in record_of(name, items[at], way):
            yield f"item {part}", put([*items[:at], now, *items[at + 1 :]])

    def _zset(self, name: str, key: str, way: str) -> Iterator[tuple[str, Edit]]:
        del name
        client, members = self.client, self.client.zrange(key, 0, -1, withscores=True)
        (first, score), (last, other) = members[0], members[-1]
        bucket = b"00" + first[2:] if first[:2] != b"00" else b"01" + first[2:]
        equal = score == other
        yield from {
            "removed": [("member", lambda: client.zrem(key, first))],
            "changed": [
                ("member", lambda: (client.zrem(key, first), client.zadd(key, {first + b"x": score}))),
                ("bucket", lambda: (client.zrem(key, first), client.zadd(key, {bucket: score}))),
                ("score", lambda: client.zadd(key, {first: score + 0.5})),
                ("score more", lambda: client.zadd(key, {first: other + 1})),
            ],
            "duplicated": [
                ("member", lambda: client.zadd(key, {bucket: score})),
                *([] if equal else [("score", lambda: client.zadd(key, {first: other}))]),
            ],
            "moved": [] if equal else [("score", lambda: client.zadd(key, {first: other, last: score}))],
        }[way]

    def _string(self, name: str, key: str, way: str) -> Iterator[tuple[str, Edit]]:
        for part, now in record_of(name, self.client.get(key), way):
            yield part, partial(self.client.set, key, now, keepttl=True)
        if way == "changed":
            yield "expiry", lambda: self.client.persist(key)

    def _stream(self, name: str, key: str, way: str) -> Iterator[tuple[str, Edit]]:
        """An entry for each word that facts begin with: the last one that has it."""
        del name
        entries = self.client.xrange(key)

        def put(at: int, fields: Mapping[bytes, bytes] | None, extra: bytes | None = None) -> Edit:
            def edit() -> None:
                self.client.delete(key)
                for number, (name, now) in enumerate(entries):
                    chosen = fields if number == at else now
                    if chosen is not None:
                        self.client.xadd(key, dict(chosen), id=name)
                    if number == at and extra is not None:
                        self.client.xadd(key, dict(now), id=extra)

            return edit

        # Time and author of a submission stand in its jobs as well.
        others = [at for at, (_, fields) in enumerate(entries[:-1]) if not fields[b"facts"].startswith(b"submit")]
        middle = others[len(others) // 2]
        fields = entries[middle][1]
        if way == "removed":
            yield "entry", put(middle, None)
        elif way == "duplicated":
            yield "entry", put(middle, fields, entries[middle][0].replace(b"-0", b"-1"))
        elif way == "moved":
            yield "entry", put(middle, entries[middle + 1][1])
        yield from self._beside(entries, put, way)
        for field in (b"at", b"by"):
            if way == "removed":
                yield field.decode(), put(middle, {name: text for name, text in fields.items() if name != field})
            elif way == "changed":
                yield field.decode(), put(middle, {**fields, field: fields[field] + b"1"})
        for fact, (at, line) in self._facts(entries).items():
            text = entries[at][1][b"facts"].decode()
            for place, now in self._lines(line, way):
                yield f"{fact} {place}", put(at, {**entries[at][1], b"facts": text.replace(line, now, 1).encode()})

    @staticmethod
    def _beside(entries: Any, put: Callable[..., Edit], way: str) -> Iterator[tuple[str, Edit]]:
        for field in (b"basis", b"settings"):
            at = next((at for at, (_, fields) in enumerate(entries) if fields.get(field)), None)
            if at is not None and way == "removed":
                rest = {name: text for name, text in entries[at][1].items() if name != field}
                yield field.decode(), put(at, rest)
            elif at is not None and way == "changed":
                yield field.decode(), put(at, {**entries[at][1], field: entries[at][1][field] + b"x"})

    @staticmethod
    def _facts(entries: Any) -> dict[str, tuple[int, str]]:
        found: dict[str, tuple[int, str]] = {}
        for at, (_, fields) in enumerate(entries):
            for line in fields[b"facts"].decode().split("\n"):
                found[line.split(" ")[0]] = at, line
        return found

    @staticmethod
    def _lines(line: str, way: str) -> Iterator[tuple[str, str]]:
        if way == "removed":
            yield "line", ""
        elif way == "duplicated":
            yield "line", f"{line}\n{line}"
        yield from words_of(line, way)
