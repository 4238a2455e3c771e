"""Parts of the output of tasks that agents keep: a client's request in the agent's mailbox, and the answer."""

import re
from dataclasses import KW_ONLY, astuple, dataclass
from typing import NamedTuple, Self

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
