"""Calls of a cell's scripts on a server: keys, arguments, tags, errors as messages; cuts of its history."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import lru_cache
from typing import Any, Concatenate, ParamSpec, TypeVar, cast
from uuid import uuid4

import redis

from omega.cellstate import keys
from omega.cellstate.connections import FRESH_SECONDS, Pool
from omega.cellstate.cuts import (
    CUTS_KEPT,
    NO_CUTS,
    PLACEMENTS_AHEAD,
    REPORTERS,
    Cut,
    Cuts,
    LooksBack,
    Report,
    Sightings,
    Standing,
    read_cut,
    read_cuts,
)
from omega.cellstate.durability import Durability
from omega.cellstate.errors import BadInput, Forbidden, Refused, StoreError, Unreachable
from omega.cellstate.model import check_author
from omega.cellstate.pages import TOTALS
from omega.cellstate.redis import records
from omega.cellstate.redis.link import UNCONFIRMED, Confirmation, confirm, confirmation_of, confirmed
from omega.cellstate.redis.records import UNREADABLE
from omega.cellstate.redis.scripts import READING, Script, dry_script, script
from omega.cellstate.resources import LARGEST, Dimensions
from omega.cellstate.server import at_cell, translate
from omega.cellstate.transaction import Intake, Position

Name = TypeVar("Name", int, str)
Read = TypeVar("Read")
Arguments = ParamSpec("Arguments")

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_PAIRS = [first + second for first in _DIGITS for second in _DIGITS]
_SQUARE = len(_PAIRS)
MOST_LOADS = 5
"""How often the scripts of a call are loaded: another server may become the primary between loading and calling."""


def _tags() -> Callable[[], str]:
    """Return a generator of random tags of ten characters, one per changing call (semantics 16)."""
    nonce, count, pairs = uuid4().int, 0, _PAIRS
    start = "".join(pairs[nonce // _SQUARE**i % _SQUARE] for i in range(3))

    def tag() -> str:
        nonlocal count
        count += 1
        return start + pairs[count // _SQUARE % _SQUARE] + pairs[count % _SQUARE]

    return tag


def load_scripts(client: Any, *missing: Script) -> None:
    """Load scripts, and with them those of readers, who may not load any. Raises NoScriptError for a reader."""
    texts = dict.fromkeys((*(each.text for each in missing), *(script(name).text for name in READING)))
    try:
        for text in texts:
            client.script_load(text)
    except redis.exceptions.NoPermissionError as error:
        raise redis.exceptions.NoScriptError(str(error)) from error


def with_scripts(client: Any, call: Callable[[], Read], *needed: Script) -> Read:
    """Return what `call` returns; the scripts that it needs are loaded while the server lacks them."""
    for _ in range(MOST_LOADS):
        try:
            return call()
        except redis.exceptions.NoScriptError:
            load_scripts(client, *needed)
    return call()


_author = lru_cache(maxsize=256)(check_author)
"""The check of an author's name: most calls of a process have the same."""


CHUNK = 10_000
"""Approximate number of machines per chunk of a full read: 3 ms of the server's time."""
_NO_COUNTERS = TOTALS | {"resources", "ticks", "durability"}
"""The fields of ``meta`` that `counters` leaves out."""
UNCOMPARED = -1
"""Number of opened connections of which none was compared."""
UNNAMED = "client"
"""The author of a report by a process that has changed nothing yet."""


class Connection(LooksBack):
    """The scripts of one cell over one client, and the comparison of what this process saw of the cell with it.

    After each new connection it looks for cuts of the cell's history (cellstate/cuts.py).
    """

    def __init__(self, client: "redis.Redis", name: str, dimensions: Dimensions, url: str = "") -> None:
        """Use the cell `name` over `client`; `url` is for messages."""
        self.name, self.dimensions, self.url = name, dimensions, url
        self.prefix = keys.prefix(name)
        self.client = at_cell(client, self.prefix)
        """The client of the server; backups read keys with it as they are."""
        self.sightings = Sightings()
        pool = self.client.connection_pool
        self._pool = pool if isinstance(pool, Pool) else Pool  # which says that nothing was opened
        self._opened = self._pool.opened
        self._comparing = False
        """Whether a comparison is in progress, whose own calls may open further connections."""
        self._author = ""
        self._tag = _tags()
        self.known_keys: dict[str, set[str]] = {}
        """Keys that earlier calls needed, by the first word of their names."""
        self.live_members: list[str] = []
        self.durability = Durability()
        """What a change needs before it is acknowledged, as read when the cell was opened."""
        self.unchecked = False
        """Whether the durability requires settings of the server that this user may not read."""
        self.dry = False
        """Whether changes are only checked and answered: what is read afterwards is as before."""
        self.confirmation: Confirmation | None = None
        self.unreadable: dict[tuple[str, str], str] = {}
        """Records that were left out of a result because they cannot be read: (key, field) → reason."""

    def command(self, command: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Run a command of the client and translate its errors. None when the server ended a wait early.

        After connections were opened the versions that were seen are compared first: the server may be another one.
        """
        if self._opened != self._pool.opened:
            self._reopened()
        try:
            return command(*arguments, **options)
        except (redis.RedisError, OSError) as error:
            if str(error).startswith("UNBLOCKED"):
                return None  # it became a replica, or the wait was unblocked: the next command shows which
            raise translate(error, self.url) from error

    def see(self, position: Position) -> None:
        """Note a version with its tag; after connections were opened only once the cell was compared."""
        if self._opened == self._pool.opened and not self.dry:
            self.sightings.add(position)

    def compare(self) -> None:
        """Compare what was seen of the cell with it where connections were opened since then."""
        if self._opened != self._pool.opened:
            self._reopened()

    def _reopened(self) -> None:
        if self._comparing:
            return
        opened = self._pool.opened
        if not self.sightings.last.version:
            self._opened = opened
            return
        try:
            self.look_back()
        except Forbidden:
            self._opened = opened  # the next command meets the same
        except (Refused, StoreError) as error:
            self._opened = UNCOMPARED  # the next command compares again: perhaps this server becomes the primary first
            if isinstance(error, Unreachable):
                raise

    def look_back(self) -> Cut | None:
        if self._comparing:
            return None
        self._comparing, partings = True, self.sightings.partings
        try:
            return super().look_back()
        finally:
            self._comparing = False
            if partings != self.sightings.partings:
                self._forget_versions()

    def _forget_versions(self) -> None:
        """Drop what this object keeps by the versions of records: they may be of other records now."""

    def report_cut(self, report: Report) -> Cut | None:
        now = self.store_ms()
        values = asdict(report) | self.values(now, report.by or self._author or UNNAMED)
        values |= {"now": now, "kept": CUTS_KEPT, "reporters": REPORTERS, "ahead": PLACEMENTS_AHEAD}
        try:
            _, number, record = self.run("report_cut", values)
        except Forbidden:
            return None
        return read_cut(int(number), record.decode())

    def standing(self, positions: Sequence[Position]) -> Standing:
        words = [word for position in positions for word in position]
        _, version, tag, cuts, agreed, lost = self.run("agreed", {}, words)
        self._opened = self._pool.opened  # of connections that are opened later nothing is known
        present = Position(int(version), tag.decode())
        return Standing(present, int(cuts), int(agreed) if agreed else None, int(lost) if lost else None)

    def cuts(self) -> Cuts:
        return self.record("cuts", "", read_cuts, self.hash_of("cuts")) or NO_CUTS

    # Commands and scripts

    def wait_at(self, key: str, seconds: float) -> str:
        """Return the first entry of a list, waiting for one at most `seconds`; the entry stays. ``""``: there is none.

        Where another server may become the primary, it waits in parts: before each it leaves the last one.
        """
        pool = self.client.connection_pool
        part = FRESH_SECONDS if isinstance(pool, Pool) and pool.located is not None else seconds
        while seconds > 0:
            entry = self.command(self.client.blmove, key, key, max(0.01, min(part, seconds)), "LEFT", "LEFT")
            if entry:
                return str(entry.decode())
            seconds -= part
        return ""

    def record(
        self, key: str, field: str | bytes, read: Callable[Arguments, Read], *args: Arguments.args,
        **options: Arguments.kwargs,
    ) -> Read | None:  # fmt: skip
        """Return `read` of a record; None when that fails, which is noted in `unreadable`."""
        try:
            return read(*args, **options)
        except UNREADABLE as error:
            name = field if isinstance(field, str) else field.decode(errors="replace")
            self.unreadable[key, name] = str(error) or type(error).__name__
            return None

    def readable(
        self, key: str, records: Iterable[tuple[bytes, bytes]], read: Callable[Concatenate[bytes, Arguments], Read],
        *args: Arguments.args, **options: Arguments.kwargs,
    ) -> Iterator[tuple[str, Read]]:  # fmt: skip
        """Yield the fields and what `read` returns of their records, without those that cannot be read."""
        for field, record in records:
            value = self.record(key, field, read, record, *args, **options)
            if value is not None:
                yield field.decode(errors="replace"), value

    def hash_of(self, key: str) -> dict[bytes, bytes]:
        """Return all fields of a hash and their values."""
        return cast("dict[bytes, bytes]", self.command(self.client.hgetall, self.prefix + key))

    def fields(self, key: str, fields: Sequence[Name], most: int = 4_000) -> Iterator[tuple[Name, bytes | None]]:
        """Yield fields of a hash and their values, `most` per command."""
        for start in range(0, len(fields), most):
            chunk = list(fields[start : start + most])
            yield from zip(chunk, self.command(self.client.hmget, self.prefix + key, chunk), strict=True)

    def run(
        self, name: str, values: Mapping[str, object], rest: Sequence[object] = (), *, member: str = "",
        extra: Iterable[str] = (), own: Mapping[str, str] | None = None,
    ) -> list[Any]:  # fmt: skip
        """Call a script, again with further keys when it requests them. Raises StoreError.

        `own`: names of those of the script's keys that belong to one job, or one name.
        """
        chosen, names = self.script(name), set(extra)
        arguments = chosen.pack_arguments(values, rest)
        while True:
            reply: list[Any] = self.command(self._exchange, chosen, self.keys_of(chosen, member, names, own), arguments)
            if not reply or reply[0] != b"keys":
                return reply
            names |= self.learn(reply[1:])

    def script(self, name: str) -> Script:
        return dry_script(name) if self.dry else script(name)

    @contextmanager
    def dry_run(self) -> Iterator[None]:
        """Let the changes of a block be refused and answered as ever, and change nothing."""
        self.dry, confirmation, self.confirmation = True, self.confirmation, None
        try:
            yield
        finally:
            self.dry, self.confirmation = False, confirmation

    def _exchange(self, chosen: Script, full: list[str], arguments: Sequence[Any]) -> Any:
        return with_scripts(self.client, lambda: self._evaluate(chosen, full, arguments), chosen)

    def _evaluate(self, chosen: Script, full: list[str], arguments: Sequence[Any]) -> Any:
        if self.confirmation is None or chosen.name in UNCONFIRMED:
            return self.client.evalsha(chosen.sha, len(full), *full, *arguments)
        return confirmed(self.client, self.confirmation, "EVALSHA", chosen.sha, len(full), *full, *arguments)

    def await_replicas(self) -> None:
        """Wait until replicas have all changes so far, where the cell requires it, also those of other clients.

        For a command that finds its change made. Raises NotReplicated.
        """
        if not self.dry:
            self.command(confirm, self.client, self.name, self.durability)

    def _adopt(self, durability: Durability) -> None:
        """Acknowledge changes as the cell requires."""
        if durability != self.durability:
            self.durability, self.confirmation = durability, confirmation_of(self.name, durability)

    def learn(self, names: Iterable[bytes]) -> set[str]:
        wanted = {name.decode() for name in names}
        for name in wanted:
            self.known_keys.setdefault(name.partition(":")[0], set()).add(name)
        return wanted

    def keys_of(
        self, chosen: Script, member: str, extra: Iterable[str], own: Mapping[str, str] | None = None
    ) -> list[str]:
        names = {"lease": f"lease:{member}", **(own or {})}
        fixed = [self.prefix + names.get(key, key) for key in chosen.keys]
        return fixed + [self.prefix + name for name in sorted(extra)]

    def values(self, at_ms: int, by: str) -> dict[str, object]:
        self._author = by
        return {"dims": len(self.dimensions), "tag": self._tag(), "at": at_ms, "by": _author(by)}

    def check_amounts(self, what: str, amounts: Sequence[int], most: int = LARGEST) -> None:
        """Refuse amounts that the scripts cannot read: an error in a script would not be rolled back (semantics 12)."""
        if len(amounts) != len(self.dimensions):
            raise BadInput(f"{what}: {len(amounts)} amounts; want one for each of {', '.join(self.dimensions.names)}")
        if any(not 0 <= amount <= most for amount in amounts):
            raise BadInput(f"{what}: amounts {list(amounts)}; each is from 0 to {most}")

    def hints(self) -> set[str]:
        """Return keys that freed or new work may need: known mailboxes and queues, tokens of live members."""
        return self.known_keys.get("box", set()) | self.known_keys.get("pending", set()) | self.wakes()

    def wakes(self) -> set[str]:
        if not self.live_members:
            return set()
        return {"asleep", "owners", *(f"wake:{member}" for member in self.live_members)}

    def leases(self, members: list[str]) -> set[str]:
        """Return those of the members that hold their lease, with one command when all do."""
        keys = [f"{self.prefix}lease:{member}" for member in members]
        if not keys or self.command(self.client.exists, *keys) == len(keys):
            return set(members)
        return {name for name, key in zip(members, keys, strict=True) if self.command(self.client.exists, key)}

    def store_ms(self) -> int:
        """Return the server's clock, the one that all agents share, in milliseconds since 1970."""
        seconds, micros = self.command(self.client.time)
        return int(seconds) * 1000 + int(micros) // 1000

    def store_older_than(self, milliseconds: int) -> bool:
        """Return whether the server has been up for so long, and the cell was not restored recently."""
        if self.command(self.client.exists, self.prefix + "settling"):
            return False
        return int(self.command(self.client.info, "server")["uptime_in_seconds"]) * 1000 > milliseconds

    # Reads of all machines and lanes

    def sync_values(self, since: Position, intake: Intake | None) -> dict[str, object]:
        kind, lanes, most, owned = intake or ("-", (), 0, "-")
        asked = ",".join(f"{lane}:{after}:{count}" for lane, after, count in lanes) or "-"
        return {"dims": len(self.dimensions), "since": since.version, "since_tag": since.tag,
                "kind": kind, "asked": asked, "most": most, "owned": owned}  # fmt: skip

    def read_all(self, position: Position | None = None) -> tuple[Position, Any]:
        """Read everything: chunks, then the delta since `position`, the present one or a little older (semantics 18).

        The chunks are plain reads: a script would first create a string of each record.
        """
        while True:
            if position is not None:
                parts = [*self._chunks(), *self._lane_rows()]
            reply = self.run("sync", self.sync_values(position or Position(), None))
            present = Position(int(reply[1]), reply[2].decode())
            if position is not None and (reply[4] == b"delta" or present == position):
                return present, records.read_rows(b"".join([*parts, reply[5]]), len(self.dimensions))
            position = present

    def _chunks(self) -> Iterator[bytes]:
        """Yield the records of all machines in chunks; of a machine that occurs twice the later record is newer.

        A scan needs no names of machines, which halves the cost of a chunk.
        """
        cursor = None
        while cursor != 0:
            cursor, chunk = self.command(self.client.hscan, self.prefix + "machines", cursor or 0, count=CHUNK)
            whole, width = b"".join(chunk.values()), records.row_bytes(len(self.dimensions))
            if len(whole) != width * len(chunk):
                whole = b"".join(self.whole_rows(chunk, width))
            yield whole

    def _lane_rows(self) -> Iterator[bytes]:
        """Yield the rows of all lanes."""
        rows = self.readable("lanes", self.lane_records(), records.lane_row, len(self.dimensions))
        return (row for _, (row, *_) in rows)

    def lane_records(self) -> Iterator[tuple[bytes, bytes]]:
        return (each for each in self.hash_of("lanes").items() if each[0] != b"spare")

    def whole_rows(self, rows: Mapping[bytes, bytes], width: int) -> Iterator[bytes]:
        """Yield the records of machines with the right length; others are noted as unreadable."""
        for index, record in rows.items():
            if len(record) == width:
                yield record
            else:
                self.unreadable["machines", index.decode(errors="replace")] = f"{len(record)} bytes, not {width}"

    def counters(self) -> dict[str, int]:
        """Return the cell's version, floor and other counters; a missing one is 0."""
        stored = (each for each in self.hash_of("meta").items() if each[0].decode() not in _NO_COUNTERS)
        counters = dict.fromkeys(("version", "floor", "placements", "arrivals", "transactions", "jobs", "lanes"), 0)
        return counters | dict(self.readable("meta", stored, int))
