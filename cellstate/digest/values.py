"""What a step of the digest reads of the log, and what it writes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from omega.cellstate.events import Fact

MOST_FACTS = 1_000
"""Facts of a step, up to the end of an entry."""

MOST_VERSIONS, MOST_BYTES = 500, 1 << 18
"""Newest entries of the log that a question about a job reads, and their size; the entry that reaches it is whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Undigested:
    """The next entries of the log: the record of the position, the oldest and newest version, submissions so far."""

    position: bytes
    first: int
    newest: int
    submissions: int
    facts: "Sequence[Fact]"
    to: int
    """The version up to which `facts` are complete."""

    @property
    def at_ms(self) -> int | None:
        """The time of the entry at `to`; None when it was not read."""
        return self.facts[-1].at_ms if self.facts and self.facts[-1].version == self.to else None


class JobRecords(NamedTuple):
    """New records of a job: its history, the list of its chunks, and its changed chunks by field."""

    job: str
    history: bytes
    chunks: str
    results: dict[str, bytes]


class DigestStep(NamedTuple):
    """What a step writes: the position before and after, records of jobs, hours; hours before `oldest` are deleted.

    `read` is what the step was made from: it is void when the cell went back meanwhile.
    """

    read: Undigested
    after: bytes
    jobs: list[JobRecords]
    hours: dict[int, bytes]
    oldest: int
