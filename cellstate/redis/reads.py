"""Looking at a cell on a server: machines, jobs, members, facts. Nothing here changes anything."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from cellstate.cell import Fact, KindUse
from cellstate.errors import Refused
from cellstate.model import Described, Job, Machine, MachineState, Run
from cellstate.redis import records
from cellstate.redis.calls import RedisCalls
from cellstate.redis.raw_snapshot import RawSnapshot
from cellstate.snapshot import Snapshot
from cellstate.transaction import Intake, Position

_CHUNK = 10_000
"""Machines per chunk of a full read, about: 3 ms of the server's time."""


class RedisReads(RedisCalls):
    """What can be asked of a cell without changing it."""

    def _since(self, since: Position, intake: Intake | None) -> dict[str, object]:
        kind, cursor, most, owned = intake or ("-", 0, 0, "-")
        return {"dims": len(self.dimensions), "since": since.version, "since_tag": since.tag,
                "kind": kind, "cursor": cursor, "most": most, "owned": owned}  # fmt: skip

    def _read_all(self, position: Position | None = None) -> tuple[Position, Any]:
        """A full read: chunks, then the delta since `position`, the present one or a little older (semantics 18).

        The chunks are plain reads: a script's language would make a string of its own of each record first.
        """
        while True:
            if position is not None:
                parts = list(self._chunks())
            reply = self._run("sync", self._since(position or Position(), None))
            present = Position(int(reply[1]), reply[2].decode())
            if position is not None and (reply[4] == b"delta" or present == position):
                return present, records.read_rows(b"".join([*parts, reply[5]]), len(self.dimensions))
            position = present

    def _chunks(self) -> Iterator[bytes]:
        """The records of all machines, a chunk of them one after another; of one that comes twice the later is newer.

        A scan names no machine, so that a chunk costs half of what asking for each of them does.
        """
        cursor = None
        while cursor != 0:
            cursor, found = self._plain(self.client.hscan, self._prefix + "machines", cursor or 0, count=_CHUNK)
            yield b"".join(found.values())

    def store_run(self) -> str:
        """What tells one run of the server from the next; another one may have less data (semantics 16)."""
        return str(self._plain(self.client.info, "server").get("run_id", ""))

    def executor_number(self, executor: str) -> int:
        """The number under which an executor's box is kept; Refused when it never joined a machine."""
        number = self._plain(self.client.hget, self._prefix + "executors", executor)
        if number is None:
            raise Refused(f"executor {executor!r}: no machine of this cell belongs to it")
        return int(number)

    def kinds(self) -> dict[str, KindUse]:
        """See Cell.kinds."""
        found = self._plain(self.client.hgetall, self._prefix + "kinds")
        return {
            name.decode(): KindUse(*records.read_kind(text.decode(), len(self.dimensions)))
            for name, text in sorted(found.items())
        }

    def machines(self) -> list[Machine]:
        """See Cell.machines."""
        _, rows = self._read_all()
        latest = {int(row[0]): row for row in rows}
        static = self._plain(self.client.hgetall, self._prefix + "static")
        size = len(self.dimensions)
        found = (records.read_machine(row, static[str(i).encode()], size) for i, row in sorted(latest.items()))
        return [machine for machine in found if machine.state is not MachineState.GONE]

    def described(self, indices: Sequence[int]) -> list[Described]:
        """See Cell.described."""
        found: list[Described] = []
        for start in range(0, len(indices), 4000):
            chunk = [str(index) for index in indices[start : start + 4000]]
            statics = self._plain(self.client.hmget, self._prefix + "static", chunk)
            found += [records.read_described(static or b"") for static in statics]
        return found

    def machine_count(self) -> int:
        """How many machines ever joined."""
        return int(self._plain(self.client.hlen, self._prefix + "names"))

    def log_length(self) -> int:
        """How many versions are in the log."""
        return int(self._plain(self.client.xlen, self._prefix + "log"))

    def machine_index(self, name: str) -> int | None:
        """The index of a machine by its name."""
        index = self._plain(self.client.hget, self._prefix + "names", name)
        return None if index is None else int(index)

    def runs(self, indices: Sequence[int]) -> list[Run]:
        """See Cell.runs."""
        found: list[Run] = []
        for start in range(0, len(indices), 4000):
            chunk = indices[start : start + 4000]
            texts = self._plain(self.client.hmget, self._prefix + "runs", [str(i) for i in chunk])
            for index, text in zip(chunk, texts, strict=True):
                found += records.read_runs(index, text.decode()) if text else []
        return found

    def job(self, job_id: str) -> Job | None:
        """See Cell.job."""
        record = self._plain(self.client.hget, self._prefix + "jobs", job_id)
        spec = self._plain(self.client.hget, self._prefix + "specs", job_id)
        return None if record is None else records.read_job(job_id, record, spec or b"", len(self.dimensions))

    def jobs_by_id(self, ids: Sequence[str]) -> dict[str, Job]:
        """See Cell.jobs_by_id."""
        found: dict[str, Job] = {}
        for start in range(0, len(ids), 4000):
            chunk = ids[start : start + 4000]
            texts = self._plain(self.client.hmget, self._prefix + "jobs", chunk)
            for job_id, text in zip(chunk, texts, strict=True):
                if text:
                    found[job_id] = records.read_job(job_id, text, b"", len(self.dimensions))
        return found

    def job_ids(self) -> list[str]:
        """Ids of every job that is kept, in no order."""
        return [name.decode() for name in self._plain(self.client.hkeys, self._prefix + "jobs")]

    def jobs(self) -> list[Job]:
        """See Cell.jobs; read a few thousand at a time."""
        found: list[Job] = []
        scan = self.client.hscan_iter(self._prefix + "jobs", count=2000)
        while chunk := self._plain(dict, islice(scan, 2000)):
            specs = self._plain(self.client.hmget, self._prefix + "specs", list(chunk))
            for (job_id, record), spec in zip(chunk.items(), specs, strict=True):
                found.append(records.read_job(job_id.decode(), record, spec or b"", len(self.dimensions)))
        return sorted({job.id: job for job in found}.values(), key=lambda job: job.order)

    def pending(self, most: int | None = None) -> dict[str, list[str]]:
        """See Cell.pending."""
        found = {}
        for key in self._plain(list, self.client.scan_iter(match=self._prefix + "pending:*", count=500)):
            members = self._plain(self.client.zrange, key, 0, -1 if most is None else most - 1)
            found[key.decode().removeprefix(self._prefix + "pending:")] = [member.decode()[2:] for member in members]
        return found

    def queue_depths(self) -> dict[str, int]:
        """How many jobs of each kind are pending."""
        keys = self._plain(list, self.client.scan_iter(match=self._prefix + "pending:*", count=500))
        start = len(self._prefix) + len("pending:")
        return {key.decode()[start:]: self._plain(self.client.zcard, key) for key in sorted(keys)}

    def facts(self, since: int = 0, most: int = 1000) -> list[Fact]:
        """See Cell.facts."""
        entries = self._plain(self.client.xrange, self._prefix + "log", min=f"{since + 1}-0", max="+", count=most)
        size = len(self.dimensions)
        return [fact for key, fields in entries for fact in _facts(key, fields, size)]

    def job_id(self, name: str) -> str | None:
        """The id of the live job of a name."""
        found = self._plain(self.client.hget, self._prefix + "jobnames", name)
        return None if found is None else found.decode()

    def ids_by_name(self, names: Sequence[str]) -> dict[str, str]:
        """See Cell.ids_by_name."""
        if not names:
            return {}
        found = self._plain(self.client.hmget, self._prefix + "jobnames", list(names))
        return {name: job_id.decode() for name, job_id in zip(names, found, strict=True) if job_id is not None}

    def job_names(self) -> dict[str, str]:
        """The names of live jobs, and their ids; read a few thousand at a time."""
        scan = self.client.hscan_iter(self._prefix + "jobnames", count=2000)
        found: dict[str, str] = {}
        while chunk := self._plain(dict, islice(scan, 2000)):
            found.update((name.decode(), job_id.decode()) for name, job_id in chunk.items())
        return found

    def snapshot(self, since: int, most: int = 5000) -> Snapshot:
        """See Audited.snapshot."""
        size = len(self.dimensions)
        values = {"dims": size, "since": since, "most": most}
        raw = RawSnapshot.of(self._run("snapshot", values, extra=self._known.get("pending", set())))
        found = {job_id: records.read_job(job_id, text, b"", size) for job_id, text, *_ in raw.jobs if text}
        return Snapshot(
            raw.version, raw.seen, raw.first, raw.length, raw.placements,
            rows=records.read_rows(b"".join(row for _, row, *_ in raw.machines if row), size),
            runs=[run for index, _, text, _ in raw.machines for run in records.read_runs(int(index), text.decode())],
            jobs=list(found.values()),
            queued=frozenset(job_id for job_id, _, queued, *_ in raw.jobs if queued == b"1"),
            holders={found[job_id].name: holder.decode() for job_id, text, _, holder, _ in raw.jobs if text},
            absent=frozenset(job_id for job_id, text, *_ in raw.jobs if not text),
            kinds={
                name.decode(): KindUse(*records.read_kind(text.decode(), size)) for name, text in raw.kinds
            },
        )  # fmt: skip

    def counters(self) -> dict[str, int]:
        """The cell's version, floor and other counters; what was never counted is 0."""
        found = self._plain(self.client.hgetall, self._prefix + "meta")
        known = {name.decode(): int(value) for name, value in found.items() if name != b"resources"}
        return dict.fromkeys(("version", "floor", "placements", "arrivals", "transactions", "jobs"), 0) | known

    def members(self) -> dict[str, tuple[int, bool, dict[str, Any]]]:
        """Every scheduler on record: incarnation, whether its lease holds, its last figures."""
        known = self._plain(self.client.hgetall, self._prefix + "schedulers")
        figures = self._plain(self.client.hgetall, self._prefix + "stats")
        found = {}
        for name, record in sorted(known.items()):
            member = name.decode()
            alive = bool(self._plain(self.client.exists, f"{self._prefix}lease:{member}"))
            found[member] = int(record.split(b" ", 1)[0]), alive, records.unpack(figures.get(name, b""))
        self._members = [member for member, (_, alive, _) in found.items() if alive]
        return found

    def figures(self) -> dict[str, dict[str, Any]]:
        """The last figures every scheduler left, those that are gone included."""
        left = self._plain(self.client.hgetall, self._prefix + "stats")
        return {name.decode(): records.unpack(data) for name, data in sorted(left.items())}


def _facts(key: bytes, fields: Mapping[bytes, bytes], size: int) -> list[Fact]:
    version, at, by = int(key.partition(b"-")[0]), int(fields[b"at"]), fields[b"by"].decode()
    lines = fields[b"facts"].decode()
    if not lines:
        return []
    return [Fact(version, at, by, words) for line in lines.split("\n") for words in records.fact_words(line, size)]
