"""The log of a cell on a server, and the records that its facts name."""

from collections.abc import Callable, Container, Mapping
from typing import TYPE_CHECKING, cast

from omega.cellstate.digest.values import MOST_BYTES, MOST_VERSIONS
from omega.cellstate.events import Fact, LogEntry, facts_in
from omega.cellstate.redis import records
from omega.cellstate.redis.calls import Connection
from omega.cellstate.redis.jobs import RedisJobs, joined_chunks
from omega.cellstate.redis.machines import RedisMachines
from omega.cellstate.redis.part import Part
from omega.cellstate.redis.pools import RedisPools
from omega.cellstate.replies import ChangedRecords, NewestFacts

if TYPE_CHECKING:
    from omega.cellstate.primary import Damage, Reading


AT_ONCE, FEW = 64, 4
"""Entries of the log per read: a few hundred kilobytes where they are long; of a first read, which shows their size."""


class RedisLog(Part):
    """Facts of the log; records, for mirrors and the audit."""

    def __init__(self, calls: Connection, jobs: RedisJobs, machines: RedisMachines, pools: RedisPools) -> None:
        """Use the connection of the cell and other parts of it."""
        super().__init__(calls)
        self._jobs = jobs
        self._machines = machines
        self._pools = pools

    def facts(self, since: int = 0, most: int = 1000, kinds: Container[str] | None = None) -> list[Fact]:
        """Return the facts of at most `most` versions after `since`; with `kinds` only those with such a first word."""
        entries = self._calls.command(
            self._calls.client.xrange, self._calls.prefix + "log", min=f"{since + 1}-0", max="+", count=most
        )
        read = (self._calls.record("log", key, facts_of, key, fields, kinds) for key, fields in entries)
        return [fact for facts in read for fact in facts or ()]

    def entries(self, since: int = 0, most: int = 1000) -> list[LogEntry]:
        """Return at most `most` entries of the log after version `since`, as they are stored."""
        entries = self._calls.command(
            self._calls.client.xrange, self._calls.prefix + "log", min=f"{since + 1}-0", max="+", count=most
        )
        return [
            entry
            for key, fields in entries
            if (entry := self._calls.record("log", key, entry_of, key, fields)) is not None
        ]

    def length(self) -> int:
        """Return the number of versions in the log."""
        return int(self._calls.command(self._calls.client.xlen, self._calls.prefix + "log"))

    def newest_facts(self, since: int, text: str = "") -> NewestFacts:
        """Return the facts after version `since` in lines of the log that have a text (empty: all).

        At most the newest `MOST_VERSIONS` entries are read, and no more of them once these are of `MOST_BYTES`
        (cellstate/digest/values.py). A line of placements has the id of its job.
        """
        log, wanted = self._calls.prefix + "log", text.encode()
        with self._calls.client.pipeline(transaction=False) as pipe:
            pipe.hget(self._calls.prefix + "meta", "version")
            pipe.xrange(log, count=1)
            version, oldest = self._calls.command(pipe.execute)
        newest = int(version or 0)
        first = int(oldest[0][0].partition(b"-")[0]) if oldest else newest + 1
        after = max(since, first - 1)
        found: list[tuple[bytes, dict[bytes, bytes]]] = []
        at, read, size = newest, 0, 0
        while at > after and read < MOST_VERSIONS and size < MOST_BYTES:
            count = min(AT_ONCE, MOST_VERSIONS - read, 4 * read or FEW)
            entries = self._calls.command(self._calls.client.xrevrange, log, f"{at}", f"{after + 1}", count=count)
            for key, fields in entries:
                facts = fields.get(b"facts", b"")
                at, read, size = int(key.partition(b"-")[0]) - 1, read + 1, size + len(facts)
                if wanted in facts:
                    lines = b"\n".join(line for line in facts.split(b"\n") if wanted in line)
                    found.append((key, {**fields, b"facts": lines}))
                if size >= MOST_BYTES:
                    break
            else:
                at = at if len(entries) == count else after
        read_facts = (self._calls.record("log", key, facts_of, key, fields) for key, fields in reversed(found))
        return NewestFacts(first, max(at, after), newest, [fact for facts in read_facts for fact in facts or ()])

    def placed_by(self) -> tuple[tuple[int, int], ...]:
        """Return the last placement id by the minute, as (ms of the server's clock, id), newest first.

        `housekeep` records them, as ages of placements. Of those older than 16 minutes one is kept per eighth of its
        age, up to a week.
        """
        ticks = self._calls.command(self._calls.client.hget, self._calls.prefix + "meta", "ticks")
        return self._calls.record("meta", "ticks", _ticks, ticks or b"") or ()

    def changed_records(self, since: int, most: int = 5000) -> ChangedRecords:
        """Read the records that the facts after version `since` name, in one call.

        Facts are read up to `most` machines and jobs; with 0 only the counters are read.
        """
        size = len(self._calls.dimensions)
        values = {"dims": size, "since": since, "most": most}

        raw = records.RawChangedRecords.of(
            self._calls.run("changed_records", values, extra=self._calls.known_keys.get("pending", set()))
        )
        fields = [(job_id, *each) for job_id, text, *_ in raw.jobs for each in self._jobs.chunk_fields(job_id, text)]
        apart = joined_chunks(fields, {field.decode(): runs for field, runs in raw.placed})
        read = {
            job_id: self._jobs.read(job_id, text, b"", apart.get(job_id, {})) for job_id, text, *_ in raw.jobs if text
        }
        jobs = {job_id: job for job_id, job in read.items() if job is not None}
        rows = {index: row for index, row, *_ in raw.machines if row}
        return ChangedRecords(
            version=raw.version, seen=raw.seen, first=raw.first, length=raw.length, placements=raw.placements,
            rows=records.read_rows(b"".join(self._calls.whole_rows(rows, records.row_bytes(size))), size),
            runs=[run for index, _, text, _ in raw.machines for run in self._machines.runs_of(int(index), text)],
            jobs=list(jobs.values()),
            queued=frozenset(job_id for job_id, _, queued, *_ in raw.jobs if queued == b"1"),
            holders={jobs[job_id].name: holder.decode() for job_id, _, _, holder, _ in raw.jobs if job_id in jobs},
            absent=frozenset(job_id for job_id, *_ in raw.jobs if job_id not in jobs),
            kinds=self._pools.read_kinds(raw.kinds),
        )  # fmt: skip

    def unusable(self) -> "list[Damage]":
        """Return keys of another type than a cell's, and counters that are no numbers: scripts fail on them."""
        from omega.cellstate.redis.primary_records import unusable  # noqa: PLC0415 - only the audit needs it

        return cast("list[Damage]", self._calls.command(unusable, self._calls))

    def read_records(self, told: Callable[[str], object] = str) -> "Reading | None":
        """Read the primary records of the cell at one version and its indexes; None if it changes too fast.

        `told` is called with what was read so far.
        """
        from omega.cellstate.redis.primary_records import read_records  # noqa: PLC0415 - as above

        return cast("Reading | None", self._calls.command(read_records, self._calls, told))


def entry_of(key: bytes, fields: Mapping[bytes, bytes]) -> LogEntry:
    """Return an entry of the log with its texts."""
    basis, settings = (fields.get(name, b"").decode() for name in (b"basis", b"settings"))
    return LogEntry(
        version=int(key.partition(b"-")[0]), at_ms=int(fields[b"at"]), by=fields[b"by"].decode(),
        facts=fields[b"facts"].decode(), basis=basis, settings=settings,
    )  # fmt: skip


def facts_of(key: bytes, fields: Mapping[bytes, bytes], words: Container[str] | None = None) -> list[Fact]:
    """Return the facts of an entry of the log (None: of all words)."""
    return facts_in(entry_of(key, fields), words)


def _ticks(text: bytes) -> tuple[tuple[int, int], ...]:
    pairs = (each.split(b":") for each in text.split())
    return tuple((int(at), int(last)) for at, last in pairs)
