"""A cell as it is stored: the content of its keys, which a backup writes to a file and the audit reads.

Schedulers may change the cell meanwhile. Large keys are read in pages. Records of machines and jobs changed since are
read again in one call (`changed_records.lua`), and all small keys in the same transaction: these are of one version
(semantics 18). Queues and directories that are large may be a little older.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any

from omega.cellstate import keys
from omega.cellstate.redis.calls import with_scripts
from omega.cellstate.redis.job_records import chunk_fields, decode
from omega.cellstate.redis.records import UNREADABLE, RawChangedRecords
from omega.cellstate.redis.scripts import script

if TYPE_CHECKING:
    from omega.cellstate.redis.calls import Connection

BULK = ("machines", "runs", "placed", "static", "jobs", "specs", "jobnames")
"""Hashes of a record per machine or job: every change of one is named by a fact."""
CHUNK, SMALL = 1_000, 4_000
"""Fields of a page, and of a key that is read whole."""
WHOLE = frozenset({"meta", "shapes", "kinds", "lanes", "lanenames", "pools", "usage"})
"""Sums: they are read whole, because parts of them at another version say nothing."""
MOST_AT_ONCE = 20_000
"""Maximum number of machines and jobs in the last read, which occupies the server."""
ROUNDS = 200
KINDS = ("hash", "zset", "list", "string")
_SIZES = {"hash": "hlen", "zset": "zcard"}

Told = Callable[[int], object]
"""Called with the number of records read or written since the last call."""


@dataclass(slots=True, kw_only=True)
class Image:
    """The keys of a cell at `version`, read at `at_ms`, by their names without the cell's prefix."""

    cell: str
    resources: tuple[str, ...]
    schema: int
    at_ms: int
    _: KW_ONLY
    version: int = 0
    hashes: dict[str, dict[bytes, bytes]] = field(default_factory=lambda: {name: {} for name in BULK})
    zsets: dict[str, dict[bytes, float]] = field(default_factory=dict)
    lists: dict[str, list[bytes]] = field(default_factory=dict)
    strings: dict[str, bytes] = field(default_factory=dict)
    expiries: dict[str, int] = field(default_factory=dict)
    """Milliseconds, of keys that expire."""
    log: list[tuple[bytes, list[bytes]]] = field(default_factory=list)
    """Entries of the stream: id, then names and values in turn."""
    others: dict[str, str] = field(default_factory=dict)
    """Types of keys that no cell has."""
    aged: set[str] = field(default_factory=set)
    """Large keys that were read at an earlier version."""
    first: int = 0
    """The oldest version in the log, `length` the number of versions in it, `placements` the last placement id."""
    length: int = 0
    placements: int = 0

    @property
    def records(self) -> int:
        """Number of records."""
        contents = (self.hashes.values(), self.zsets.values(), self.lists.values())
        return sum(len(each) for some in contents for each in some) + len(self.strings) + len(self.log)

    def put(self, kind: str, name: str, content: Any) -> None:
        """Put the content of a key."""
        contents: list[dict[str, Any]] = [self.hashes, self.zsets, self.lists, self.strings]
        contents[KINDS.index(kind)][name] = content

    def take(self, shot: RawChangedRecords) -> None:
        """Replace records by newer ones."""
        hashes = self.hashes
        for index, record, runs, static in shot.machines:
            for name, value in (("machines", record), ("runs", runs), ("static", static)):
                _put(hashes[name], index, value)
        gone = {job.encode() for job, record, *_ in shot.jobs if not record}
        if gone:
            hashes["jobnames"] = {name: job for name, job in hashes["jobnames"].items() if (job or name) not in gone}
        size = len(self.resources)
        for job, record, _, holder, spec in shot.jobs:
            known = hashes["jobs"].get(job.encode())
            _put(hashes["jobs"], job.encode(), record)
            _put(hashes["specs"], job.encode(), spec)
            with suppress(*UNREADABLE):
                for _, chunk in chunk_fields(job, known, size) if known else ():
                    hashes["placed"].pop(chunk.encode(), None)
                if record:
                    called = (decode(record, size)["name"] or job).encode()
                    _put(hashes["jobnames"], called, holder)
                    if holder == called:
                        hashes["jobnames"][called] = b""
        hashes["placed"].update(shot.placed)
        self.version, self.first, self.length, self.placements = shot.version, shot.first, shot.length, shot.placements


def _put(records: dict[bytes, bytes], name: bytes, value: bytes) -> None:
    if value:
        records[name] = value
    else:
        records.pop(name, None)


def read_image(cell: "Connection", at_ms: int, left: Collection[str] = (), told: Told = lambda _: None) -> Image | None:
    """Read a cell without the keys `left` and the log; None when it changes faster than it can be read.

    Raises errors of the client.
    """
    return _Reader(cell, left, told).read(at_ms)


class _Reader:
    def __init__(self, cell: "Connection", left: Collection[str], told: Told) -> None:
        self.client: Any = cell.client
        self.cell, self.left, self.told, self.prefix = cell, left, told, keys.prefix(cell.name)

    def read(self, at_ms: int) -> Image | None:
        schema, version = self.client.hmget(self.prefix + "meta", "schema", "version")
        image = Image(
            cell=self.cell.name, resources=self.cell.dimensions.names, schema=int(schema or 0), at_ms=at_ms,
            version=int(version or 0),
        )  # fmt: skip
        kinds = self._kinds()
        image.others = {name: kind for name, kind in kinds.items() if kind not in KINDS}
        large = {name: kinds[name] for name in self._large(kinds)}
        for name, kind in large.items():
            image.put(kind, name, self._paged(name, kind))
        known = with_scripts(self.client, lambda: self._catch_up(image, large.keys() - BULK), script("changed_records"))
        return image if known else None

    def _kinds(self) -> dict[str, str]:
        """Return the types of the keys that are read."""
        stored = self.client.scan_iter(match=self.prefix.replace("[", "\\[") + "*", count=500)
        names = sorted({key.decode(errors="replace").removeprefix(self.prefix) for key in stored})
        names = [name for name in names if name != "log" and name.partition(":")[0] not in self.left]
        kinds = zip(names, self._each("type", names), strict=True)
        return {name: kind.decode() for name, kind in kinds if kind != b"none"}  # a queue that was emptied meanwhile

    def _each(self, command: str, names: Iterable[str]) -> list[Any]:
        with self.client.pipeline(transaction=False) as pipe:
            for name in names:
                getattr(pipe, command)(self.prefix + name)
            return list(pipe.execute())

    def _large(self, kinds: Mapping[str, str]) -> Iterator[str]:
        for kind, command in _SIZES.items():
            names = [name for name, found in kinds.items() if found == kind]
            for name, size in zip(names, self._each(command, names), strict=True):
                if name in BULK or (size > SMALL and name not in WHOLE):
                    yield name

    def _paged(self, name: str, kind: str) -> dict[bytes, Any]:
        scan = self.client.hscan_iter if kind == "hash" else self.client.zscan_iter
        content: dict[bytes, Any] = {}
        for number, (key, value) in enumerate(scan(self.prefix + name, count=CHUNK), 1):
            content[key] = value
            if number % CHUNK == 0:
                self.told(CHUNK)
        self.told(len(content) % CHUNK)
        return content

    def _catch_up(self, image: Image, read: Collection[str]) -> bool:
        """Bring the image to one version; return False when facts about changed records are missing.

        `read`: large keys that are not read again.
        """
        since, small, queues = image.version, self._small(read), set[str]()
        for _ in range(ROUNDS):
            answer = self._look(since, small, queues)
            if answer is None:  # there was a job of another kind, whose queue may be empty by now
                small = self._small(read)
                continue
            shot, contents = answer
            if shot.first > since + 1 or shot.version < since:
                return False
            image.take(shot)
            since = shot.seen
            # A key created between the listing and the read belongs to it.
            if shot.seen == shot.version and small.keys() >= (now := self._small(read)).keys():
                for (name, kind), content, ttl in zip(small.items(), contents[::2], contents[1::2], strict=True):
                    if content:
                        image.put(kind, name, dict(content) if kind == "zset" else content)
                    elif kind == "string" and content is not None:
                        image.put(kind, name, content)
                    if ttl > 0:
                        image.expiries[name] = ttl
                self.told(len(small))
                return True
            small |= now if shot.seen == shot.version else {}
        return False

    def _small(self, read: Collection[str]) -> dict[str, str]:
        kinds = self._kinds().items()
        return {name: kind for name, kind in kinds if kind in KINDS and name not in read and name not in BULK}

    def _look(
        self, since: int, small: Mapping[str, str], queues: set[str]
    ) -> tuple[RawChangedRecords, list[Any]] | None:
        """Read the records that facts after `since` name and the small keys in one transaction.

        None to repeat, with the `queues` that the script asked for.
        """
        chosen = script("changed_records")
        queues.update(name for name in small if name.startswith("pending:"))
        named = [self.prefix + name for name in (*chosen.keys, *sorted(queues))]
        values = {"dims": len(self.cell.dimensions), "since": since, "most": MOST_AT_ONCE}
        with self.client.pipeline(transaction=True) as pipe:
            pipe.evalsha(chosen.sha, len(named), *named, *chosen.pack_arguments(values))
            for name, kind in small.items():
                key = self.prefix + name
                if kind == "hash":
                    pipe.hgetall(key)
                elif kind == "list":
                    pipe.lrange(key, 0, -1)
                elif kind == "zset":
                    pipe.zrange(key, 0, -1, withscores=True)
                else:
                    pipe.get(key)
                pipe.pttl(key)
            reply, *rest = pipe.execute()
        if reply[0] == b"keys":
            queues.update(name.decode() for name in reply[1:])
            return None
        return RawChangedRecords.of(reply), rest
