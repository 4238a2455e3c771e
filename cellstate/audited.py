"""What the audit asks of a cell: the reading methods of the port, and one look that stands still.

A live cell changes while it is read. Every change leaves a fact that names the machines and jobs it
touched, so a reading in chunks becomes exact once all that was named meanwhile is read again in one
piece (semantics 18).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from cellstate.cell import Fact, KindUse, Reply, Rows
from cellstate.inspection import Damage, Inspection
from cellstate.model import Job, Run
from cellstate.resources import Dimensions
from cellstate.transaction import Intake, Position


@dataclass(slots=True)
class ChangedRecords:
    """Machines, jobs and counters of a cell, all at `version`.

    Has at least everything that the facts after the version asked about, up to the version `seen`,
    name; the reading has caught up when `seen` is `version`. `first` is the oldest version in the log
    (`version` + 1 when it is empty), `length` the versions in it, `placements` the last placement id.
    """

    version: int
    seen: int
    first: int
    length: int
    placements: int
    rows: Rows
    runs: list[Run]
    """The runs on the machines in `rows`."""
    jobs: list[Job]
    """Without what only schedulers and executors read."""
    queued: frozenset[str]
    """Which of the jobs are in the queue of their kind."""
    holders: Mapping[str, str]
    """The names of the jobs, and the id of the live job that has each; "" when none has."""
    absent: frozenset[str]
    """Ids that facts name and that are not kept any more."""
    kinds: Mapping[str, KindUse]
    """All of them."""


class Audited(Protocol):
    """A cell that can be audited. Nothing here changes anything; all raise StoreError."""

    name: str
    dimensions: Dimensions

    def sync(self, since: Position, intake: Intake | None = None) -> Reply:
        """See Cell.sync; the audit reads all machines with it."""

    def runs(self, indices: Sequence[int]) -> list[Run]:
        """See Cell.runs."""

    def jobs(self) -> list[Job]:
        """See Cell.jobs."""

    def pending(self) -> Mapping[str, list[str]]:
        """See Cell.pending."""

    def facts(self, since: int = 0, most: int = 1000) -> list[Fact]:
        """See Cell.facts."""

    def job_names(self) -> Mapping[str, str]:
        """The names of live jobs, and their ids."""

    unreadable: dict[tuple[str, str], str]
    """Records that could not be read so far and were left out: (key, field), and why."""

    def unusable(self) -> list[Damage]:
        """Return keys of another type than a cell's, and counters that are no numbers: no script runs on them."""

    def inspect(self) -> Inspection | None:
        """Read the directories beside machines and jobs, every key and field; None where there is no store."""

    def changed_records(self, since: int, most: int = 5000) -> ChangedRecords:
        """Read what the facts after version `since` name, in one piece.

        Facts are read until they name `most` machines and jobs; with 0 only the counters are read.
        """
