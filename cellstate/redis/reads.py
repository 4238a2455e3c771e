"""Reads of a cell on a server: machines, jobs, members, facts. Nothing here changes anything."""

import re
import struct
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from typing import Any

from omega.cellstate.cuts import (
    CUTS_KEPT,
    NO_CUTS,
    PLACEMENTS_AHEAD,
    REPORTERS,
    Cut,
    Cuts,
    Report,
    Standing,
    read_cut,
    read_cuts,
)
from omega.cellstate.errors import Forbidden, Refused, StoreError, Unreachable, Unreadable
from omega.cellstate.events import Fact, LogEntry, facts_in
from omega.cellstate.keys import ROLES
from omega.cellstate.lanes import Lane
from omega.cellstate.model import Described, Job, Machine, MachineState, Run
from omega.cellstate.override import override
from omega.cellstate.pages import (
    DELAYED,
    OVER,
    TOTALS,
    CellSums,
    JobHead,
    JobPage,
    Keep,
    LaneSum,
    Shape,
    full_page,
    job_states,
    last_page,
    task_counts,
)
from omega.cellstate.redis import job_records, records
from omega.cellstate.redis.calls import RedisCalls
from omega.cellstate.refused_writes import StoreState, store_state
from omega.cellstate.replies import ChangedRecords, KindUse
from omega.cellstate.server import info_of
from omega.cellstate.transaction import Intake, Position

# Cuts of a cell's history on a server: looked for after each new connection (cellstate/cuts.py).

UNCOMPARED = -1
"""Number of opened connections of which none was compared."""
UNNAMED = "client"
"""The author of a report by a process that has changed nothing yet."""


class RedisCuts(RedisCalls):
    """Comparison of what a process saw of a cell with the cell, and the reports of what was lost."""

    _comparing = False
    """Whether a comparison is in progress, whose own calls may open further connections."""

    @override
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

    @override
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

    @override
    def report_cut(self, report: Report) -> Cut | None:
        now = self._server_ms()
        values = asdict(report) | self._values(now, report.by or self._author or UNNAMED)
        values |= {"now": now, "kept": CUTS_KEPT, "reporters": REPORTERS, "ahead": PLACEMENTS_AHEAD}
        try:
            _, number, record = self._run("report_cut", values)
        except Forbidden:
            return None
        return read_cut(int(number), record.decode())

    @override
    def standing(self, positions: Sequence[Position]) -> Standing:
        words = [word for position in positions for word in position]
        _, version, tag, cuts, agreed, lost = self._run("agreed", {}, words)
        self._opened = self._pool.opened  # of connections that are opened later nothing is known
        present = Position(int(version), tag.decode())
        return Standing(present, int(cuts), int(agreed) if agreed else None, int(lost) if lost else None)

    @override
    def cuts(self) -> Cuts:
        return self._record("cuts", "", read_cuts, self._hash("cuts")) or NO_CUTS

    def _server_ms(self) -> int:
        seconds, micros = self._command(self.client.time)
        return int(seconds) * 1000 + int(micros) // 1000


_CHUNK = 10_000
"""Approximate number of machines per chunk of a full read: 3 ms of the server's time."""
_NO_COUNTERS = TOTALS | {"resources", "ticks", "durability"}
"""The fields of ``meta`` that `counters` leaves out."""


class RedisReads(RedisCuts):
    """Queries of a cell that do not change it."""

    def _since(self, since: Position, intake: Intake | None) -> dict[str, object]:
        kind, lanes, most, owned = intake or ("-", (), 0, "-")
        asked = ",".join(f"{lane}:{after}:{count}" for lane, after, count in lanes) or "-"
        return {"dims": len(self.dimensions), "since": since.version, "since_tag": since.tag,
                "kind": kind, "asked": asked, "most": most, "owned": owned}  # fmt: skip

    def _read_all(self, position: Position | None = None) -> tuple[Position, Any]:
        """Read everything: chunks, then the delta since `position`, the present one or a little older (semantics 18).

        The chunks are plain reads: a script would first create a string of each record.
        """
        while True:
            if position is not None:
                parts = [*self._chunks(), *self._lane_rows()]
            reply = self._run("sync", self._since(position or Position(), None))
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
            cursor, chunk = self._command(self.client.hscan, self._prefix + "machines", cursor or 0, count=_CHUNK)
            whole, width = b"".join(chunk.values()), records.row_bytes(len(self.dimensions))
            if len(whole) != width * len(chunk):
                whole = b"".join(self._whole_rows(chunk, width))
            yield whole

    def _whole_rows(self, rows: Mapping[bytes, bytes], width: int) -> Iterator[bytes]:
        """Yield the records of machines with the right length; others are noted as unreadable."""
        for index, record in rows.items():
            if len(record) == width:
                yield record
            else:
                self.unreadable["machines", index.decode(errors="replace")] = f"{len(record)} bytes, not {width}"

    def account(self) -> str:
        """Return the connection's user of the server if it belongs to a person; "" for the default and for roles."""
        try:
            name: bytes | str = self._command(self.client.execute_command, "ACL WHOAMI")
        except Unreachable:
            raise
        except StoreError:
            return ""  # the user has no permission
        user = name if isinstance(name, str) else name.decode()  # redis-py decodes it with RESP2
        return "" if user in ("default", *(f"omega-{role}" for role in ROLES)) else user

    def _lane_rows(self) -> Iterator[bytes]:
        """Yield the rows of all lanes."""
        rows = self._readable("lanes", self._lane_records(), records.lane_row, len(self.dimensions))
        return (row for _, (row, *_) in rows)

    def _lane_records(self) -> Iterator[tuple[bytes, bytes]]:
        return (each for each in self._hash("lanes").items() if each[0] != b"spare")

    @override
    def lanes(self, numbers: Sequence[int] | None = None) -> dict[int, tuple[int, Lane]]:
        chosen: Iterable[tuple[bytes, bytes]]
        if numbers is None:
            chosen = self._lane_records()
        else:
            fields = self._fields("lanes", [str(number) for number in numbers])
            chosen = ((field.encode(), record) for field, record in fields if record)
        rows = self._readable("lanes", chosen, records.lane_row, len(self.dimensions))
        return {int(number): (serial, lane) for number, (_, serial, lane) in rows}

    @override
    def store_run(self) -> str:
        return str(self._command(self.client.info, "server").get("run_id", ""))

    @override
    def executor_number(self, executor: str) -> int:
        number = self._command(self.client.hget, self._prefix + "executors", executor)
        if number is None:
            raise Refused(f"executor {executor!r}: no machine of this cell belongs to it")
        if (found := self._record("executors", executor, int, number)) is None:
            raise Unreadable(f"executor {executor!r}: its number {number!r} is none; restore the cell from a backup")
        return found

    @override
    def kinds(self) -> dict[str, KindUse]:
        size = len(self.dimensions)
        with self.client.pipeline() as pipe:
            pipe.hgetall(self._prefix + "kinds")
            pipe.hgetall(self._prefix + "lanes")
            limited, lanes = self._command(pipe.execute)
        uses, without = self._kinds(limited.items()), KindUse.none(size)
        lanes.pop(b"spare", None)
        for _, (kind, jobs, used) in self._readable("lanes", lanes.items(), records.lane_use, size):
            if jobs and kind.encode() not in limited:
                known = uses.get(kind, without)
                total = tuple(map(sum, zip(known.used, used, strict=True)))
                uses[kind] = known._replace(jobs=known.jobs + jobs, used=total)
        return dict(sorted(uses.items()))

    @override
    def limited_kinds(self) -> dict[str, KindUse]:
        return dict(sorted(self._kinds(self._hash("kinds").items()).items()))

    def _kinds(self, kinds: Iterable[tuple[bytes, bytes]]) -> dict[str, KindUse]:
        return dict(self._readable("kinds", kinds, _kind, len(self.dimensions)))

    @override
    def machines(self) -> list[Machine]:
        rows, _ = records.apart(self._read_all()[1])
        latest = {int(row[0]): row for row in rows}
        static = self._hash("static")
        size, machines = len(self.dimensions), []
        for i, row in sorted(latest.items()):
            text = static.get(str(i).encode(), b"")
            machine = self._record("static", str(i), records.read_machine, row, text, size)
            if machine is not None and machine.state is not MachineState.GONE:
                machines.append(machine)
        return machines

    @override
    def described(self, indices: Sequence[int]) -> list[Described]:
        return [
            self._record("static", str(index), records.read_described, static or b"") or ("", ())
            for index, static in self._fields("static", indices)
        ]

    @override
    def refuses_writes(self) -> str:
        return self.store_state().refuses

    @override
    def store_state(self) -> StoreState:
        return store_state(self._command(info_of, self.client), self.durability.replicas)

    def machine_count(self) -> int:
        """Return the number of machines that ever joined."""
        return int(self._command(self.client.hlen, self._prefix + "names"))

    def log_length(self) -> int:
        """Return the number of versions in the log."""
        return int(self._command(self.client.xlen, self._prefix + "log"))

    def machine_index(self, name: str) -> int | None:
        """Return the index of a machine by its name."""
        index = self._command(self.client.hget, self._prefix + "names", name)
        return None if index is None else int(index)

    @override
    def machine_indices(self, names: Sequence[str]) -> dict[str, int]:
        return {name: int(index) for name, index in self._fields("names", names) if index is not None}

    @override
    def indices_of_prefix(self, prefix: str, most: int) -> list[int]:
        pattern = re.sub(r"([\\*?\[\]])", r"\\\1", prefix) + "*"
        scan = self.client.hscan_iter(self._prefix + "names", match=pattern, count=_CHUNK)
        return sorted(int(index) for _, index in self._command(list, islice(scan, most)))

    @override
    def runs(self, indices: Sequence[int]) -> list[Run]:
        return [run for index, text in self._fields("runs", indices) if text for run in self._runs_of(index, text)]

    def _runs_of(self, index: int, text: bytes) -> list[Run]:
        return self._record("runs", str(index), lambda: records.read_runs(index, text.decode())) or []

    @override
    def job(self, job_id: str) -> Job | None:
        record = self._command(self.client.hget, self._prefix + "jobs", job_id)
        spec = self._command(self.client.hget, self._prefix + "specs", job_id)
        if record is None:
            return None
        job = self._job(job_id, record, spec or b"", self._apart({job_id: record}).get(job_id, {}))
        if job is None:
            self.unreadable.pop(("jobs", job_id), None)  # the error names it
            raise Unreadable(f"job {job_id}: its record cannot be read; see omega cell verify {self.name}")
        return job

    def _apart(self, jobs: Mapping[str, bytes]) -> dict[str, dict[int, str]]:
        """Return the runs of jobs in chunks outside these records, by job and group."""
        wanted = [(job_id, *each) for job_id, record in jobs.items() for each in self._chunk_fields(job_id, record)]
        texts = self._fields("placed", [field for *_, field in wanted], 1_000)
        return joined_chunks(wanted, {field: text for field, text in texts if text})

    def _chunk_fields(self, job_id: str, record: bytes) -> list[tuple[int, str]]:
        try:
            return list(job_records.chunk_fields(job_id, record, len(self.dimensions)))
        except records.UNREADABLE:
            return []  # the record is noted when the job is read

    def _job(self, job_id: str, record: bytes, spec: bytes, apart: Mapping[int, str] | None = None) -> Job | None:
        """Read a job; without its specification when that cannot be read, which is noted."""
        if spec and self._record("specs", job_id, records.unpack, spec) is None:
            spec = b""
        return self._record("jobs", job_id, job_records.read_job, job_id, record, spec, len(self.dimensions), apart)

    @override
    def jobs_by_id(self, ids: Sequence[str]) -> dict[str, Job]:
        stored = {job_id: record for job_id, record in self._fields("jobs", ids) if record}
        apart = self._apart(stored)
        jobs = ((job_id, self._job(job_id, record, b"", apart.get(job_id, {}))) for job_id, record in stored.items())
        return {job_id: job for job_id, job in jobs if job is not None}

    @override
    def running(self, ids: Sequence[str]) -> dict[str, list[int]]:
        jobs = ((job_id, self._job(job_id, record, b"")) for job_id, record in self._fields("jobs", ids) if record)
        return {job_id: [group.placed for group in job.groups] for job_id, job in jobs if job is not None}

    @override
    def specs(self, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        known = self._fields("specs", ids)
        return {job_id: self._record("specs", job_id, records.unpack, spec or b"") or {} for job_id, spec in known}

    def live_job_count(self) -> int:
        """Return the number of jobs that have not ended."""
        ended = self._command(self.client.llen, self._prefix + "done")
        return max(0, self.job_count() - int(ended))

    def job_count(self) -> int:
        """Return the number of stored jobs."""
        return int(self._command(self.client.hlen, self._prefix + "jobs"))

    def job_ids(self) -> list[str]:
        """Return the ids of all stored jobs, in no order."""
        return [name.decode() for name in self._command(self.client.hkeys, self._prefix + "jobs")]

    @override
    def jobs(self) -> list[Job]:
        # Read a few thousand at a time.
        read: list[Job | None] = []
        scan = self.client.hscan_iter(self._prefix + "jobs", count=2000)
        while chunk := self._command(dict, islice(scan, 2000)):
            specs = self._command(self.client.hmget, self._prefix + "specs", list(chunk))
            named = {job_id.decode(errors="replace"): record for job_id, record in chunk.items()}
            apart = self._apart(named)
            for (job_id, record), spec in zip(named.items(), specs, strict=True):
                read.append(self._job(job_id, record, spec or b"", apart.get(job_id, {})))
        return sorted({job.id: job for job in read if job is not None}.values(), key=lambda job: job.order)

    @override
    def pending(self, most: int | None = None) -> dict[str, list[str]]:
        queues = {}
        for key in self._command(list, self.client.scan_iter(match=self._prefix + "pending:*", count=500)):
            if most is None:
                pairs = self._command(dict, self.client.zscan_iter(key, count=2000)).items()
            else:
                pairs = self._command(self.client.zrange, key, 0, most - 1, withscores=True)
            arrived = sorted((int(score) & (1 << 33) - 1, member.decode()[2:]) for member, score in pairs)
            queues[key.decode().removeprefix(self._prefix + "pending:")] = [job_id for _, job_id in arrived]
        return queues

    def queue_depths(self) -> dict[str, int]:
        """Return the number of pending jobs of each kind."""
        keys = self._command(list, self.client.scan_iter(match=self._prefix + "pending:*", count=500))
        start = len(self._prefix) + len("pending:")
        return {key.decode()[start:]: self._command(self.client.zcard, key) for key in sorted(keys)}

    @override
    def facts(self, since: int = 0, most: int = 1000, kinds: Container[str] | None = None) -> list[Fact]:
        entries = self._command(self.client.xrange, self._prefix + "log", min=f"{since + 1}-0", max="+", count=most)
        read = (self._record("log", key, facts_of, key, fields, kinds) for key, fields in entries)
        return [fact for facts in read for fact in facts or ()]

    def job_id(self, name: str) -> str | None:
        """Return the id of the live job of a name."""
        job_id = self.ids_by_name([name]).get(name)
        job = self.jobs_by_id([job_id]).get(job_id) if job_id is not None else None
        return None if job is None or not any(group.unplaced or group.placed for group in job.groups) else job_id

    @override
    def ids_by_name(self, names: Sequence[str]) -> dict[str, str]:
        ids = self._fields("jobnames", names)
        return {name: job_id.decode() or name for name, job_id in ids if job_id is not None}

    def job_names(self) -> dict[str, str]:
        """Return the names of jobs, and the id of the newest of each; reads a few thousand at a time."""
        scan = self.client.hscan_iter(self._prefix + "jobnames", count=2000)
        ids: dict[str, str] = {}
        while chunk := self._command(dict, islice(scan, 2000)):
            ids.update((name.decode(), (job_id or name).decode()) for name, job_id in chunk.items())
        return ids

    @override
    def changed_records(self, since: int, most: int = 5000) -> ChangedRecords:
        size = len(self.dimensions)
        values = {"dims": size, "since": since, "most": most}

        raw = records.RawChangedRecords.of(
            self._run("changed_records", values, extra=self._known.get("pending", set()))
        )
        fields = [(job_id, *each) for job_id, text, *_ in raw.jobs for each in self._chunk_fields(job_id, text)]
        apart = joined_chunks(fields, {field.decode(): runs for field, runs in raw.placed})
        read = {job_id: self._job(job_id, text, b"", apart.get(job_id, {})) for job_id, text, *_ in raw.jobs if text}
        jobs = {job_id: job for job_id, job in read.items() if job is not None}
        rows = {index: row for index, row, *_ in raw.machines if row}
        return ChangedRecords(
            version=raw.version, seen=raw.seen, first=raw.first, length=raw.length, placements=raw.placements,
            rows=records.read_rows(b"".join(self._whole_rows(rows, records.row_bytes(size))), size),
            runs=[run for index, _, text, _ in raw.machines for run in self._runs_of(int(index), text)],
            jobs=list(jobs.values()),
            queued=frozenset(job_id for job_id, _, queued, *_ in raw.jobs if queued == b"1"),
            holders={jobs[job_id].name: holder.decode() for job_id, _, _, holder, _ in raw.jobs if job_id in jobs},
            absent=frozenset(job_id for job_id, *_ in raw.jobs if job_id not in jobs),
            kinds=self._kinds(raw.kinds),
        )  # fmt: skip

    def counters(self) -> dict[str, int]:
        """Return the cell's version, floor and other counters; a missing one is 0."""
        stored = (each for each in self._hash("meta").items() if each[0].decode() not in _NO_COUNTERS)
        counters = dict.fromkeys(("version", "floor", "placements", "arrivals", "transactions", "jobs", "lanes"), 0)
        return counters | dict(self._readable("meta", stored, int))

    def members(self) -> dict[str, tuple[int, bool, dict[str, Any]]]:
        """Return every registered scheduler: incarnation, whether its lease holds, its last figures."""
        known, figures = self._hash("schedulers"), self._hash("stats")
        incarnations = list(self._readable("schedulers", sorted(known.items()), _incarnation))
        with self.client.pipeline(transaction=False) as pipe:
            for name, _ in incarnations:
                pipe.exists(f"{self._prefix}lease:{name}")
            held = self._command(pipe.execute)
        members = {
            name: (incarnation, bool(alive), self._figures(name, figures.get(name.encode(), b"")))
            for (name, incarnation), alive in zip(incarnations, held, strict=True)
        }
        self._members = [name for name, (_, alive, _) in members.items() if alive]
        return members

    def figures(self) -> dict[str, dict[str, Any]]:
        """Return the last figures of every scheduler, also of those that left."""
        stats = sorted(self._hash("stats").items())
        return {name.decode(): self._figures(name.decode(), data) for name, data in stats}

    def _figures(self, member: str, data: bytes) -> dict[str, Any]:
        return self._record("stats", member, records.unpack, data) or {}


def joined_chunks(fields: Iterable[tuple[str, int, str]], texts: Mapping[str, bytes]) -> dict[str, dict[int, str]]:
    """Join the chunks of runs; `fields`: job, group and field of each, in order."""
    runs: dict[str, dict[int, list[str]]] = {}
    for job_id, group, field in fields:
        runs.setdefault(job_id, {}).setdefault(group, []).append(texts.get(field, b"").decode(errors="replace"))
    return {job_id: {group: "".join(parts) for group, parts in groups.items()} for job_id, groups in runs.items()}


def _incarnation(record: bytes) -> int:
    return int(record.partition(b" ")[0])


def _kind(text: bytes, size: int) -> KindUse:
    return KindUse(*records.read_kind(text.decode(), size))


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


# Sums of a cell on a server, read at one moment: `Queries.sums`.

LaneNumbers = tuple[Lane, tuple[int, ...]]


class RedisSums(RedisReads):
    """The sums that the scripts keep."""

    @override
    def sums(self) -> CellSums:
        prefix, size = self._prefix, len(self.dimensions)
        with self.client.pipeline() as pipe:  # one transaction: all of one version
            pipe.hmget(prefix + "meta", "version", *sorted(TOTALS))
            pipe.hgetall(prefix + "shapes")
            pipe.hgetall(prefix + "lanes")
            pipe.hlen(prefix + "jobs")
            counters, shapes, lanes, stored = self._command(pipe.execute)
        version, *values = (int(value or 0) for value in counters)
        totals = dict(zip(sorted(TOTALS), values, strict=True))
        over = shapes.pop(OVER.encode(), b"").decode().split()
        lanes.pop(b"spare", None)
        known = [each for _, each in self._readable("lanes", lanes.items(), _lane, size)]
        together, pending = sum_of_lanes(known, size)
        return CellSums(
            version=version,
            shapes={Shape.named(field.decode()): int(count) for field, count in shapes.items()},
            over=self._over(over),
            jobs=job_states(totals, together),
            stored=int(stored),
            tasks=task_counts(totals, together.placed),
            delayed=totals[DELAYED],
            wanted=together.wanted,
            held=together.held,
            pending=pending,
        )

    def _over(self, indices: Iterable[str]) -> int:
        """Return how many of these machines hold more than they have."""
        size, count = len(self.dimensions), 0
        for index, row in self._fields("machines", list(indices)):
            for whole in self._whole_rows({index.encode(): row}, records.row_bytes(size)) if row else ():
                amounts = records.read_row(whole, size)[4:]
                count += any(used > has for has, used in zip(amounts[:size], amounts[size:], strict=True))
        return count


def _lane(record: bytes, size: int) -> LaneNumbers:
    *_, lane = records.lane_row(record, size)
    return lane, struct.unpack(f"<{7 + 2 * size}q", record[: 8 * (7 + 2 * size)])


def sum_of_lanes(lanes: Iterable[LaneNumbers], size: int) -> tuple[LaneSum, Mapping[str, int]]:
    """Return what lanes count together, and the number of pending jobs of each kind."""
    sums, pending = [0] * (3 + 2 * size), Counter[str]()
    for lane, numbers in lanes:
        sums = list(map(int.__add__, sums, numbers[4:]))
        pending[lane.kind] += numbers[2]
    *amounts, live, placed, running = sums
    together = LaneSum(live, running, placed, tuple(amounts[:size]), tuple(amounts[size:]))
    return together, {kind: count for kind, count in sorted(pending.items()) if count}


# Pages of jobs and machines on a server. Nothing here changes anything.

_PAGE_CHUNK = 5_000
"""Jobs per read: a few milliseconds of the server's time."""


def _every(_: JobHead) -> bool:
    return True


class RedisPages(RedisSums):
    """Lists that are read in pages: an index leads to the newest jobs; a list without a limit scans all records."""

    def _job_records(self) -> dict[bytes, bytes]:
        """Return the records of all jobs by id, as stored. A scan may return a job twice, then the later is newer."""
        jobs: dict[bytes, bytes] = {}
        cursor = None
        while cursor != 0:
            cursor, chunk = self._command(self.client.hscan, self._prefix + "jobs", cursor or 0, count=_PAGE_CHUNK)
            jobs |= chunk
        return jobs

    @override
    def job_heads(self) -> list[JobHead]:
        return [head for head, _ in self._heads(self._job_records())]

    def _heads(self, jobs: Mapping[bytes, bytes]) -> Iterator[tuple[JobHead, bytes]]:
        """Yield the jobs in short, with their records."""
        size = len(self.dimensions)
        for field, record in jobs.items():
            job_id = field.decode(errors="replace")
            head = self._record("jobs", job_id, job_records.read_head, job_id, record, size)
            if head is not None:
                yield head, record

    @override
    def job_page(
        self, most: int | None = None, before: int | None = None, keep: Keep | None = None, user: str | None = None
    ) -> JobPage:  # fmt: skip
        if most is not None:
            filtered = keep is not None or user is not None
            return self._filtered_page(most, before, keep, user) if filtered else self._newest_page(most, before)
        rows = self._ordered(self._job_records()) if keep is None else self._kept(self._job_records(), keep)
        rows.sort(reverse=True)
        if user is not None:
            rows = [row for row, job in self._with_specs(rows, runs=False) if job.spec.get("user") == user]
        jobs = [job for row, job in self._with_specs(rows) if before is None or row[0] < before]
        return JobPage(len(rows), jobs[::-1], None, 0)

    def _filtered_page(self, most: int, before: int | None, keep: Keep | None, user: str | None) -> JobPage:
        """Return the newest jobs that pass a filter: the index is read back until the page is full."""
        found, read = list[Job](), min(_PAGE_CHUNK, 4 * most)
        newest = "+inf" if before is None else f"({before}"
        while orders := self._newest(newest, read):
            stored = {job_id.encode(): record for job_id, record in self._fields("jobs", list(orders)) if record}
            rows = self._kept(stored, keep or _every)
            for _, job in self._with_specs(sorted(rows, reverse=True)):
                if len(found) == most:
                    return full_page(found)
                if user in (None, job.spec.get("user")):
                    found.append(job)
            last = min(orders.values())
            newest, read = f"({last}", _PAGE_CHUNK
            if len(found) == most and (last < found[-1].order or self._newest(newest, 1)):
                return full_page(found)
        return last_page(found, before)

    def _newest(self, newest: str, most: int) -> dict[str, int]:
        """Return jobs and their positions by the index of submissions, from a position on."""
        key = self._prefix + "recent"
        found = self._command(self.client.zrevrangebyscore, key, newest, "-inf", 0, most, withscores=True)
        return {job_id.decode(): int(order) for job_id, order in found}

    def _newest_page(self, most: int, before: int | None) -> JobPage:
        """Return a page of all jobs by the index of submissions: it costs the same in a cell of any number of jobs."""
        key, below = self._prefix + "recent", "+inf" if before is None else f"({before}"
        with self.client.pipeline() as pipe:
            pipe.zcard(key)
            pipe.zcount(key, "-inf", below)
            pipe.zrevrangebyscore(key, below, "-inf", 0, most, withscores=True)
            total, older, found = self._command(pipe.execute)
        orders = {job_id.decode(): int(order) for job_id, order in found}
        stored = self._fields("jobs", list(orders))
        rows = [(orders[job_id], job_id, record) for job_id, record in stored if record]
        jobs = [job for _, job in self._with_specs(rows)]
        left = older - len(orders)
        return JobPage(total, jobs[::-1], min(orders.values()) if orders and left else None, left)

    def newest_ids(self, most: int) -> list[str]:
        """Return the ids of the jobs that were submitted last, the newest first."""
        return [
            job_id.decode() for job_id in self._command(self.client.zrevrange, self._prefix + "recent", 0, most - 1)
        ]

    def _ordered(self, jobs: Mapping[bytes, bytes]) -> list[tuple[int, str, bytes]]:
        """Return order of submission, id and record of each job."""
        try:
            return [(job_records.read_order(record), field.decode(), record) for field, record in jobs.items()]
        except records.UNREADABLE:  # one by one, to note which
            return self._kept(jobs, _every)

    def _kept(self, jobs: Mapping[bytes, bytes], keep: Keep) -> list[tuple[int, str, bytes]]:
        """Return order of submission, id and record of the jobs that pass a filter."""
        return [(head.order, head.id, record) for head, record in self._heads(jobs) if keep(head)]

    def _with_specs(
        self, rows: Sequence[tuple[int, str, bytes]], *, runs: bool = True
    ) -> Iterator[tuple[tuple[int, str, bytes], Job]]:
        for start in range(0, len(rows), _PAGE_CHUNK):
            chunk = rows[start : start + _PAGE_CHUNK]
            specs = self._command(self.client.hmget, self._prefix + "specs", [job_id for _, job_id, _ in chunk])
            apart = self._apart({job_id: record for _, job_id, record in chunk}) if runs else {}
            for row, spec in zip(chunk, specs, strict=True):
                job = self._job(row[1], row[2], spec or b"", apart.get(row[1], {}))
                if job is not None:
                    yield row, job

    @override
    def machines_at(self, indices: Sequence[int]) -> list[Machine]:
        size, machines = len(self.dimensions), []
        rows, statics = self._fields("machines", indices, _PAGE_CHUNK), self._fields("static", indices, _PAGE_CHUNK)
        for (index, row), (_, static) in zip(rows, statics, strict=True):
            for whole in self._whole_rows({b"%d" % index: row}, records.row_bytes(size)) if row else ():
                values = records.read_row(whole, size)
                machine = self._record("static", str(index), records.read_machine, values, static or b"", size)
                if machine is not None and machine.state is not MachineState.GONE:
                    machines.append(machine)
        return machines
