"""Measured use of tasks, as agents report it and the store keeps it beside their output: sums by job and machine."""

from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields

STREAM = "usage"
"""The stream under which a machine's sums for a task group are kept; the machine's index stands for the task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What ended tasks used: CPU and run time in ms, all together, and the largest memory of a process, in bytes."""

    tasks: int = 0
    cpu_ms: int = 0
    run_ms: int = 0
    peak_bytes: int = 0

    def plus(self, other: "Measured") -> "Measured":
        """Return both together."""
        return Measured(
            tasks=self.tasks + other.tasks,
            cpu_ms=self.cpu_ms + other.cpu_ms,
            run_ms=self.run_ms + other.run_ms,
            peak_bytes=max(self.peak_bytes, other.peak_bytes),
        )

    def pack(self) -> bytes:
        """Return the record in the store."""
        return " ".join(map(str, astuple(self))).encode()


_NAMES = tuple(field.name for field in fields(Measured))
"""The numbers of a record, in order."""


def unpack(data: bytes) -> Measured:
    """Read a record; nothing from one that is none."""
    words = data.split()
    if len(words) != len(_NAMES) or not all(map(bytes.isdigit, words)):
        return Measured()
    return Measured(**dict(zip(_NAMES, map(int, words), strict=True)))


def merged(records: Iterable[bytes]) -> Measured:
    """Return the sum of records."""
    found = Measured()
    for record in records:
        found = found.plus(unpack(record))
    return found
