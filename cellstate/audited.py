"""The port for the audit: reading methods of a cell, and a consistent read of changed records.

A live cell changes while it is read. Every change writes a fact that names the machines and jobs it changed, so a
reading in chunks becomes exact once all records named meanwhile are read again in one call (semantics 18).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from omega.cellstate.inspection import Damage, Inspection
from omega.cellstate.model import Job, Run
from omega.cellstate.replies import Fact, KindUse, Reply, Rows
from omega.cellstate.resources import Dimensions
from omega.cellstate.transaction import Intake, Position


@dataclass(slots=True, kw_only=True)
class ChangedRecords:
    """Machines, jobs and counters of a cell, all at `version`.

    It has at least everything that the facts after the requested version, up to the version `seen`, name; the reading
    is complete when `seen` is `version`. `first` is the oldest version in the log (`version` + 1 when it is empty),
    `length` the number of versions in it, `placements` the last placement id.
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
    """Without the parts that only schedulers and executors read."""
    queued: frozenset[str]
    """Those of the jobs that are in the queue of their kind."""
    holders: Mapping[str, str]
    """The names of the jobs, and the id of the live job that has each; "" when none has."""
    absent: frozenset[str]
    """Ids in facts that are no longer kept."""
    kinds: Mapping[str, KindUse]
    """Those with limits."""


class Audited(Protocol):
    """A cell that can be audited. All methods only read, and raise StoreError."""

    name: str
    dimensions: Dimensions

    def sync(self, since: Position, intake: Intake | None = None) -> Reply:
        """Return the machines changed since a position; with `intake` also the next jobs of a scheduler."""

    def runs(self, indices: Sequence[int]) -> list[Run]:
        """Return the runs on the given machines."""

    def jobs(self) -> list[Job]:
        """Return every stored job, in order of submission."""

    def pending(self) -> Mapping[str, list[str]]:
        """Return ids of pending jobs by kind, in the order of becoming pending; at most `most` of each kind."""

    def facts(self, since: int = 0, most: int = 1000) -> list[Fact]:
        """Return the facts of at most `most` versions after `since`; with `kinds` only those with such a first word."""

    def job_names(self) -> Mapping[str, str]:
        """Return the names of live jobs, and their ids."""

    unreadable: dict[tuple[str, str], str]
    """Records that could not be read and were left out: (key, field) → reason."""

    def unusable(self) -> list[Damage]:
        """Return keys of another type than a cell's, and counters that are no numbers: scripts fail on them."""

    def inspect(self) -> Inspection | None:
        """Read all other keys and fields of the cell; None without a store."""

    def changed_records(self, since: int, most: int = 5000) -> ChangedRecords:
        """Read the records that the facts after version `since` name, in one call.

        Facts are read up to `most` machines and jobs; with 0 only the counters are read.
        """
