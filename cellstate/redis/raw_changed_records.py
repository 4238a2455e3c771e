"""A snapshot as the script wrote it (lua/changed_records.lua): records as they are stored."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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
