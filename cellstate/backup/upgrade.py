"""Older forms of a cell's records, brought to the present one: what restore and `omega store migrate` share.

Every step takes a backup of one schema and changes it to a later one.
"""

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from omega.cellstate import keys, ranges, schema
from omega.cellstate.backup import Backup, Key
from omega.cellstate.errors import Unsuitable
from omega.cellstate.lanes import BASE, BUCKET_SPAN, LANE_SPAN, MOST_WANTED, lane_of
from omega.cellstate.model import BUDGET, RUNS_CHUNK, JobState, MachineState, bucket_of, runs_commands
from omega.cellstate.redis.job_records import decode, encode, leaves
from omega.cellstate.redis.records import read_runs, unpack

LEASE_MS = 10_000
"""Lease that a simulated executor of schema 2, which had none, has after the step."""
Tasks = Mapping[tuple[int, bool], str]
"""The tasks of every run of a cell, as ranges, by placement id and whether they are leaving."""


def check_schema(backup: Backup) -> None:
    """Raise Unsuitable unless the records of a backup have the present form, or one that `upgraded` reads."""
    if backup.schema != keys.SCHEMA and backup.schema not in _STEPS:
        which = "newer" if backup.schema > keys.SCHEMA else "older"
        raise Unsuitable(
            f"cell {backup.cell}: was written with schema {backup.schema}, this Omega has schema {keys.SCHEMA}; "
            f"restore it with the {which} Omega that made the backup"
        )


def upgradable(schema: int) -> bool:
    """Return whether cells of an older schema can be brought to the present one."""
    return schema in _STEPS


def upgraded(backup: Backup) -> Backup:
    """Bring the records of a backup, which is changed, to the present form. Raises Unsuitable."""
    check_schema(backup)
    while backup.schema != keys.SCHEMA:
        _STEPS[backup.schema](backup)
    return backup


def _from_2(backup: Backup) -> None:
    """Schema 2: jobs as text; no lanes, chunks of runs, leases of simulated executors, housekeeping.

    Events before the step are left out: they name fewer things than the audit follows now.
    """
    size = len(backup.resources)
    backup.bulk.setdefault("placed", {})
    arrivals = _arrivals(backup)
    lanes = _Lanes(size)
    tasks = {
        (run.placement, run.leaving): run.tasks
        for index, text in backup.bulk["runs"].items()
        for run in read_runs(int(index), text.decode())
    }
    chores: list[bytes] = []
    for job_id, record in sorted(backup.bulk["jobs"].items(), key=lambda item: int(item[1].split(b" ", 4)[3])):
        spec = unpack(backup.bulk["specs"].get(job_id, b""))
        job = _job_of_2(job_id.decode(), record.decode(), spec, size)
        for number, group in enumerate(job["groups"]):
            _set_apart(backup, job_id.decode(), number, group, tasks)
        job["leaving"] = any(leaves(group) for group in job["groups"])
        job["lane"] = lanes.enter(job, spec, arrivals.get(job_id))
        ends = job["state"] in (JobState.STOPPED, JobState.ABANDONED) and spec.get("on_abandon") != "keep"
        if ends and any(group["placed"] for group in job["groups"]):
            chores += [job_id, b"0"]
        backup.bulk["jobs"][job_id] = encode(job)
    lanes.store(backup, arrivals)
    if chores:
        backup.small["housekeeping"] = Key("zset", chores)
    _renumber_executors(backup, size)
    ended = b" %d" % backup.version
    if done := backup.small.get("done"):
        done.items[:] = [entry.partition(b" ")[0] + ended for entry in done.items]
    backup.log, backup.schema = [], 4
    _set_meta(backup, {b"schema": 4, b"lanes": lanes.count})


def _from_4(backup: Backup) -> None:
    """Schema 4: a job whose name is its id has it twice in its record, and again in the directory of names.

    Events before the step are left out: lines of several placements name each of their ids.
    """
    jobs, size = backup.bulk["jobs"], len(backup.resources)
    for job_id, record in jobs.items():
        job = decode(record, size)
        if job["name"] == job_id.decode():
            jobs[job_id] = encode({**job, "name": ""})
    names = backup.bulk["jobnames"]
    names.update({name: b"" for name, job_id in names.items() if job_id == name})
    backup.log, backup.schema = [], 5
    _set_meta(backup, {b"schema": 5})


def _from_5(backup: Backup) -> None:
    """Schema 5: placements in the log have the amounts of their machines, not what a task takes; every kind is counted.

    Events before the step are left out. Of kinds, those with limits keep their record.
    """
    known, size = backup.small.pop("kinds", None), len(backup.resources)
    items = known.items if known else []
    rows = {name: row for name, row in zip(items[::2], items[1::2], strict=True) if not _is_unlimited(row, size)}
    if rows:
        backup.small["kinds"] = Key("hash", [word for pair in rows.items() for word in pair])
    backup.log, backup.schema = [], keys.SCHEMA
    _set_meta(backup, {b"schema": keys.SCHEMA, b"limits": len(rows)})


def _is_unlimited(row: bytes, size: int) -> bool:
    return all(word == b"-" for word in row.split()[: 3 + size])


_STEPS: Mapping[int, Callable[[Backup], None]] = {2: _from_2, 4: _from_4, 5: _from_5}


def _set_meta(backup: Backup, values: Mapping[bytes, int]) -> None:
    items = backup.small["meta"].items
    known = dict(zip(items[::2], items[1::2], strict=True)) | {name: b"%d" % value for name, value in values.items()}
    items[:] = [word for pair in known.items() for word in pair]


def _arrivals(backup: Backup) -> dict[bytes, int]:
    """The arrival of every pending job; members of the old queues are a bucket of two digits and the job's id."""
    queues = [key.items for name, key in backup.small.items() if name.partition(":")[0] == "pending"]
    return {items[i][2:]: int(items[i + 1]) for items in queues for i in range(0, len(items), 2)}


def _job_of_2(job_id: str, record: str, spec: Mapping[str, Any], size: int) -> dict[str, Any]:
    """Read ``name kind precedence order state gang submitted bucket links;group;group…``."""
    head, *groups = record.split(";")
    name, kind, precedence, order, state, gang, submitted, _, links = head.split(" ")
    modified = links.partition("<")[0].partition(">")[0]
    fields = [_group_of_2(text.split(" "), size) for text in groups]
    return schema.blank((*schema.CHANGING, *schema.FIXED)) | {
        "state": int(state), "begun": any(group["unplaced"] < group["total"] for group in fields),
        "commands": runs_commands(spec), "size": len(fields), "modified": int(modified),
        "links": links.removeprefix(modified), "gang": int(gang), "bucket": f"{bucket_of(job_id):02x}",
        "precedence": int(precedence), "order": int(order), "submitted": int(submitted), "lane": "0", "name": name,
        "kind": kind, "groups": fields,
    }  # fmt: skip


def _group_of_2(words: list[str], size: int) -> dict[str, Any]:
    """Read ``need*R duration total[/indices][?] unplaced placed finished failed stopped waiting runs``."""
    duration, totals, unplaced, placed, finished, failed, stopped, waiting, runs = words[size:]
    total, _, indices = totals.rstrip("?").partition("/")
    return {
        "duration": int(duration), "total": int(total), "indices": int(indices or total), "unplaced": int(unplaced),
        "placed": int(placed), "finished": int(finished), "failed": int(failed), "stopped": int(stopped),
        "delayed": 0, "budget": BUDGET, "optional": totals[-1] == "?", "waiting": waiting,
        "runs": "" if runs == ranges.EMPTY else runs, "rest": "", "need": tuple(map(int, words[:size])),
    }  # fmt: skip


def _set_apart(backup: Backup, job: str, number: int, group: dict[str, Any], tasks: Tasks) -> None:
    """Move the runs of a large group whose last index is beyond the first chunk into chunks of their own."""
    if group["indices"] <= RUNS_CHUNK:
        return
    chunks: dict[tuple[str, int], list[str]] = {}
    for item in group["runs"].split(",")[:-1]:
        mark = "!" if item[0] == "!" else ""
        run = tasks[int(item.lstrip("!").partition("@")[0]), bool(mark)]
        last = ranges.spans(run)[-1][1] // RUNS_CHUNK
        chunks.setdefault((mark if last else "", last), []).append(f"{item},")
    group["runs"] = "".join(chunks.pop(("", 0), []))
    for (mark, chunk), items in chunks.items():
        backup.bulk["placed"][f"{job} {number} {mark}{chunk}".encode()] = "".join(items).encode()
    if chunks:
        live, going = (
            ranges.gather(sorted(chunk for each, chunk in chunks if each == mark)) for mark in ("", "!")
        )  # fmt: skip
        group["rest"] = f"#{live}!{going}"


class _Lanes:
    """The lanes of a cell that had none (lua/parts/lanes.lua), made of its jobs."""

    def __init__(self, size: int) -> None:
        self._size, self._numbers = size, dict[str, str]()
        self._books: dict[str, list[int]] = {}

    @property
    def count(self) -> int:
        return len(self._numbers)

    def enter(self, job: Mapping[str, Any], spec: Mapping[str, Any], arrival: int | None) -> str:
        """Count a job, when something of it is left; returns the number of its lane."""
        placed, left = (sum(group[name] for group in job["groups"]) for name in ("placed", "unplaced"))
        if not placed and not left:
            return "0"
        name = str(lane_of(job["kind"], job["precedence"], spec))
        number = self._numbers.setdefault(name, str(len(self._numbers) + 1))
        serial = int(number)
        book = self._books.setdefault(number, [BASE + serial, serial, 0, 0, *[0] * (2 * self._size), 0, 0, 0])
        if arrival is not None:
            book[2], book[3] = book[2] + 1, max(book[3], arrival)
        for group in job["groups"]:
            for d, need in enumerate(group["need"]):
                book[4 + d] += min(MOST_WANTED, need * group["unplaced"])
                book[4 + self._size + d] += need * group["placed"]
        book[-3], book[-2], book[-1] = book[-3] + 1, book[-2] + placed, book[-1] + (placed > 0)
        return number

    def store(self, backup: Backup, arrivals: Mapping[bytes, int]) -> None:
        """Write the lanes, and the queues by lane, bucket and arrival."""
        names = {number: name for name, number in self._numbers.items()}
        rows = {
            number: struct.pack(f"<{len(book)}q", *book) + names[number].encode()
            for number, book in self._books.items()
        }  # fmt: skip
        if rows:
            backup.small["lanes"] = Key("hash", [word for pair in rows.items() for word in _bytes(pair)])
            known = ((name, number) for name, number in self._numbers.items())
            backup.small["lanenames"] = Key("hash", [word for pair in known for word in _bytes(pair)])
        for name in [name for name in backup.small if name.partition(":")[0] == "pending"]:
            del backup.small[name]
        for job_id, arrival in arrivals.items():
            job, bucket = backup.bulk["jobs"][job_id], bucket_of(job_id.decode())
            kind, lane = _kind_and_lane(job, self._size)
            score = lane * LANE_SPAN + bucket * BUCKET_SPAN + arrival
            queue = backup.small.setdefault(f"pending:{kind}", Key("zset", []))
            queue.items.extend((b"%02x" % bucket + job_id, b"%d" % score))


def _kind_and_lane(record: bytes, size: int) -> tuple[str, int]:
    job = decode(record, size)
    return job["kind"], int(job["lane"])


def _bytes(pair: tuple[str, str | bytes]) -> Iterator[bytes]:
    return (word.encode() if isinstance(word, str) else word for word in pair)


def _renumber_executors(backup: Backup, size: int) -> None:
    """Number agents evenly and simulated executors oddly; both live until a lease from now, if they renew it not."""
    executors = backup.small.get("executors")
    if executors is None:
        return
    names, numbers = executors.items[::2], [int(number) for number in executors.items[1::2]]
    now = {
        number: 2 * number - (not name.startswith(b"agent/")) for name, number in zip(names, numbers, strict=True)
    }  # fmt: skip
    executors.items[1::2] = [b"%d" % now[number] for number in numbers]
    agents = backup.small.setdefault("agents", Key("hash", []))
    items = backup.small["meta"].items
    incarnation = int(dict(zip(items[::2], items[1::2], strict=True)).get(b"incarnations", b"0"))
    for name in names:
        if not name.startswith(b"agent/"):
            incarnation += 1
            agents.items.extend((name, b"%d upgraded %d" % (incarnation, LEASE_MS)))
    _set_meta(backup, {b"incarnations": incarnation})
    lives = set(agents.items[::2])
    serving = {b"%d" % now[number]: name for name, number in zip(names, numbers, strict=True) if name in lives}
    if serving:
        backup.small["serving"] = Key("hash", [word for pair in serving.items() for word in pair])
    alive = {int(number) for number in serving}
    for index, record in backup.bulk["machines"].items():
        row = list(struct.unpack(f"<{4 + 2 * size}q", record))
        row[3] = now.get(row[3], row[3])
        if row[2] == MachineState.UP and row[3] not in alive:
            row[2] = MachineState.OFFLINE
        backup.bulk["machines"][index] = struct.pack(f"<{len(row)}q", *row)
