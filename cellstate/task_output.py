"""Parts of the output of tasks that agents keep: a client's request in the agent's mailbox, and the answer."""

import re
from typing import NamedTuple, Self

MOST_OUTPUT = 64 << 10
"""Maximum number of bytes in an answer."""
MOST_ASKED = 64
"""Entries of a mailbox from which on it takes no further request: its agent does not read it, or has enough to do."""
ANSWER_MS = 20_000
"""Time after which an answer that nobody reads expires (ms)."""
STREAMS = ("stdout", "stderr")
_NAME = re.compile(r"[0-9a-f]{8,64}", re.ASCII)


class OutputRequest(NamedTuple):
    """A request named `name` for at most `MOST_OUTPUT` bytes of a stream of a task, from byte `start` on.

    A `start` below 0 counts from the end of the stream. `group` is the one that the task was placed in.
    """

    name: str
    job: str
    group: int
    task: int
    stream: str
    start: int

    def message(self) -> str:
        """Return the message in the mailbox."""
        return f"? {' '.join(map(str, self))}"

    @classmethod
    def read(cls, message: str) -> Self:
        """Read a message. Raises ValueError."""
        _, name, job, group, task, stream, start = message.split(" ")
        if not _NAME.fullmatch(name) or stream not in STREAMS:
            raise ValueError(f"{message!r} is no request for output")
        return cls(name, job, int(group), int(task), stream, int(start))


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
