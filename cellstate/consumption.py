"""Consumption of ended tasks: CPU time, run time and memory, measured by agents, kept as sums by job and machine."""

from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields

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


def unpack(data: bytes) -> Consumption:
    """Read a record; nothing from one that is none."""
    words = data.split()
    if len(words) != len(_NAMES) or not all(map(bytes.isdigit, words)):
        return Consumption()
    return Consumption(**dict(zip(_NAMES, map(int, words), strict=True)))


def merged(records: Iterable[bytes]) -> Consumption:
    """Return the sum of records."""
    total = Consumption()
    for record in records:
        total = total.plus(unpack(record))
    return total
