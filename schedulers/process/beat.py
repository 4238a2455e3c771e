"""What a scheduler's process says of its work in memory that it shares with the process that watches it.

A call of a policy that does not return holds the loop, and one in C may hold the whole interpreter, so nothing inside
the process can end it. Each part of the process counts up as it enters and leaves code of policies: an odd number that
stays the same is a call that does not return. The ids of the jobs of a round stand there before the first is decided.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from mmap import mmap

LOOP, HEARTBEAT = 0, 1
"""Parts of the process, each with a counter of its own."""
ALIVE, JOB, LENGTH, INCARNATION = 2, 3, 4, 5
"""Further numbers: turns of the event loop, the place of the present job in the text (from 1), its length, and the
incarnation of the membership."""
NONE, TOGETHER = 0, 1 << 32
"""Places for no job, and for all jobs of the round in one call."""
TEXT, SIZE = 64, 1 << 20
"""Offset of the text with the ids of the round's jobs, and size of the memory: untouched pages take none."""


class Beat:
    """The shared memory of one process and the one that watches it."""

    def __init__(self) -> None:
        """Make the memory; a child that is forked shares it."""
        self._memory = mmap(-1, SIZE)
        self.words = memoryview(self._memory)[:TEXT].cast("Q")
        """The numbers; `JOB` is written for each job, so it is written here and not by a call."""

    def clear(self) -> None:
        """Prepare for another process."""
        for number in range(len(self.words)):
            self.words[number] = 0

    @contextmanager
    def calling(self, part: int) -> Iterator[None]:
        """Count as inside code of policies during the block."""
        self.enter(part)
        try:
            yield
        finally:
            self.leave(part)

    def enter(self, part: int) -> None:
        """Begin with code of policies."""
        if part == LOOP:
            self.words[JOB] = NONE
        self.words[part] |= 1

    def leave(self, part: int) -> None:
        """End it."""
        self.words[part] = (self.words[part] | 1) + 1

    def round(self, ids: Sequence[str]) -> None:
        """State the jobs that are decided next; `words[JOB]` then says which."""
        self.words[JOB] = NONE
        text = "\n".join(ids).encode()[: SIZE - TEXT]
        self._memory[TEXT : TEXT + len(text)] = text
        self.words[LENGTH] = len(text)

    def single(self, job_id: str) -> None:
        """State the one job that is decided next."""
        self.round((job_id,))
        self.words[JOB] = 1

    @property
    def jobs(self) -> list[str]:
        """The jobs of the present call: one, several that are placed together, or none."""
        place = self.words[JOB]
        ids = self._memory[TEXT : TEXT + self.words[LENGTH]].decode(errors="replace").split("\n")
        if place == TOGETHER:
            return ids
        return ids[place - 1 : place] if place else []
