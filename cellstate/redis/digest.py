"""The digest of the log on a server; ``lua/digest.lua``."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from omega.cellstate.digest.hours import KEPT_HOURS, Owner, Position, readable
from omega.cellstate.digest.values import MOST_FACTS, DigestStep, Undigested
from omega.cellstate.events import Fact
from omega.cellstate.redis import records
from omega.cellstate.redis.log import facts_of
from omega.cellstate.redis.part import Part

AT_ONCE = 64
"""Entries of the log per read: a few hundred kilobytes where they are long."""


class RedisDigest(Part):
    """Records that outlive the log (cellstate/digest)."""

    def undigested(self, most: int) -> Undigested:
        """Return the position of the digest and the next entries of the log, at most `most` (cellstate/digest)."""
        position: bytes = self._calls.command(self._calls.client.hget, self._calls.prefix + "usage", "position") or b""
        known = readable(Position.unpack, position, None)
        at = began = self._calls.counters()["version"] if known is None else known.version
        facts: list[Fact] = []
        first = 0
        while at - began < most and len(facts) < MOST_FACTS:
            count = min(AT_ONCE, most - (at - began))
            entries = self._calls.command(
                self._calls.client.xrange, self._calls.prefix + "log", f"{at + 1}-0", "+", count=count
            )
            for key, fields in entries:
                at = int(key.partition(b"-")[0])
                first, began = (first, began) if first else (at, max(began, at - 1))
                facts += self._calls.record("log", key, facts_of, key, fields) or ()
                if len(facts) >= MOST_FACTS:
                    break
            if len(entries) < count:
                break
        values = self._calls.command(self._calls.client.hmget, self._calls.prefix + "meta", "version", "jobs")
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
        return not self._calls.command(
            self._calls.client.xrange, self._calls.prefix + "log", f"{version + 1}-0", "+", count=1
        )

    def write(self, step: DigestStep) -> bool:
        """Write a step of the digest; returns False, with nothing changed, if it is not the next one any more."""
        rest: list[object] = []
        for job in step.jobs:
            rest += [job.job, job.history, job.chunks, len(job.results)]
            rest += [word for pair in job.results.items() for word in pair]
        rest += [word for pair in step.hours.items() for word in pair]
        read, at = step.read, "-" if step.read.at_ms is None else step.read.at_ms
        values = {"before": read.position, "after": step.after, "to": read.to, "at": at}
        values |= {"oldest": step.oldest, "count": len(step.jobs)}
        return bool(self._calls.run("digest", values, rest)[0] == b"ok")

    def position(self) -> bytes:
        """Return the record of the position that the digest of the log has reached; empty before the first step."""
        return self._calls.command(self._calls.client.hget, self._calls.prefix + "usage", "position") or b""

    def owners(self, ids: Sequence[str]) -> dict[str, tuple[str, str]]:
        """Return user and pool of those of some jobs that have a specification."""
        specs = ((job_id.encode(), spec) for job_id, spec in self._calls.fields("specs", ids) if spec)
        return dict(self._calls.readable("specs", specs, _owner))

    def held(self) -> tuple[int, Mapping[Owner, tuple[int, ...]]]:
        """Return the version of the cell, and what the placed tasks of each account hold at that version."""
        with self._calls.client.pipeline(transaction=True) as pipe:
            pipe.hget(self._calls.prefix + "meta", "version")
            pipe.hgetall(self._calls.prefix + "lanes")
            version, lanes = self._calls.command(pipe.execute)
        lanes.pop(b"spare", None)
        held: dict[Owner, tuple[int, ...]] = {}
        for _, (owner, amounts) in self._calls.readable("lanes", lanes.items(), _held, len(self._calls.dimensions)):
            known = held.get(owner, (0,) * len(amounts))
            held[owner] = tuple(map(sum, zip(known, amounts, strict=True)))
        return int(version or 0), held

    def histories(self, ids: Sequence[str]) -> dict[str, bytes]:
        """Return the records of the histories of those jobs that have one."""
        return {job_id: record for job_id, record in self._calls.fields("history", ids) if record}

    def job_history(self, job_id: str) -> tuple[bytes, bytes]:
        """Return the record of the digest's position, and of the history of a job at that position; empty: none."""
        with self._calls.client.pipeline(transaction=True) as pipe:
            pipe.hget(self._calls.prefix + "usage", "position")
            pipe.hget(self._calls.prefix + "history", job_id)
            position, history = self._calls.command(pipe.execute)
        return position or b"", history or b""

    def result_records(self, fields: Sequence[str]) -> dict[str, bytes]:
        """Return records of results: of an id the list of the job's chunks, of ``id group chunk`` the chunk."""
        return {field: record for field, record in self._calls.fields("results", fields) if record}

    def usage_hour(self, hour: int) -> bytes:
        """Return the record of the use in an hour (hours since 1970); empty when there is none."""
        return self._calls.command(self._calls.client.hget, self._calls.prefix + "usage", hour) or b""

    def usage_hours(self, hours: Iterable[int]) -> dict[int, bytes]:
        """Return the records of those of some hours that have one."""
        wanted = list(hours)[-KEPT_HOURS - 2 :]
        return {hour: record for hour, record in self._calls.fields("usage", wanted) if record}


def _held(record: bytes, dimensions: int) -> tuple[Owner, tuple[int, ...]]:
    _, _, lane = records.lane_row(record, dimensions)
    return Owner(lane.kind, lane.user, lane.pool), records.lane_use(record, dimensions)[2]


def _owner(spec: bytes) -> tuple[str, str]:
    known: Mapping[str, Any] = records.unpack(spec)
    return str(known.get("user") or ""), str(known.get("pool") or "")
