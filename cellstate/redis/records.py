"""Records as the scripts write them, read into types and back (lua/parts/records.lua)."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from math import isinf
from operator import itemgetter
from sys import intern
from typing import Any, cast
from urllib.parse import quote

import msgpack

from omega.cellstate.errors import BadInput
from omega.cellstate.fairness import Assertion, Floor, Threshold
from omega.cellstate.lanes import BASE, Lane
from omega.cellstate.model import (
    MOST_CLAIMS,
    MOST_PRECEDENCE,
    Described,
    Limits,
    Machine,
    MachineSettings,
    MachineState,
    Pairs,
    Run,
)
from omega.cellstate.replies import Rows
from omega.cellstate.resources import Resources
from omega.cellstate.tasks import EndKind, FinishedRuns, TaskEnd
from omega.cellstate.transaction import ClaimColumns, Evicted, Outcome, Transaction, Verdict

UNREADABLE = (
    ValueError, KeyError, IndexError, TypeError, AttributeError, struct.error, msgpack.UnpackException, BadInput,
)  # fmt: skip
"""Errors of reading an invalid record."""


def pack(value: object) -> bytes:
    """MessagePack bytes of plain values; empty for an empty mapping, so that defaults cost nothing."""
    return cast("bytes", msgpack.packb(value)) if value else b""


def unpack(data: bytes) -> dict[str, Any]:
    """Return the mapping that `pack` wrote. Raises one of UNREADABLE for anything else."""
    if not data:
        return {}
    mapping = msgpack.unpackb(data)
    if not isinstance(mapping, dict):
        raise TypeError(f"a {type(mapping).__name__}, not a mapping")
    return cast("dict[str, Any]", mapping)


def row_bytes(dimensions: int) -> int:
    """Length of a machine's record."""
    return 8 * (4 + 2 * dimensions)


def lane_row(record: bytes, dimensions: int) -> tuple[bytes, int, Lane]:
    """Return the row of a lane in the change list, its serial and its name, from its record (lua/parts/lanes.lua)."""
    width = row_bytes(dimensions)
    return record[:width], int.from_bytes(record[8:16], "little"), Lane.named(record[width + 24 :].decode())


def lane_demand(record: bytes, dimensions: int) -> tuple[Lane, Resources, Resources]:
    """Return the name of a lane, and what its jobs hold and want, from its record."""
    width = row_bytes(dimensions)
    numbers = struct.unpack(f"<{2 * dimensions}q", record[width - 16 * dimensions : width])
    return lane_row(record, dimensions)[2], numbers[dimensions:], numbers[:dimensions]


def lane_use(record: bytes, dimensions: int) -> tuple[str, int, tuple[int, ...]]:
    """Return the kind of a lane, its jobs with placed tasks, and what placed tasks hold, from its record."""
    width = row_bytes(dimensions)
    _, _, lane = lane_row(record, dimensions)
    numbers = struct.unpack(f"<{dimensions}q16xq", record[width - 8 * dimensions : width + 24])
    return lane.kind, numbers[-1], numbers[:-1]


def apart(rows: Rows) -> tuple[Rows, Rows]:
    """Rows of machines and rows of lanes."""
    lanes = rows[:, 0] >= BASE
    if not lanes.any():
        return rows, rows[:0]
    width = rows.shape[1]
    whole = rows.view(f"V{8 * width}")[:, 0]  # a row is copied as one value
    return whole[~lanes].view(rows.dtype).reshape(-1, width), whole[lanes].view(rows.dtype).reshape(-1, width)


def read_rows(text: bytes, dimensions: int) -> Rows:
    """Read rows of machines and lanes, one after another, that cannot be written to (lua/parts/binary.lua)."""
    import numpy as np  # noqa: PLC0415 - a quarter of the start of a command that reads no machines

    width = 4 + 2 * dimensions
    return np.frombuffer(text, dtype="<i8").reshape(-1, width)


def read_row(text: bytes, dimensions: int) -> Sequence[int]:
    """Read the row of one machine."""
    return struct.unpack(f"<{4 + 2 * dimensions}q", text)


def read_machine(row: Sequence[int], static: bytes, dimensions: int) -> Machine:
    """Join a machine's row and its static part."""
    name, _, attributes = static.partition(b"\n")
    index, number, state, executor = (int(value) for value in row[:4])
    return Machine(
        index, name.decode(), number, MachineState(state), executor,
        tuple(int(value) for value in row[4 : 4 + dimensions]), tuple(int(value) for value in row[4 + dimensions :]),
        unpack(attributes),
    )  # fmt: skip


@lru_cache(maxsize=1 << 16)
def _pairs(attributes: bytes) -> Pairs:
    return tuple((str(name), str(value)) for name, value in sorted(unpack(attributes).items()))


def read_described(static: bytes) -> Described:
    """Read the static part of a machine: its name and its attributes; equal ones are one object."""
    name, _, attributes = static.partition(b"\n")
    return name.decode(), _pairs(attributes)


def read_settings(record: bytes) -> MachineSettings:
    """Read what operators set of a machine; an empty record is nothing."""
    amounts, _, attributes = record.partition(b"\n")
    return MachineSettings(tuple(None if word == b"-" else int(word) for word in amounts.split()), unpack(attributes))


def read_runs(machine: int, text: str) -> list[Run]:
    """Read the running and leaving tasks of a machine."""
    runs = []
    for item in text.split():
        placement, job, group, tasks = item.split(":")
        leaving = placement[0] == "!"
        runs.append(Run(int(placement[leaving:]), intern(job), machine, int(group), intern(tasks), leaving=leaving))
    return runs


def write_transactions(transactions: Sequence[Transaction]) -> bytes:
    """What commit.lua takes. Raises BadInput for a transaction with too many claims, or none."""
    parts = list[bytes]()
    for job, claims, mode, detection, assertion in transactions:
        size = len(claims)
        if not 0 < size <= MOST_CLAIMS:
            raise BadInput(f"job {job}: {size} claims in a transaction; want 1 to {MOST_CLAIMS}")
        numbers, said = [0] * (4 * size), b""
        if type(claims) is ClaimColumns:
            numbers[0::4], numbers[1::4] = claims.machines, [claims.group] * size
            numbers[2::4], seen = claims.counts or [1] * size, claims.seen
        else:
            numbers[0::4], numbers[1::4], numbers[2::4], seen, evict = map(list, zip(*claims, strict=True))
            said = _victims(evict) if any(evict) else b""
        if detection and seen is not None:
            numbers[3::4] = seen
        if assertion is not None:
            said += write_assertion(assertion).encode()
        name = job.encode()
        write = _transaction(len(name), size, len(said)).pack
        parts.append(write(len(name), name, mode, detection, size, *numbers, len(said), said))
    return b"".join(parts)


@lru_cache(maxsize=4096)
def _transaction(name: int, claims: int, said: int) -> struct.Struct:
    """Return the form of a transaction by the lengths of its parts."""
    return struct.Struct(f"<B{name}sBBI{claims * 'iiqq'}I{said}s")


def _victims(evict: Sequence[Evicted]) -> bytes:
    """Return ``claim:placement*count…``: the tasks that each claim may evict, in order."""
    listed = (f"{i}:{placement}*{most}" for i, each in enumerate(evict, 1) for placement, most in each)
    return ",".join(listed).encode()


def write_assertion(assertion: Assertion) -> str:
    """What follows the victims of a transaction (parts/shares.lua)."""
    thresholds = map(_threshold, (assertion.evictor, *assertion.victims))
    return f"|{assertion.serial}|" + "|".join((*thresholds, *map(_floor, assertion.floors)))


def _floor(floor: Floor) -> str:
    least = ",".join("-" if isinf(amount) else repr(amount) for amount in floor.amounts)
    return f"{'+' if floor.every else '='}{floor.job};;{least}"


def _threshold(threshold: Threshold) -> str:
    leaves = f"={threshold.job}" if threshold.job else "".join(f"{quote(leaf, safe='')}," for leaf in threshold.leaves)
    return f"{leaves};{','.join(map(str, threshold.lanes))};{','.join(map(repr, threshold.share))}"


_HOW = {how: how.name.lower() for how in EndKind}


def write_endings(endings: Sequence[TaskEnd]) -> bytes:
    """What end.lua takes: endings alike together, behind what they say and how many they are."""
    if type(endings) is FinishedRuns:
        ends = [number for pair in zip(endings.machines, endings.placements, strict=True) for number in map(int, pair)]
        return _endings(("finished", "*", "", "", 0), ends)
    parts = list[bytes]()
    for (how, *said), alike in groupby(endings, itemgetter(2, 3, 4, 5, 6)):
        parts.append(_endings((_HOW[how], *said), [number for ending in alike for number in ending[:2]]))
    return b"".join(parts)


def _endings(said: tuple[Any, ...], ends: list[int]) -> bytes:
    how, tasks, reason, job, submitted_ms = said
    words = how.encode(), tasks.encode(), job.encode(), (reason or "-").encode()
    form = "<B{}sI{}sB{}sQI{}s".format(*map(len, words)) + f"I{len(ends) // 2 * 'iQ'}"
    first = [value for word in words[:3] for value in (len(word), word)]
    return struct.pack(form, *first, submitted_ms, len(words[3]), words[3], len(ends) // 2, *ends)


@lru_cache(maxsize=4096)
def _all_placed(counts: tuple[int, ...]) -> Outcome:
    """Return the outcome of a transaction whose claims of so many tasks were all accepted."""
    return Outcome(tuple((count, Verdict.PLACED) for count in counts))


@lru_cache(maxsize=8192)
def _outcome(text: str) -> Outcome:
    pairs = (pair.split(" ") for pair in text.split(","))
    return Outcome(tuple((int(placed), Verdict(int(verdict))) for placed, verdict in pairs))


def read_outcomes(text: bytes, transactions: Sequence[Transaction]) -> list[Outcome]:
    """Read the outcomes of a call's transactions; ``+`` is a completely accepted one."""
    if not text:
        return []
    outcomes = list[Outcome]()
    for part, (_, claims, *_) in zip(text.decode().split(";"), transactions, strict=True):
        counts = claims.counts if type(claims) is ClaimColumns else None
        counts = counts or [claim[2] for claim in claims]
        outcomes.append(_all_placed(tuple(counts)) if part == "+" else _outcome(part))
    return outcomes


def messages(entry: str) -> list[str]:
    """Return the messages in one entry of a mailbox: those of a call, with a line each; placements share one."""
    return [message for line in entry.split("\n") for message in each_message(line)]


def each_message(line: str) -> list[str]:
    """Return the messages of a line, of which several placements may share one (RedisExecutors.receive_lines)."""
    if line[0] != "+":
        return ["!" if line[0] == "!" else line]
    _, job, group, duration, hold, first, *items = line.split(" ")
    return [
        f"+ {int(first) + i // 2} {items[i]} {job} {group} {items[i + 1]} {duration} {hold}"
        for i in range(0, len(items), 2)
    ]


def write_limits(limits: Limits) -> str:
    """What limit.lua takes."""
    low, high = ("-", "-") if limits.precedence == (0, MOST_PRECEDENCE) else map(str, limits.precedence)
    words = ["-" if limits.jobs is None else str(limits.jobs), low, high]
    return " ".join(words + ["-" if amount is None else str(amount) for amount in limits.resources])


def read_kind(text: str, dimensions: int) -> tuple[Limits, int, tuple[int, ...]]:
    """Read a kind's limits, admitted jobs and use."""
    words = text.split(" ")
    if len(words) != 4 + 2 * dimensions:
        raise ValueError(f"{text!r} has {len(words)} words, not {4 + 2 * dimensions}")
    maybe = [None if word == "-" else int(word) for word in words]
    precedence = (maybe[1] or 0, MOST_PRECEDENCE if maybe[2] is None else maybe[2])
    limits = Limits(tuple(maybe[3 : 3 + dimensions]), maybe[0], precedence)
    return limits, int(words[3 + dimensions]), tuple(int(word) for word in words[4 + dimensions :])


# A snapshot as the script wrote it (lua/changed_records.lua): records as they are stored.

_OF_MACHINE, _OF_JOB = 4, 5


@dataclass(frozen=True, slots=True, kw_only=True)
class RawChangedRecords:
    """Counters as in `ChangedRecords`, and the records that the facts name; empty ones are not kept any more."""

    version: int
    seen: int
    first: int
    length: int
    placements: int
    machines: Sequence[tuple[bytes, bytes, bytes, bytes]]
    """Index, record, runs, static part."""
    jobs: Sequence[tuple[str, bytes, bytes, bytes, bytes]]
    """Id, record, ``1`` when it is queued, holder of its name, spec."""
    placed: Sequence[tuple[bytes, bytes]]
    """Field and runs of every chunk that the jobs' records list (lua/parts/placements.lua)."""
    kinds: Sequence[tuple[bytes, bytes]]

    @classmethod
    def of(cls, reply: Sequence[Any]) -> "RawChangedRecords":
        """Read a reply of the script."""
        version, seen, first, length, placements, machines, jobs, chunks = map(int, reply[1:9])
        end = 9 + _OF_MACHINE * machines
        last = end + _OF_JOB * jobs
        return cls(
            version=version, seen=seen, first=first, length=length, placements=placements,
            machines=[tuple(reply[i : i + _OF_MACHINE]) for i in range(9, end, _OF_MACHINE)],
            jobs=[(reply[i].decode(), *reply[i + 1 : i + _OF_JOB]) for i in range(end, last, _OF_JOB)],
            placed=[(reply[i], reply[i + 1]) for i in range(last, last + 2 * chunks, 2)],
            kinds=[(reply[i], reply[i + 1]) for i in range(last + 2 * chunks, len(reply), 2)],
        )  # fmt: skip


# Records of the health of tasks: what `lua/health.lua` writes.


def read_health(text: bytes) -> tuple[tuple[int, ...], ...]:
    """Read the record of a job: machine, placement, task, expiry of a grant (0: ready, 1: down) of each task."""
    return tuple(tuple(map(int, each.split(b":"))) for each in text.split())
