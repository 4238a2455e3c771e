"""Records as the scripts write them, read into the types of the port and back (lua/parts/records.lua)."""

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
from omega.cellstate.redis.link import NO_STRINGS, BulkStrings, Numbers, bulk_string, bulk_strings
from omega.cellstate.replies import Rows
from omega.cellstate.tasks import EndKind, FinishedRuns, TaskEnd
from omega.cellstate.transaction import Claim, ClaimColumns, Detection, Mode, Outcome, Transaction, Verdict

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


def write_transactions(transactions: Sequence[Transaction]) -> BulkStrings:
    """What commit.lua takes: of each transaction its job, numbers, victims, and the machine of every claim.

    It is built as text, in which a character is a byte, because text is formatted faster than bytes. Raises BadInput
    for a transaction with too many claims, or none.
    """
    if not transactions:
        return NO_STRINGS
    parts: list[str] = []
    count, length, incremental, gang, machine_word = 0, _LENGTHS, *_usual, _machine_words
    for job, claims, mode, detection, assertion in transactions:
        if (
            type(claims) is ClaimColumns
            and claims.counts
            and detection is _FINE
            and not claims.group
            and assertion is None
        ):
            machines, usual = claims.machines, incremental if mode is _INCREMENTAL else gang
            size = len(machines)
            if size == 1:
                count += 4
                parts.append(f"{length[len(job)]}{job}{usual[claims.counts[0]]}{machine_word[machines[0]]}")
                continue
            if 0 < size <= MOST_CLAIMS:
                count += 3 + size
                parts += (length[len(job)], job, usual[tuple(claims.counts)])
                parts += [machine_word[each] for each in machines]
                continue
        size = len(claims)
        if not 0 < size <= MOST_CLAIMS:
            raise BadInput(f"job {job}: {size} claims in a transaction; want 1 to {MOST_CLAIMS}")
        count += 3 + size
        said = _victims(claims) + (write_assertion(assertion) if assertion is not None else "")
        parts += (bulk_string(job), _numbers(mode, detection, claims), bulk_string(said))
        parts += [machine_word[claim[0]] for claim in claims]
    return BulkStrings(count, "".join(parts).encode("latin-1"))


MOST_USUAL = 4096
"""Texts of transactions that are kept: a scheduler's memory grows until they are."""


class _Usual(dict[int | tuple[int, ...], str]):
    """Numbers and victims of transactions of the first group, by the tasks of the claims: most are the same.

    The end of the word before stands in front of them.
    """

    def __init__(self, mode: Mode) -> None:
        self.mode = mode

    def __missing__(self, tasks: int | tuple[int, ...]) -> str:
        if len(self) >= MOST_USUAL:
            self.clear()
        claims = [Claim(0, 0, count) for count in ((tasks,) if isinstance(tasks, int) else tasks)]
        text = self[tasks] = "\r\n" + _numbers(self.mode, Detection.FINE, claims) + bulk_string("")
        return text


_LENGTHS = [f"${length}\r\n" for length in range(65)]
"""What stands before a job's id, by its length, of which 64 is the most, and before a number."""
_LINE_END = "\r\n"
_machine_words, _usual = Numbers(), (_Usual(Mode.INCREMENTAL), _Usual(Mode.GANG))
_INCREMENTAL, _FINE = Mode.INCREMENTAL, Detection.FINE


def _numbers(mode: int, detection: int, claims: Sequence[Claim]) -> str:
    numbers: list[int] = [mode, detection]
    for _, group, count, seen, _ in claims:
        numbers += (group, count, seen if detection else 0)
    return bulk_string(_integers(len(numbers)).pack(*numbers).decode("latin-1"))


def _victims(claims: Sequence[Claim]) -> str:
    """Return ``claim:placement*count…``: the tasks that each claim may evict, in order."""
    return ",".join([f"{i}:{placement}*{most}" for i, claim in enumerate(claims, 1) for placement, most in claim[4]])


@lru_cache(maxsize=1024)
def _integers(count: int) -> struct.Struct:
    return struct.Struct(f"<{count}q")


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


def write_endings(endings: Sequence[TaskEnd]) -> BulkStrings:
    """What end.lua takes: endings alike together, behind what they say and how many they are."""
    if type(endings) is FinishedRuns:
        parts, length = [bulk_string("finished * - -"), bulk_string(str(len(endings)))], _LENGTHS
        for machine, placement in zip(endings.machines, endings.placements, strict=True):
            parts += (length[len(machine)], machine, _LINE_END, length[len(placement)], placement, _LINE_END)
        return BulkStrings(2 + 2 * len(endings), "".join(parts).encode("latin-1"))
    words: list[object] = []
    for (how, tasks, reason, job, submitted_ms), alike in groupby(endings, itemgetter(2, 3, 4, 5, 6)):
        pairs = [each for machine, placement, *_ in alike for each in (machine, placement)]
        whose = f"{job}@{submitted_ms}" if submitted_ms else job or "-"
        words += [f"{_HOW[how]} {tasks} {whose} {reason or '-'}", len(pairs) // 2, *pairs]
    return bulk_strings(words)


class _AllPlaced(dict[int | tuple[int, ...], Outcome]):
    """Outcomes of transactions whose claims were all accepted, by the tasks of the claims, or of the only claim."""

    def __missing__(self, tasks: int | tuple[int, ...]) -> Outcome:
        if len(self) >= MOST_USUAL:
            self.clear()
        counts = (tasks,) if isinstance(tasks, int) else tasks
        outcome = self[tasks] = Outcome(tuple((count, Verdict.PLACED) for count in counts))
        return outcome


_all_placed = _AllPlaced()


@lru_cache(maxsize=8192)
def _outcome(text: str) -> Outcome:
    pairs = (pair.split(" ") for pair in text.split(","))
    return Outcome(tuple((int(placed), Verdict(int(verdict))) for placed, verdict in pairs))


def read_outcomes(text: bytes, transactions: Sequence[Transaction]) -> list[Outcome]:
    """Read the outcomes of a call's transactions; ``+`` is a completely accepted one."""
    if not text:
        return []
    outcomes: list[Outcome] = []
    placed = _all_placed
    for part, transaction in zip(text.decode().split(";"), transactions, strict=True):
        if part != "+":
            outcomes.append(_outcome(part))
            continue
        claims = transaction[1]
        counts = claims.counts if type(claims) is ClaimColumns else None
        counts = counts or [claim.count for claim in claims]
        outcomes.append(placed[counts[0]] if len(counts) == 1 else placed[tuple(counts)])
    return outcomes


def messages(entry: str) -> list[str]:
    """Return the messages in one entry of a mailbox: those of a call, with a line each; placements share one."""
    return [message for line in entry.split("\n") for message in each_message(line)]


def each_message(line: str) -> list[str]:
    """Return the messages of a line, of which several placements may share one (ExecutorStore.receive_lines)."""
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
