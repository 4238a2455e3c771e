"""Tampering made from the tables of the product: each field of a job, each index, each kind of fact, in four ways.

A value is removed (empty, or 0), doubled (twice the number, the text or the entry), moved (that of another job, entry
or version) or changed (one more, another letter). What one way leaves as it was is left out.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from random import Random

from omega.cellstate import derive
from omega.cellstate.events import FORMS
from omega.cellstate.schema import CHANGING, FIXED, GROUP
from omega.cellstate.verify import Log
from tests.unit.cellstate.audit.tampered import is_missed
from tests.unit.cellstate.audit.tampering import WAYS, Edit, Table, Tampering
from tests.unit.cellstate.audit.town import Town

JOBS = ("part", "lossy", "slow", "strict")
"""Jobs whose fields are changed: by turns, so that each way meets each of them."""

UNSEEN: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("`copied`", "a job added that is not kept"): (r"copied index duplicated",),
    ("`times` `done` `outputs`", "times; the order of entries"): (r"(done|outputs) index moved",),
    ("`pending`", "another arrival that no job has, in the same order"): (r"pending index changed",),
    ("`jobnames`", "the name of ended jobs removed"): (r"jobnames index removed",),
    ("`log`", "facts of conflicts, refusals, executors that cannot start tasks, lost versions and replaced pools"):
        (r"log (conflict|aborted|rejected|fit|unfit|cut|reset) \w+", r"log pool (changed|removed)"),
    ("`log`", "reasons; equal amounts that trade places; which tasks got copies; the machine of a late report"):
        (r"log (finished|failed|lost|retried|evicted|stopped|left|stalled|late|speculate|unneeded) changed",),
    ("`log`", "amounts and shares of an `assert`, or that it is there twice"): (r"log assert (changed|duplicated)",),
    ("`log`", "an `awaited`, `gate`, `hold` or `pass` fact that others replace"):
        (r"log awaited (duplicated|removed)", r"log gate changed", r"log (hold|pass) removed"),
    ("`log`", "a fact moved to the next version"): (r"log \w+ moved",),
}  # a table # fmt: skip
"""Rows of the page (docs/semantics.md, Verification), and patterns of these changes that each is about."""


def tamperings(town: Town, seed: str) -> list[Tampering]:
    """All of them, in the same order for the same seed."""
    rng = Random(seed)
    made = [*_fields(town, rng), *_indexes(town, rng), *_facts(town, rng)]
    rng.shuffle(made)
    return made


def missed(town: Town, chosen: list[Tampering]) -> list[Tampering]:
    """Those of the tamperings that one reading of the audit does not show."""
    table, log, found = Table(town.client, town.prefix), Log(town.cell), list[Tampering]()
    for tampering in chosen:
        tampering.edit()
        if is_missed(town, log, tampering.key):
            found.append(tampering)
        table.restore(tampering.keys)
    return found


def unexplained(rows: list[str]) -> list[str]:
    """Those of the missed rows that no row of the page covers."""
    patterns = [pattern for each in UNSEEN.values() for pattern in each]
    return [row for row in rows if not any(re.fullmatch(pattern, row) for pattern in patterns)]


# Fields of the schema


def _fields(town: Town, rng: Random) -> Iterator[Tampering]:
    for number, field in enumerate((*CHANGING, *FIXED, *GROUP)):
        for turn, way in enumerate(WAYS):
            job = JOBS[(number + turn) % len(JOBS)]
            own, other = town.fields(job), town.fields(rng.choice([each for each in JOBS if each != job]))
            group = field in GROUP
            value, theirs = (each["groups"][0][field.name] if group else each[field.name] for each in (own, other))
            now = _otherwise(value, theirs, way)
            if now != value and field.name != "size":
                edit = (
                    partial(town.group, job, 0, **{field.name: now})
                    if group
                    else partial(town.job, job, **{field.name: now})
                )
                key = town.prefix + "jobs"
                yield Tampering("jobs", f"field {'group ' * group}{field.name}", way, edit, (key,))


def _otherwise(value: object, theirs: object, way: str) -> object:
    if way == "moved":
        return theirs
    if isinstance(value, bool):
        return not value if way == "changed" else False if way == "removed" else value
    if isinstance(value, int):
        return {"removed": 0, "duplicated": 2 * value, "changed": value + 1}[way]
    text = str(value)
    return {"removed": "", "duplicated": text * 2, "changed": f"{text}1"}[way]


# Indexes


def _indexes(town: Town, rng: Random) -> Iterator[Tampering]:
    client = town.client
    keys = sorted(key.decode().removeprefix(town.prefix) for key in client.keys(town.prefix + "*"))
    for name in (key for key in keys if key.partition(":")[0] in {*derive.INDEXES, "lanenames"}):
        key, kind = town.prefix + name, client.type(town.prefix + name)
        make = {b"hash": _of_hash, b"zset": _of_zset, b"list": _of_list}[kind]
        for way in WAYS:
            edit = make(town, name, way, rng)
            if edit is not None:
                yield Tampering(name.partition(":")[0], "index", way, edit, (key,))


def _of_hash(town: Town, name: str, way: str, rng: Random) -> Edit | None:
    client, key = town.client, town.prefix + name
    fields = {
        field: value
        for field, value in sorted(client.hgetall(key).items())
        if derive.follows(name, field) and value not in (b"", b"0", b"-")
    }
    field, other = rng.sample([*fields], 2) if len(fields) > 1 else [*fields] * 2
    edits: dict[str, Callable[[], object]] = {
        "removed": partial(client.hdel, key, field),
        "duplicated": partial(client.hset, key, field + b"2", fields[field]),
        "changed": partial(client.hset, key, field, _more(fields[field])),
        "moved": partial(client.hset, key, mapping={field: fields[other], other: fields[field]}),
    }
    return None if way == "moved" and fields[field] == fields[other] else edits[way]


def _more(value: bytes) -> bytes:
    return b"%d" % (int(value) + 1) if value.isdigit() else value[:-1] + bytes([value[-1] ^ 1])


def _of_zset(town: Town, name: str, way: str, rng: Random) -> Edit | None:
    client, key = town.client, town.prefix + name
    members = dict(client.zrange(key, 0, -1, withscores=True))
    member, other = rng.sample([*members], 2) if len(members) > 1 else [*members] * 2
    edits: dict[str, Callable[[], object]] = {
        "removed": partial(client.zrem, key, member),
        "duplicated": partial(client.zadd, key, {member + b"2": members[member]}),
        "changed": partial(client.zadd, key, {member: members[member] + 1}),
        "moved": partial(client.zadd, key, {member: members[other], other: members[member]}),
    }
    return None if way == "moved" and members[member] == members[other] else edits[way]


def _of_list(town: Town, name: str, way: str, rng: Random) -> Edit | None:
    client, key = town.client, town.prefix + name
    items = client.lrange(key, 0, -1)
    at = rng.randrange(len(items))
    now = {
        "removed": [*items[:at], *items[at + 1 :]],
        "duplicated": [*items, items[at]],
        "changed": [*items[:at], items[at] + b"1", *items[at + 1 :]],
        "moved": [*items[1:], items[0]],
    }[way]
    return None if now == items else lambda: (client.delete(key), client.rpush(key, *now))


# Facts


def _facts(town: Town, rng: Random) -> Iterator[Tampering]:
    client, key = town.client, town.prefix + "log"
    entries = client.xrange(key)
    found: dict[str, list[tuple[int, int]]] = {}
    for at, (_, fields) in enumerate(entries):
        for line, text in enumerate(fields[b"facts"].decode().split("\n")):
            found.setdefault(text.partition(" ")[0], []).append((at, line))
    words = [*FORMS, "places", "submits"]
    for word in (word for word in words if word in found):
        for way in WAYS:
            at, line = rng.choice(found[word])
            lines = entries[at][1][b"facts"].decode().split("\n")
            own = lines.pop(line)
            to = (at + 1) % len(entries)
            facts = {
                "removed": {at: lines},
                "duplicated": {at: [*lines[:line], own, own, *lines[line:]]},
                "moved": {at: lines, to: [*entries[to][1][b"facts"].decode().split("\n"), own]},
                "changed": {at: [*lines[:line], _another(own, rng), *lines[line:]]},
            }[way]
            yield Tampering("log", word, way, partial(_put, town, entries, facts), (key,))


def _another(line: str, rng: Random) -> str:
    """The fact with one of its words changed: a number is one more, a text has a letter more."""
    words = line.split(" ")
    at = rng.randrange(1, len(words))
    words[at] = str(int(words[at]) + 1) if words[at].isdigit() else words[at] + "x"
    return " ".join(words)


def _put(town: Town, entries: list[tuple[bytes, dict[bytes, bytes]]], facts: dict[int, list[str]]) -> None:
    key = town.prefix + "log"
    town.client.delete(key)
    for at, (name, fields) in enumerate(entries):
        now = {b"facts": "\n".join(facts[at]).encode()} if at in facts else {}
        town.client.xadd(key, fields | now, id=name)
