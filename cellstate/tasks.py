"""What executors report of tasks: their ends, losses, progress, consumption, health and output."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, astuple, dataclass, fields
from enum import IntEnum, StrEnum
from typing import NamedTuple, Self, overload

# Ends of tasks, as executors report them.


class EndKind(IntEnum):
    """The reason for which tasks end. Evicted and stopped ones stay on the machine as leaving until acknowledged."""

    FINISHED = 0
    FAILED = 1
    LOST = 2
    EVICTED = 3
    STOPPED = 4
    LEFT = 5
    """The acknowledgement: leaving tasks are physically gone."""
    RETRIED = 6
    """Failed, after all restarts on its machine, and to be placed again after a delay, on another machine if it can."""


UNPLACING = frozenset({EndKind.LOST, EndKind.RETRIED, EndKind.EVICTED})
"""Ends after which tasks are placed again; the age of the placement decides which losses and failures still count."""


class TaskEnd(NamedTuple):
    """Tasks of a run end; `tasks` are ranges of indices, ``*`` for all of them.

    With its `job`, the end of a task that was declared lost meanwhile still counts (semantics 27). `submitted_ms` is
    the time at which that job was submitted: after a store lost versions, another job may have its id, and another
    placement its placement id (16). 0 when it is not known.
    """

    machine: int
    placement: int
    how: EndKind
    tasks: str = "*"
    reason: str = ""
    job: str = ""
    submitted_ms: int = 0


class FinishedRuns(Sequence[TaskEnd]):
    """Ends of whole runs that finished, in columns: their machines and placement ids, as text as messages have them."""

    __slots__ = ("machines", "placements")

    def __init__(self, machines: list[str], placements: list[str]) -> None:
        """Create the ends of these placements, each on its machine."""
        self.machines, self.placements = machines, placements

    def __len__(self) -> int:
        return len(self.machines)

    @overload
    def __getitem__(self, index: int) -> TaskEnd: ...

    @overload
    def __getitem__(self, index: slice) -> "FinishedRuns": ...

    def __getitem__(self, index: int | slice) -> "TaskEnd | FinishedRuns":
        """Return an end, or some of them."""
        if isinstance(index, slice):
            return FinishedRuns(self.machines[index], self.placements[index])
        return TaskEnd(int(self.machines[index]), int(self.placements[index]), EndKind.FINISHED)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))


# Losses of tasks, and failures after which they are placed again (semantics 26).


class Retried(NamedTuple):
    """Failures of tasks after all restarts on a machine, and the last of these machines (-1: none)."""

    failures: int = 0
    machine: int = -1


class TaskLoss(NamedTuple):
    """Losses of tasks of a group (semantics 26): `tasks` were lost `times` times.

    `due_ms` is when they may be placed again, in ms of the server's clock, 0 once they are pending or run again;
    `placement` is the id that they were lost with, 0 when a later placement of them has ended since.
    """

    tasks: str
    times: int
    due_ms: int
    placement: int
    retried: Retried = Retried()

    @property
    def restarts(self) -> int:
        """How often each of the tasks was placed again after a loss or a failure, or will be."""
        return self.times + self.retried.failures


# How far running tasks have come, as they report it: a record of a job and a machine (docs/speculation.md).

_FORM = re.compile(r"(\d+:\d+:(\d|[1-9]\d|100)( |$))+(?<! )", re.ASCII)


class TaskProgress(NamedTuple):
    """The part of a task that is done, in percent."""

    group: int
    task: int
    percent: int


def pack_progress(tasks: Iterable[TaskProgress]) -> str:
    """Return the record of some tasks; empty for none."""
    return " ".join(f"{group}:{task}:{percent}" for group, task, percent in sorted(tasks))


def unpack_progress(record: bytes) -> list[TaskProgress]:
    """Read a record. Raises ValueError."""
    text = record.decode()
    if not _FORM.fullmatch(text):
        raise ValueError(f"{text!r} is no record of the progress of tasks")
    return [TaskProgress(*map(int, each.split(":"))) for each in text.split(" ")]


# Consumption of ended tasks: CPU time, run time and memory, measured by agents, kept as sums by job and machine.

STREAM = "usage"
"""The stream under which a machine's sums for a task group are kept; the machine's index stands for the task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumption:
    """What ended tasks used: CPU and run time in ms, all together, and the largest memory of a process, in bytes."""

    tasks: int = 0
    cpu_ms: int = 0
    run_ms: int = 0
    peak_bytes: int = 0

    def plus(self, other: "Consumption") -> "Consumption":
        """Return both together."""
        return Consumption(
            tasks=self.tasks + other.tasks,
            cpu_ms=self.cpu_ms + other.cpu_ms,
            run_ms=self.run_ms + other.run_ms,
            peak_bytes=max(self.peak_bytes, other.peak_bytes),
        )

    def pack(self) -> bytes:
        """Return the record in the store."""
        return " ".join(map(str, astuple(self))).encode()


_NAMES = tuple(field.name for field in fields(Consumption))
"""The numbers of a record, in order."""


def unpack_consumption(data: bytes) -> Consumption:
    """Read a record; nothing from one that is none."""
    words = data.split()
    if len(words) != len(_NAMES) or not all(map(bytes.isdigit, words)):
        return Consumption()
    return Consumption(**dict(zip(_NAMES, map(int, words), strict=True)))


def merged_consumption(records: Iterable[bytes]) -> Consumption:
    """Return the sum of records."""
    total = Consumption()
    for record in records:
        total = total.plus(unpack_consumption(record))
    return total


# What agents report of the health of tasks, and the grants for the end of unhealthy ones.


class HealthState(StrEnum):
    """State of a task that an agent reports; tasks that are neither are not reported."""

    READY = "ready"
    """Its readiness command passed."""
    ENDING = "ending"
    """Its end was granted, and it has not been healthy since."""
    ASKS = "asks"
    """Its liveness command failed; the agent asks for a grant of its end."""
    DOWN = "down"
    """Its attempt failed, and the next one has not started: it does not count in an update."""


DOWN_DUE = 1
"""What stands for the expiry of a grant in the record of a task that is down; 0 of one that is ready."""


class HealthOf(NamedTuple):
    """The state of a task by the id of its placement and its index."""

    placement: int
    task: int
    state: HealthState


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthReport:
    """The states of all tasks of a job on a machine; it replaces the report before.

    At most `max_down` tasks of the job are ending, or delayed after their end, at once. A grant expires after
    `span_ms`.
    """

    job: str
    machine: int
    tasks: Sequence[HealthOf]
    max_down: int = 1
    span_ms: int = 0


class HealthAnswer(NamedTuple):
    """The tasks, (placement, index), whose end is granted, and where the next call's search for old records begins."""

    granted: frozenset[tuple[int, int]]
    cursor: int = 0


# Parts of the output of tasks that agents keep: a client's request in the agent's mailbox, and the answer.

TAIL_BYTES = 4 << 10
"""Bytes of each stream's end that the store keeps."""

MOST_OUTPUT = 64 << 10
"""Maximum number of bytes in an answer."""
MOST_ASKED = 64
"""Entries of a mailbox from which on it takes no further request: its agent does not read it, or has enough to do."""
ANSWER_MS = 20_000
"""Time after which an answer that nobody reads expires (ms)."""
STREAMS = ("stdout", "stderr")
_NAME = re.compile(r"[0-9a-f]{8,64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class OutputRequest:
    """A request named `name` for at most `MOST_OUTPUT` bytes of a stream of a task, from byte `start` on.

    A `start` below 0 counts from the end of the stream. `group` is the one that the task was placed in; `placement`
    is 0 for the newest one; `submitted_ms` tells the job from an earlier one of its id.
    """

    name: str
    job: str
    group: int
    task: int
    stream: str
    start: int
    _: KW_ONLY
    placement: int = 0
    submitted_ms: int = 0

    def message(self) -> str:
        """Return the message in the mailbox."""
        return f"? {' '.join(map(str, astuple(self)))}"

    @classmethod
    def read(cls, message: str) -> Self:
        """Read a message. Raises ValueError."""
        _, name, job, group, task, stream, start, placement, submitted = message.split(" ")
        if not _NAME.fullmatch(name) or stream not in STREAMS:
            raise ValueError(f"{message!r} is no request for output")
        return cls(
            name, job, int(group), int(task), stream, int(start), placement=int(placement), submitted_ms=int(submitted)
        )


class OutputPart(NamedTuple):
    """Output of a placement of a task from byte `start` of the stream on; placement 0: the agent has none."""

    placement: int
    start: int
    data: bytes

    def pack(self) -> bytes:
        """Return the answer."""
        return b"%d %d\n%s" % (self.placement, self.start, self.data)

    @classmethod
    def unpack(cls, answer: bytes) -> Self:
        """Read an answer. Raises ValueError."""
        head, found, data = answer.partition(b"\n")
        placement, _, start = head.partition(b" ")
        if not found or not placement.isdigit() or not start.isdigit() or len(data) > MOST_OUTPUT:
            raise ValueError(f"{head[:40]!r} is no answer with output")
        return cls(int(placement), int(start), data)


class StoredTail(NamedTuple):
    """The end of a stream as the store keeps it: `data` begins at byte `start` of the stream."""

    start: int
    data: bytes

    def pack(self) -> bytes:
        """Return the record."""
        return b"%d\n%s" % self

    @classmethod
    def unpack(cls, record: bytes | None) -> Self:
        """Read a record, of which a damaged one is shown as it is; empty without one."""
        head, found, data = (record or b"").partition(b"\n")
        return cls(int(head), data) if found and head.isdigit() else cls(0, record or b"")
