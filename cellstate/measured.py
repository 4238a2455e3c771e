"""Measured use of tasks, as agents report it and the store keeps it beside their output: sums by job and machine."""

from collections.abc import Iterable
from typing import NamedTuple

STREAM = "usage"
"""The stream under which a machine's sums for a task group are kept; the machine's index stands for the task."""


class Measured(NamedTuple):
    """What ended tasks used: CPU and run time in ms, all together, and the largest memory of a process, in bytes."""

    tasks: int = 0
    cpu_ms: int = 0
    run_ms: int = 0
    peak_bytes: int = 0

    def plus(self, other: "Measured") -> "Measured":
        """Return both together."""
        return Measured(
            self.tasks + other.tasks,
            self.cpu_ms + other.cpu_ms,
            self.run_ms + other.run_ms,
            max(self.peak_bytes, other.peak_bytes),
        )

    def pack(self) -> bytes:
        """Return the record in the store."""
        return " ".join(map(str, self)).encode()


def unpack(data: bytes) -> Measured:
    """Read a record; nothing from one that is none."""
    words = data.split()
    if len(words) != len(Measured()) or not all(map(bytes.isdigit, words)):
        return Measured()
    return Measured(*map(int, words))


def together(records: Iterable[bytes]) -> Measured:
    """Return the sum of records."""
    found = Measured()
    for record in records:
        found = found.plus(unpack(record))
    return found
