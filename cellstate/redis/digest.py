"""The digest of the log on a server; ``lua/digest.lua``."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from omega.cellstate.digest.hours import KEPT_HOURS, Owner, Position, readable
from omega.cellstate.digest.values import MOST_BYTES, MOST_FACTS, MOST_VERSIONS, DigestStep, Undigested
from omega.cellstate.events import LogEntry
from omega.cellstate.override import override
from omega.cellstate.redis import records
from omega.cellstate.redis.reads import RedisReads, entry_of, facts_of
from omega.cellstate.replies import NewestFacts

if TYPE_CHECKING:
    from omega.cellstate.events import Fact

AT_ONCE, FEW = 64, 4
"""Entries of the log per read: a few hundred kilobytes where they are long; of a first read, which shows their size."""


class RedisDigest(RedisReads):
    """Records that outlive the log; see `Cell` for the methods of the port."""

    @override
    def log_entries(self, since: int = 0, most: int = 1000) -> list[LogEntry]:
        entries = self._command(self.client.xrange, self._prefix + "log", min=f"{since + 1}-0", max="+", count=most)
        return [
            entry for key, fields in entries if (entry := self._record("log", key, entry_of, key, fields)) is not None
        ]

    @override
    def undigested(self, most: int) -> Undigested:
        position: bytes = self._command(self.client.hget, self._prefix + "usage", "position") or b""
        known = readable(Position.unpack, position, None)
        at = began = self.counters()["version"] if known is None else known.version
        facts: list[Fact] = []
        first = 0
        while at - began < most and len(facts) < MOST_FACTS:
            count = min(AT_ONCE, most - (at - began))
            entries = self._command(self.client.xrange, self._prefix + "log", f"{at + 1}-0", "+", count=count)
            for key, fields in entries:
                at = int(key.partition(b"-")[0])
                first, began = (first, began) if first else (at, max(began, at - 1))
                facts += self._record("log", key, facts_of, key, fields) or ()
                if len(facts) >= MOST_FACTS:
                    break
            if len(entries) < count:
                break
        values = self._command(self.client.hmget, self._prefix + "meta", "version", "jobs")
        newest, submissions = (int(value or 0) for value in values)
        if not first:
            at = max(at, newest) if self._is_empty_after(at) else at
        return Undigested(
            position=position,
            first=first or at + 1,
            newest=max(newest, at),
            submissions=submissions,
            facts=facts,
            to=at,
        )

    def _is_empty_after(self, version: int) -> bool:
        """Return whether the log has no entry after a version."""
        return not self._command(self.client.xrange, self._prefix + "log", f"{version + 1}-0", "+", count=1)

    @override
    def digest(self, step: DigestStep) -> bool:
        rest: list[object] = []
        for job in step.jobs:
            rest += [job.job, job.history, job.chunks, len(job.results)]
            rest += [word for pair in job.results.items() for word in pair]
        rest += [word for pair in step.hours.items() for word in pair]
        values = {"before": step.before, "after": step.after, "oldest": step.oldest, "count": len(step.jobs)}
        return bool(self._run("digest", values, rest)[0] == b"ok")

    @override
    def histories(self, ids: Sequence[str]) -> dict[str, bytes]:
        return {job_id: record for job_id, record in self._fields("history", ids) if record}

    @override
    def result_records(self, fields: Sequence[str]) -> dict[str, bytes]:
        return {field: record for field, record in self._fields("results", fields) if record}

    @override
    def owners(self, ids: Sequence[str]) -> dict[str, tuple[str, str]]:
        specs = ((job_id.encode(), spec) for job_id, spec in self._fields("specs", ids) if spec)
        return dict(self._readable("specs", specs, _owner))

    @override
    def usage_hour(self, hour: int) -> bytes:
        return self._command(self.client.hget, self._prefix + "usage", hour) or b""

    @override
    def usage_hours(self, hours: Iterable[int]) -> dict[int, bytes]:
        wanted = list(hours)[-KEPT_HOURS - 2 :]
        return {hour: record for hour, record in self._fields("usage", wanted) if record}

    @override
    def digest_position(self) -> bytes:
        return self._command(self.client.hget, self._prefix + "usage", "position") or b""

    @override
    def job_history(self, job_id: str) -> tuple[bytes, bytes]:
        with self.client.pipeline(transaction=True) as pipe:
            pipe.hget(self._prefix + "usage", "position")
            pipe.hget(self._prefix + "history", job_id)
            position, history = self._command(pipe.execute)
        return position or b"", history or b""

    @override
    def newest_facts(self, since: int, text: str = "") -> NewestFacts:
        log, wanted = self._prefix + "log", text.encode()
        with self.client.pipeline(transaction=False) as pipe:
            pipe.hget(self._prefix + "meta", "version")
            pipe.xrange(log, count=1)
            version, oldest = self._command(pipe.execute)
        newest = int(version or 0)
        first = int(oldest[0][0].partition(b"-")[0]) if oldest else newest + 1
        after = max(since, first - 1)
        found: list[tuple[bytes, dict[bytes, bytes]]] = []
        at, read, size = newest, 0, 0
        while at > after and read < MOST_VERSIONS and size < MOST_BYTES:
            count = min(AT_ONCE, MOST_VERSIONS - read, 4 * read or FEW)
            entries = self._command(self.client.xrevrange, log, f"{at}", f"{after + 1}", count=count)
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
        read_facts = (self._record("log", key, facts_of, key, fields) for key, fields in reversed(found))
        return NewestFacts(first, max(at, after), newest, [fact for facts in read_facts for fact in facts or ()])

    @override
    def held(self) -> tuple[int, Mapping[Owner, tuple[int, ...]]]:
        with self.client.pipeline(transaction=True) as pipe:
            pipe.hget(self._prefix + "meta", "version")
            pipe.hgetall(self._prefix + "lanes")
            version, lanes = self._command(pipe.execute)
        lanes.pop(b"spare", None)
        held: dict[Owner, tuple[int, ...]] = {}
        for _, (owner, amounts) in self._readable("lanes", lanes.items(), _held, len(self.dimensions)):
            known = held.get(owner, (0,) * len(amounts))
            held[owner] = tuple(map(sum, zip(known, amounts, strict=True)))
        return int(version or 0), held


def _held(record: bytes, dimensions: int) -> tuple[Owner, tuple[int, ...]]:
    _, _, lane = records.lane_row(record, dimensions)
    return Owner(lane.kind, lane.user, lane.pool), records.lane_use(record, dimensions)[2]


def _owner(spec: bytes) -> tuple[str, str]:
    known: Mapping[str, Any] = records.unpack(spec)
    return str(known.get("user") or ""), str(known.get("pool") or "")
