"""The first reading of a cell in parts: descriptions of machines, their running tasks, jobs, older entries of the log.

It is repeated after the store lost versions that cannot be told, and when entries of the log are missing. Meanwhile the
mirror has what it read before.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell
    from omega.cellstate.model import Job
    from omega.queries.mirror.held_cell import HeldCell

MACHINES_AT_ONCE, JOBS_AT_ONCE, ENTRIES_AT_ONCE = 5_000, 500, 100
"""What is read in one part, and put into the mirror while pages wait for its lock: some 10 ms."""
PARTS_AT_ONCE = 10
"""Parts of a round, some 0.5 s."""


class Reading(Protocol):
    """The reader whose cell is loaded."""

    cell: "Cell"
    held: "HeldCell"
    lock: AbstractContextManager[bool]
    at: int

    def count(self, machines: Sequence[int]) -> None:
        """Count the running tasks of some machines."""

    def put(self, job_id: str, job: "Job | None", version: int) -> None:
        """Put a job as it is now into the table."""


class Loading:
    """How far the reading of all has come."""

    def __init__(self, reader: Reading) -> None:
        self._reader = reader
        self.counted = 0
        """The number of machines whose tasks were counted, the first ones."""
        self._before: int | None = None
        self._found: set[str] | None = set()
        """The jobs that were found so far; None once all were read."""
        self.complete = False
        """Whether all was read once; for good."""
        self.repeats = False
        """Whether all is read again since."""

    @property
    def done(self) -> bool:
        """Whether every machine and job was read, and nothing is to be read again."""
        held = self._reader.held
        return self._found is None and self.counted >= held.snapshot.size and self.described

    @property
    def described(self) -> bool:
        """Whether every machine is described: others have no names or attributes yet, which is not to be learned."""
        return not len(self._undescribed())

    @property
    def jobs_done(self) -> bool:
        """Whether every job was read, and is not to be read again."""
        return self._found is None

    @property
    def progress(self) -> tuple[int, int]:
        """How many records were read, of how many; all of them once all were."""
        held = self._reader.held
        machines, jobs = held.snapshot.size, held.held_sums.stored if held.held_sums else 0
        if self.complete and not self.repeats:
            return machines + jobs, machines + jobs
        read = jobs if self._found is None else min(len(self._found), max(0, jobs - 1))
        described = machines - len(self._undescribed())
        return min(described, self.counted) + read, machines + jobs

    def begin_again(self) -> None:
        """Read all jobs, and the tasks of all machines, again."""
        self.counted, self._before, self._found, self.repeats = 0, None, set(), self.complete

    def found(self, job_id: str) -> None:
        """Note that a job is in the table, because the log named it."""
        if self._found is not None:
            self._found.add(job_id)

    def _undescribed(self) -> NDArray[np.intp]:
        snapshot = self._reader.held.snapshot
        return snapshot.attributes.wanting(snapshot.rows[2])

    def step(self) -> None:
        """Read the next parts of each."""
        for _ in range(PARTS_AT_ONCE):
            self._describe()
            self._count()
            self._load_log()
            if self._found is not None:
                self._load_jobs(self._found)
            if self.done:
                self.complete, self.repeats = True, False
                return

    def _describe(self) -> None:
        wanting = self._undescribed()[:MACHINES_AT_ONCE]
        if len(wanting):
            snapshot, described = self._reader.held.snapshot, self._reader.cell.machines.described(wanting.tolist())
            with self._reader.lock:
                snapshot.learn(wanting, described)
                snapshot.forget_freed()

    def _count(self) -> None:
        part = range(self.counted, min(self.counted + MACHINES_AT_ONCE, self._reader.held.snapshot.size))
        if part:
            self._reader.count(part)
            self.counted = part.stop

    def _load_log(self) -> None:
        ring, oldest = self._reader.held.ring, max(self._reader.held.log_first, 1)
        if not len(ring) or ring.first <= oldest or ring.whole or ring.missing:
            return
        since = max(oldest - 1, ring.first - 1 - ENTRIES_AT_ONCE)
        read = self._reader.cell.log.entries(since, ring.first - 1 - since)
        with self._reader.lock:
            ring.whole = not read or not ring.add_before([entry for entry in read if entry.version < ring.first])

    def _load_jobs(self, found: set[str]) -> None:
        reader = self._reader
        page = reader.cell.jobs.page(JOBS_AT_ONCE, self._before)
        with reader.lock:
            for job in page.jobs:
                reader.put(job.id, job, reader.at)
            self._before = page.before
            if page.before is None:
                self._found = None
                for job_id in [job_id for job_id in reader.held.table.ids() if job_id not in found]:
                    reader.put(job_id, None, reader.at)
