"""Reading the directories of a cell for the audit, every key and every field; what cannot be read is noted.

A key of a cell has a reader here, found by its name: the readers of hashes take one field at a time, the others the
whole key. A key without one is reported as a key that no cell has.
"""

import re
import struct
from collections.abc import Callable, Mapping
from typing import cast

from omega.cellstate import keys
from omega.cellstate.executors import check_executor, check_member
from omega.cellstate.inspection import ChangeEntry, Damage, Inspection, LaneBook, Mail, Queued
from omega.cellstate.lanes import BASE, BUCKET_SPAN, LANE_SPAN, Lane
from omega.cellstate.model import bucket_of
from omega.cellstate.override import override
from omega.cellstate.pools.records import EPOCH_FIELDS, EPOCH_NUMBERS, unpack_epoch
from omega.cellstate.ranges import spans
from omega.cellstate.redis import job_records, records
from omega.cellstate.redis.calls import Arguments
from omega.cellstate.redis.digest_inspection import RECORDS
from omega.cellstate.redis.expiring_inspection import ExpiringInspection
from omega.cellstate.redis.machine_inspection import read_operator_field, read_shape_field, read_static_field
from omega.cellstate.redis.meta_inspection import read_meta_field
from omega.cellstate.redis.pool_inspection import read_pool_field
from omega.cellstate.redis.records import read_health_field
from omega.cellstate.redis.shard_records import contradiction, read_directory_field
from omega.cellstate.redis.task_inspection import (
    read_copied_field,
    read_output_field,
    read_progress_field,
    read_unsettled_field,
    read_update_field,
)
from omega.cellstate.tasks import OutputPart

_TAG = re.compile(r"[a-z0-9]{10}")
_SCHEDULER = re.compile(
    r"(\d+) [A-Za-z0-9._-]{1,64} \d+(?: (\w+))?\n(|(\+|\d+ \d+(,\d+ \d+)*)(;(\+|\d+ \d+(,\d+ \d+)*))*)"
)
_AGENT = re.compile(r"(\d+) [A-Za-z0-9._-]{1,64} \d+")
_LAPSING = re.compile(r"\d+ ! \d+")
_CHUNK = re.compile(r"\S+ \d+ (!?)[1-9]\d*")
_RUNS = re.compile(r"( !?\d+:[^: ]+:\d+:[\d,-]+)*")

Field = Callable[[Inspection, str, bytes], None]


def _want(fits: object, what: str) -> None:
    if not fits:
        raise ValueError(what)


def _number(text: bytes | str) -> int:
    word = text.decode() if isinstance(text, bytes) else text
    _want(re.fullmatch(r"0|[1-9]\d*", word), f"{word!r} is not a number")
    return int(word)


def _machine(_: Inspection, field: str, value: bytes) -> None:
    """The rest of a machine's record is checked with the state of the cell."""
    index = int.from_bytes(value[:8], "little")
    _want(_number(field) == index, f"is the record of machine {index}")


def _job(inspection: Inspection, field: str, value: bytes) -> None:
    """The rest of a job's record is checked with the state of the cell."""
    job = job_records.decode(value, inspection.dimensions)
    bucket = job["bucket"]
    _want(job_records.encode(job) == value, "is not written as records are")
    leaves = any(job_records.leaves(group) for group in job["groups"])
    _want(job["leaving"] == leaves, f"says that tasks {'leave' if job['leaving'] else 'do not leave'} machines")
    _want(bucket == f"{bucket_of(field):02x}", f"its bucket is {bucket}, that of its id {bucket_of(field):02x}")


def _name(inspection: Inspection, field: str, value: bytes) -> None:
    inspection.machine_names[field] = _number(value)


def _tree(inspection: Inspection, field: str, value: bytes) -> None:
    inspection.trees[_number(field)] = None if value == b"-" else _number(value)


def _runs(inspection: Inspection, field: str, value: bytes) -> None:
    _want(_RUNS.fullmatch(value.decode()), f"{value.decode()!r} is not a list of runs")
    for run in records.read_runs(0, value.decode()):
        _want(all(first <= last for first, last in spans(run.tasks)), f"tasks {run.tasks} are not ascending")
    inspection.run_records.add(_number(field))


def _placed(inspection: Inspection, field: str, value: bytes) -> None:
    parts = _CHUNK.fullmatch(field)
    _want(parts, "not job, group, chunk")
    mark = parts[1] if parts else ""
    _want(re.fullmatch(rf"({mark}\d+@\d+,(@\d+,)*)+", value.decode()), f"{value.decode()!r} is not a list of runs")
    runs = job_records.read_runs(value.decode())
    inspection.placed[field] = {(placement, machine) for placement, machine, _ in runs}
    _want(len(inspection.placed[field]) == len(runs), "lists a run twice")


def _executor(inspection: Inspection, field: str, value: bytes) -> None:
    inspection.executors[field] = _number(value)


def _spec(inspection: Inspection, field: str, value: bytes) -> None:
    spec = records.unpack(value)
    groups = spec.get("groups", [])
    _want(isinstance(groups, list) and all(isinstance(group, dict) for group in groups), "groups are not mappings")
    inspection.specs[field] = len(groups)


def _scheduler(inspection: Inspection, field: str, value: bytes) -> None:
    parts = _SCHEDULER.fullmatch(value.decode())
    _want(parts, "not incarnation, nonce, number and outcomes")
    if parts:
        inspection.members[check_member(field)] = int(parts[1])
        if parts[2]:
            inspection.answers[field] = parts[2], parts[3]


def _holder(name: str) -> str:
    """Return the name of a lease's holder: a scheduler, an agent or a simulated executor."""
    return check_member(name) if "/" in name else check_executor(name)


def _agent(inspection: Inspection, field: str, value: bytes) -> None:
    if _LAPSING.fullmatch(value.decode()):
        _holder(field)  # its machines are being given up, which is in the log
        return
    parts = _AGENT.fullmatch(value.decode())
    _want(parts, "not incarnation, nonce and length of lease")
    inspection.members[_holder(field)] = int(parts[1]) if parts else 0


def _serving(inspection: Inspection, field: str, value: bytes) -> None:
    inspection.serving[_number(field)] = _holder(value.decode().partition(" ")[0])


def _stats(_: Inspection, field: str, value: bytes) -> None:
    check_member(field)
    records.unpack(value)


def _asleep(inspection: Inspection, field: str, value: bytes) -> None:
    _want(re.fullmatch(rb"\S+( \S+)*", value), f"{value!r} are not names of jobs")
    inspection.blocked.add(check_member(field))


def _drain(inspection: Inspection, field: str, value: bytes) -> None:
    _number(value)
    inspection.drains.add(_number(field))


def _lane_name(inspection: Inspection, field: str, value: bytes) -> None:
    inspection.lane_names[field] = _number(value)


FIELDS: Mapping[str, Field] = {
    "lanenames": _lane_name, "pools": read_pool_field, "placed": _placed, "executors": _executor, "drains": _drain,
    "meta": read_meta_field, "machines": _machine, "jobs": _job, "names": _name, "trees": _tree, "runs": _runs,
    "specs": _spec, "schedulers": _scheduler, "agents": _agent, "serving": _serving, "stats": _stats, "asleep": _asleep,
    "output": read_output_field, "updates": read_update_field, "copied": read_copied_field,
    "health": read_health_field, "static": read_static_field, "operator": read_operator_field,
    "unsettled": read_unsettled_field, "shapes": read_shape_field, "directories": read_directory_field, **RECORDS,
}  # fmt: skip
"""Readers of hashes, one field at a time."""

READ_ELSEWHERE = frozenset({"jobnames", "kinds", "log"})
"""Keys that only the state of the cell and its log consist of (cellstate/audit/reading.py)."""


class RedisInspection(ExpiringInspection):
    """The reads of `Audited.inspect` on a server."""

    @override
    def inspect(self) -> Inspection:
        inspection = Inspection(len(self.dimensions))
        self._inspect_history(inspection)
        for key in self._every_key():
            self._inspect_key(inspection, key)
        seconds, micros = self._command(self.client.time)
        inspection.now_ms = int(seconds) * 1000 + int(micros) // 1000
        return inspection

    @override
    def unusable(self) -> list[Damage]:
        inspection: list[Damage] = []
        there_are = self._every_key()
        with self.client.pipeline(transaction=False) as pipe:
            for key in there_are:
                pipe.type(self._prefix + key)
            types = self._command(pipe.execute)
        for key, name in zip(there_are, types, strict=True):
            kind, there = keys.TYPES.get(key.partition(":")[0]), name.decode()
            if kind is not None and there not in (kind, "none"):  # it may have expired meanwhile
                inspection.append(Damage(key, "", f"is a {there}, not a {kind}"))
        if not inspection:
            counters = Inspection()
            self._inspect_hash(counters, "meta", read_meta_field)
            self._inspect_hash(counters, "cuts", RECORDS["cuts"])
            inspection += counters.damaged
            inspection += [
                Damage("meta", name, "is missing") for name in ("version", "floor") if name not in counters.meta
            ]
        return inspection

    def _every_key(self) -> list[str]:
        match = self._prefix.replace("[", "\\[") + "*"
        there = set(self._command(list, self.client.scan_iter(match=match, count=500)))
        return sorted(key.decode(errors="replace").removeprefix(self._prefix) for key in there)

    def _list(self, key: str) -> list[bytes]:
        return cast("list[bytes]", self._command(self.client.lrange, self._prefix + key, 0, -1))

    def _inspect_key(self, inspection: Inspection, key: str) -> None:
        name, _, own = key.partition(":")
        if name not in keys.TYPES:
            inspection.damaged.append(Damage(key, "", "is no key of a cell (cellstate/keys.py)"))
        elif name in FIELDS:
            self._inspect_hash(inspection, key, FIELDS[name])
        elif name not in READ_ELSEWHERE:
            reader: Callable[[Inspection, str], None] | None = getattr(self, f"_inspect_{name}", None)
            if reader is None:
                inspection.damaged.append(Damage(key, "", "has no reader (cellstate/redis/inspection.py)"))
            else:
                self._guard(inspection, key, "", reader, inspection, own)

    def _guard(
        self, inspection: Inspection, key: str, field: str, read: Callable[Arguments, None], *args: Arguments.args,
        **options: Arguments.kwargs,
    ) -> None:  # fmt: skip
        try:
            read(*args, **options)
        except records.UNREADABLE as error:
            inspection.damaged.append(Damage(key, field, str(error) or type(error).__name__))

    def _inspect_hash(self, inspection: Inspection, key: str, reader: Field) -> None:
        for field, value in self._command(list, self.client.hscan_iter(self._prefix + key, count=2000)):
            name = field.decode(errors="replace")
            self._guard(inspection, key, name, reader, inspection, name, value)

    # Keys that are not hashes, and those that one job or member has

    def _inspect_history(self, inspection: Inspection) -> None:
        """Read the change list and the counters at one moment."""
        with self.client.pipeline() as pipe:
            pipe.hmget(self._prefix + "meta", ["version", "floor"])
            pipe.lrange(self._prefix + "changes", 0, -1)
            counters, entries = self._command(pipe.execute, raise_on_error=False)
        if isinstance(entries, Exception) or not all(word and word.isdigit() for word in counters):
            return  # reported with the key, or with the counter
        version, floor = map(int, counters)
        inspection.version = version
        if len(entries) != version - floor:
            what = f"has {len(entries)} entries for the versions from {floor + 1} to {version}"
            inspection.damaged.append(Damage("changes", "", what))
        for version, entry in enumerate(entries, floor + 1):
            self._guard(inspection, "changes", str(version), self._change_entry, inspection, version, entry)

    def _change_entry(self, inspection: Inspection, version: int, entry: bytes) -> None:
        tag = entry[:10].decode()
        _want(_TAG.fullmatch(tag), f"tag {tag!r} is not ten letters and digits")
        rows, lanes = records.apart(records.read_rows(entry[10:], len(self.dimensions)))
        inspection.changes.append(ChangeEntry(version, tag, rows, lanes))

    def _inspect_changes(self, inspection: Inspection, _: str) -> None:
        """Read in one piece with the counters: see `_inspect_history`."""

    def _inspect_done(self, inspection: Inspection, _: str) -> None:
        for at, entry in enumerate(self._list("done")):
            self._guard(inspection, "done", str(at), self._done_entry, inspection, entry)

    def _done_entry(self, inspection: Inspection, entry: bytes) -> None:
        job, version = entry.decode().split(" ")
        inspection.done.append((job, _number(version)))

    def _inspect_times(self, inspection: Inspection, _: str) -> None:
        entries = self._list("times")
        times = [(_number(version), _number(at_ms)) for version, at_ms in (entry.split(b" ") for entry in entries)]
        versions = [version for version, _ in times]
        _want(versions == sorted(set(versions)), f"its versions {versions} do not rise")
        _want([at_ms for _, at_ms in times] == sorted(at_ms for _, at_ms in times), "its times do not rise")
        _want(not versions or versions[-1] <= self.counters()["version"], f"{versions[-1:]} is a later version")

    def _inspect_housekeeping(self, inspection: Inspection, _: str) -> None:
        inspection.chores = self._scores("housekeeping")

    def _inspect_recent(self, inspection: Inspection, _: str) -> None:
        inspection.recent = self._scores("recent")

    def _inspect_waiters(self, inspection: Inspection, _: str) -> None:
        inspection.waiters = self._scores("waiters")

    def _scores(self, key: str) -> dict[str, float]:
        members = self.client.zscan_iter(self._prefix + key, count=2000)
        return {member.decode(errors="replace"): score for member, score in self._command(list, members)}

    def _inspect_pending(self, inspection: Inspection, kind: str) -> None:
        for entry, score in self._scores(f"pending:{kind}").items():
            self._guard(inspection, f"pending:{kind}", entry, self._queued, inspection, kind, entry, score)

    def _queued(self, inspection: Inspection, kind: str, member: str, score: float) -> None:
        bucket, job = int(member[:2], 16), member[2:]
        _want(f"{bucket:02x}" == member[:2] and job, "not a bucket and the id of a job")
        lane, rest = divmod(score, LANE_SPAN)
        there, arrival = divmod(rest, BUCKET_SPAN)
        inspection.queued.append(Queued(kind, bucket, job, arrival, int(lane)))
        _want(bucket == bucket_of(job), f"its bucket is {bucket:02x}, that of its id {bucket_of(job):02x}")
        _want(there == bucket, f"its score is one of bucket {int(there):02x}")
        _want(arrival == int(arrival), f"its arrival is {arrival}, not a whole number")

    def _inspect_lanes(self, inspection: Inspection, _: str) -> None:
        for field, value in self._hash("lanes").items():
            name = field.decode(errors="replace")
            self._guard(inspection, "lanes", name, self._lane, inspection, name, value)

    def _lane(self, inspection: Inspection, field: str, value: bytes) -> None:
        if field == "spare":
            _want(re.fullmatch(r"(\d+ )+", value.decode()), f"{value.decode()!r} is not a list of numbers")
            inspection.spare_lanes = [_number(word) for word in value.decode().split()]
            return
        size = len(self.dimensions)
        numbers = struct.unpack(f"<{7 + 2 * size}q", value[: 8 * (7 + 2 * size)])
        _want(numbers[0] == BASE + _number(field), f"is the record of lane {numbers[0] - BASE}")
        name = value[8 * (7 + 2 * size) :].decode()
        Lane.named(name)
        wanted, held = numbers[4 : 4 + size], numbers[4 + size : 4 + 2 * size]
        _, serial, pending, arrival = numbers[:4]
        live, tasks, running = numbers[-3:]
        inspection.lanes[_number(field)] = LaneBook(
            serial=serial, pending=pending, arrival=arrival, wanted=wanted, held=held, live=live, tasks=tasks,
            running=running, name=name,
        )  # fmt: skip

    def _inspect_epoch(self, inspection: Inspection, _: str) -> None:
        fields = {name.decode(): value for name, value in self._hash("epoch").items()}
        _want(fields.keys() == {*EPOCH_FIELDS, "shares", "leaves"}, f"has the fields {sorted(fields)}")
        for name in EPOCH_NUMBERS:
            _number(fields[name])
        check_member(fields["by"].decode())
        epoch = unpack_epoch(fields)
        inspection.epoch = epoch.number, epoch.version, fields["digest"].decode(), epoch.published, epoch.by
        inspection.epoch_totals = epoch.pools_version, epoch.totals

    def _inspect_lease(self, inspection: Inspection, member: str) -> None:
        value = self._command(self.client.get, f"{self._prefix}lease:{member}")
        if value is None:
            return
        inspection.leases[_holder(member)] = _number(value)
        _want(self._command(self.client.pttl, f"{self._prefix}lease:{member}") != -1, "never expires")

    def _inspect_settling(self, inspection: Inspection, _: str) -> None:
        value = self._command(self.client.get, self._prefix + "settling")
        if value is None:
            return
        _want(_number(value) <= self.counters()["placements"], f"{value!r} is a later placement")
        _want(self._command(self.client.pttl, self._prefix + "settling") != -1, "never expires")

    def _inspect_confirmed(self, _: Inspection, __: str) -> None:
        value = self._command(self.client.get, self._prefix + "confirmed")
        _want(not value, f"{value!r} is not empty")
        _want(self._command(self.client.pttl, self._prefix + "confirmed") != -1, "never expires")

    def _inspect_box(self, inspection: Inspection, executor: str) -> None:
        lines = self._list(f"box:{executor}")
        messages = [message.split(" ") for line in lines for message in records.messages(line.decode())]
        for words in messages:
            lengths = {"+": 8, "-": 4, "!": 1, "?": 7}  # of messages as records.messages has them
            _want(lengths.get(words[0]) == len(words) and all(words), f"{' '.join(words)!r} is no message")
        inspection.mailboxes[_number(executor)] = [
            Mail(
                int(words[1]),
                int(words[2]),
                *((words[5], words[3], words[4], int(words[6])) if words[0] == "+" else words[3:]),
            )
            for words in messages
            if words[0] in "+-"
        ]

    def _inspect_wake(self, inspection: Inspection, member: str) -> None:
        del inspection
        check_member(member)
        tokens = self._list(f"wake:{member}")
        _want(all(token == b"1" for token in tokens), f"{tokens} are not tokens")

    def _inspect_outputs(self, inspection: Inspection, _: str) -> None:
        inspection.outputs[1].extend(field.decode() for field in self._list("outputs"))

    def _inspect_shards(self, inspection: Inspection, job: str) -> None:
        fields = {name.decode(): value.decode() for name, value in self._hash(f"shards:{job}").items()}
        inspection.shards[job] = contradiction(fields)

    def _inspect_progress(self, inspection: Inspection, job: str) -> None:
        self._inspect_hash(inspection, f"progress:{job}", read_progress_field)
        _want(self._command(self.client.pttl, f"{self._prefix}progress:{job}") != -1, "never expires")

    def _inspect_answer(self, _: Inspection, name: str) -> None:
        OutputPart.unpack(self._command(self.client.get, f"{self._prefix}answer:{name}") or b"0 0\n")
        _want(self._command(self.client.pttl, f"{self._prefix}answer:{name}") != -1, "never expires")
