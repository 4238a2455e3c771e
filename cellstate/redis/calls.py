"""Calls of a cell's scripts on a server: keys, arguments, tags, errors as messages."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast
from uuid import uuid4

import redis

from omega.cellstate import keys
from omega.cellstate.connections import FRESH_SECONDS, Pool
from omega.cellstate.cuts import LooksBack, Sightings
from omega.cellstate.durability import Durability
from omega.cellstate.errors import BadInput
from omega.cellstate.model import check_author
from omega.cellstate.override import override
from omega.cellstate.redis.link import UNCONFIRMED, Confirmation, confirm, confirmation_of, confirmed
from omega.cellstate.redis.records import UNREADABLE
from omega.cellstate.redis.scripts import READING, Script, dry_script, script
from omega.cellstate.resources import LARGEST, Dimensions
from omega.cellstate.server import at_cell, translate
from omega.cellstate.transaction import Position

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


if TYPE_CHECKING:
    from omega.cellstate.ports import StoredCell
else:
    StoredCell = LooksBack  # the import of the ports would take a command some milliseconds


class RedisCalls(StoredCell):
    """The scripts of one cell over one client. One object serves one thread."""

    def __init__(self, client: "redis.Redis", name: str, dimensions: Dimensions, url: str = "") -> None:
        """Use the cell `name` over `client`; `url` is for messages."""
        self.name, self.dimensions, self.url = name, dimensions, url
        self._prefix = keys.prefix(name)
        self.client = at_cell(client, self._prefix)
        self.sightings = Sightings()
        pool = self.client.connection_pool
        self._pool = pool if isinstance(pool, Pool) else Pool  # which says that nothing was opened
        self._opened = self._pool.opened
        self._author = ""
        self._tag = _tags()
        self._known: dict[str, set[str]] = {}
        self._members: list[str] = []
        self.durability = Durability()
        self.unchecked = False
        self.dry = False
        self._confirmation: Confirmation | None = None
        self.unreadable: dict[tuple[str, str], str] = {}
        """Records that were left out of a result because they cannot be read: (key, field) → reason."""

    def _command(self, command: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
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

    def _see(self, position: Position) -> None:
        """Note a version with its tag; after connections were opened only once the cell was compared."""
        if self._opened == self._pool.opened and not self.dry:
            self.sightings.add(position)

    def _reopened(self) -> None:
        """Compare what was seen of the cell with it (cellstate/redis/reads.py)."""

    def _wait_at(self, key: str, seconds: float) -> bool:
        """Return whether a list has an entry, waiting for one at most `seconds`; the entry stays.

        Where another server may become the primary, it waits in parts: before each it leaves the last one.
        """
        pool = self.client.connection_pool
        part = FRESH_SECONDS if isinstance(pool, Pool) and pool.located is not None else seconds
        while seconds > 0:
            if self._command(self.client.blmove, key, key, max(0.01, min(part, seconds)), "LEFT", "LEFT"):
                return True
            seconds -= part
        return False

    def _record(
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

    def _readable(
        self, key: str, records: Iterable[tuple[bytes, bytes]], read: Callable[Concatenate[bytes, Arguments], Read],
        *args: Arguments.args, **options: Arguments.kwargs,
    ) -> Iterator[tuple[str, Read]]:  # fmt: skip
        """Yield the fields and what `read` returns of their records, without those that cannot be read."""
        for field, record in records:
            value = self._record(key, field, read, record, *args, **options)
            if value is not None:
                yield field.decode(errors="replace"), value

    def _hash(self, key: str) -> dict[bytes, bytes]:
        """Return all fields of a hash and their values."""
        return cast("dict[bytes, bytes]", self._command(self.client.hgetall, self._prefix + key))

    def _fields(self, key: str, fields: Sequence[Name], most: int = 4_000) -> Iterator[tuple[Name, bytes | None]]:
        """Yield fields of a hash and their values, `most` per command."""
        for start in range(0, len(fields), most):
            chunk = list(fields[start : start + most])
            yield from zip(chunk, self._command(self.client.hmget, self._prefix + key, chunk), strict=True)

    def _run(
        self, name: str, values: Mapping[str, object], rest: Sequence[object] = (), *, member: str = "",
        extra: Iterable[str] = (), own: Mapping[str, str] | None = None,
    ) -> list[Any]:  # fmt: skip
        """Call a script, again with further keys when it requests them. Raises StoreError.

        `own`: names of those of the script's keys that belong to one job, or one name.
        """
        chosen, names = self._script(name), set(extra)
        arguments = chosen.pack_arguments(values, rest)
        while True:
            reply: list[Any] = self._command(self._exchange, chosen, self._keys(chosen, member, names, own), arguments)
            if not reply or reply[0] != b"keys":
                return reply
            names |= self._learn(reply[1:])

    def _script(self, name: str) -> Script:
        return dry_script(name) if self.dry else script(name)

    @override
    @contextmanager
    def dry_run(self) -> Iterator[None]:
        self.dry, confirmation, self._confirmation = True, self._confirmation, None
        try:
            yield
        finally:
            self.dry, self._confirmation = False, confirmation

    def _exchange(self, chosen: Script, full: list[str], arguments: Sequence[Any]) -> Any:
        return with_scripts(self.client, lambda: self._evaluate(chosen, full, arguments), chosen)

    def _evaluate(self, chosen: Script, full: list[str], arguments: Sequence[Any]) -> Any:
        if self._confirmation is None or chosen.name in UNCONFIRMED:
            return self.client.evalsha(chosen.sha, len(full), *full, *arguments)
        return confirmed(self.client, self._confirmation, "EVALSHA", chosen.sha, len(full), *full, *arguments)

    @override
    def await_replicas(self) -> None:
        if not self.dry:
            self._command(confirm, self.client, self.name, self.durability)

    def _adopt(self, durability: Durability) -> None:
        """Acknowledge changes as the cell requires."""
        if durability != self.durability:
            self.durability, self._confirmation = durability, confirmation_of(self.name, durability)

    def _learn(self, names: Iterable[bytes]) -> set[str]:
        wanted = {name.decode() for name in names}
        for name in wanted:
            self._known.setdefault(name.partition(":")[0], set()).add(name)
        return wanted

    def _keys(
        self, chosen: Script, member: str, extra: Iterable[str], own: Mapping[str, str] | None = None
    ) -> list[str]:
        names = {"lease": f"lease:{member}", **(own or {})}
        fixed = [self._prefix + names.get(key, key) for key in chosen.keys]
        return fixed + [self._prefix + name for name in sorted(extra)]

    def _values(self, at_ms: int, by: str) -> dict[str, object]:
        self._author = by
        return {"dims": len(self.dimensions), "tag": self._tag(), "at": at_ms, "by": _author(by)}

    def _check(self, what: str, amounts: Sequence[int], most: int = LARGEST) -> None:
        """Refuse amounts that the scripts cannot read: an error in a script would not be rolled back (semantics 12)."""
        if len(amounts) != len(self.dimensions):
            raise BadInput(f"{what}: {len(amounts)} amounts; want one for each of {', '.join(self.dimensions.names)}")
        if any(not 0 <= amount <= most for amount in amounts):
            raise BadInput(f"{what}: amounts {list(amounts)}; each is from 0 to {most}")

    def _hints(self) -> set[str]:
        """Return keys that freed or new work may need: known mailboxes and queues, tokens of live members."""
        return self._known.get("box", set()) | self._known.get("pending", set()) | self._wakes()

    @override
    def may_wake(self, members: Iterable[str]) -> None:
        self._members = sorted(members)

    def _wakes(self) -> set[str]:
        return {"asleep", *(f"wake:{member}" for member in self._members)} if self._members else set()
