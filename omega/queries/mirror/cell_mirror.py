"""The mirror of a cell: one reader brings it up to date, any number of pages and streams look at it."""

from collections.abc import Callable, Mapping, Sequence
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from omega.cellstate.errors import OmegaError
from omega.cellstate.model import Job, MachineState
from omega.queries import cells, machines as machines_module, pool_shares, schedulers
from omega.queries.delays import delay_json
from omega.queries.event_list import Filter
from omega.queries.jobs import find_job, job_json
from omega.queries.mirror import job_pages
from omega.queries.mirror.codes import ABSENT
from omega.queries.mirror.event_documents import event_document
from omega.queries.mirror.held_cell import HeldCell
from omega.queries.mirror.index import Index
from omega.queries.mirror.job_table import ALL_JOBS, JobFilter
from omega.queries.mirror.last_hour import HOUR_MS
from omega.queries.mirror.machine_columns import MachineColumns, machine_columns, room_document
from omega.queries.mirror.reader import Reader
from omega.queries.pool_standing import PoolsRead
from omega.queries.recent import recently
from omega.schedulers.runnable import Runnable

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell

Document = dict[str, Any]
Kept = TypeVar("Kept")
PAUSE_MS = 30_000
"""Time between two readings from which on the series of the last hour have a pause."""
LOOKED_AT_MS = 60_000
"""Time for which the reader makes the document of the pools after somebody looked at it."""
MOST_ROWS = 50
"""Rows of a sorted page of jobs whose number is not given."""


class CellMirror:
    """One cell in memory. `read` is called by one thread; documents are taken by any, with `lock` held."""

    def __init__(self, cell: "Cell", store: str, *, whole: bool = True) -> None:
        """Mirror `cell`; `store` is the printed name of its store; not `whole`: without jobs and names of machines."""
        self.cell, self.store, self.lock = cell, store, RLock()
        self.held = HeldCell(cell)
        self._as_cell = cast("Cell", self.held)
        self._reader = Reader(cell, self.held, self.lock, whole=whole)
        self.at_ms = self.since_ms = 0
        self._runnable, self._pools_at_ms = Runnable(), -LOOKED_AT_MS
        self._making = RLock()
        self._made: dict[str, tuple[object, object]] = {}
        self.unavailable = ""

    def read(self, now_ms: int) -> None:
        """Bring the mirror up to date. Raises StoreError, and Refused when the cell does not exist."""
        try:
            self._reader.read(now_ms)
        except OmegaError as error:
            with self.lock:
                if not self.unavailable:
                    self._reader.touch("cell")
                self.unavailable = str(error)
            raise
        with self.lock:
            if self.unavailable:
                self._reader.touch("cell")
            if not self.at_ms or now_ms - self.at_ms > PAUSE_MS:
                self.since_ms = now_ms
            self.unavailable, self.at_ms = "", now_ms
        if now_ms - self._pools_at_ms < LOOKED_AT_MS:
            self._kept("pools", self._pools)  # some 0.1 s with 100,000 jobs, which no page should take

    @property
    def index(self) -> Index:
        """The index of the last reading."""
        return self._reader.index

    @property
    def loading(self) -> tuple[int, int]:
        """How many records the first reading has read, of how many; equal from its end on."""
        loading = self._reader.loading
        done, total = loading.progress
        return (total, total) if loading.complete else (done, total)

    @property
    def again(self) -> tuple[int, int] | None:
        """How many records were read again, of how many, while all are; the mirror then has what it read before."""
        loading = self._reader.loading
        return loading.progress if loading.repeats else None

    def has(self, index: Index) -> bool:
        """Return whether an index is of the history that the cell has: no failover took its version back.

        An index whose tag no reading of this mirror published is not known.
        """
        known = self._reader.tags.get(index.tag)
        return known is not None and index.version <= known.version

    def topic_index(self, topic: str) -> Index:
        """Return the index of the last change of a topic: ``cell jobs machines schedulers pools events job:ID``."""
        if topic.startswith("job:"):
            return self.index._replace(version=self.job_index(topic[4:]), beat=0)
        return self._reader.topics[topic]

    # The cell

    def cell_status(self) -> Document:
        """Return the document of ``omega cell status``."""
        kinds = self.held.pools.kinds()
        summary = cells.describe(self._as_cell, kinds, recently(self._as_cell, self.at_ms))
        return {"cell": self.held.name, "store": self.store} | summary | cells.writes_json(self._as_cell)

    def schedulers(self, *, everybody: bool = False) -> Document:
        """Return the document of ``omega scheduler list``."""
        listed = schedulers.describe(self._as_cell, everybody)
        return {"cell": self.held.name, "schedulers": listed, **cells.writes_json(self._as_cell)}

    def limits(self) -> Document:
        """Return the document of ``omega cell limits``."""
        kinds = self.held.pools.kinds()
        limits = {kind: cells.limits_json(self.held.dimensions, use) for kind, use in kinds.items()}
        return {"cell": self.held.name, "limits": limits}

    def pools(self) -> Document:
        """Return the document of ``omega pool list``."""
        self._pools_at_ms = self.at_ms
        return self._kept("pools", self._pools)

    def pool(self, name: str) -> Document:
        """Return the document of ``omega pool show``. Raises NotFound."""
        from omega.pools.one import pool_json

        return pool_json(self._as_cell, name, self.pools())

    def pools_read(self) -> PoolsRead | None:
        """Return what explanations of jobs need of the pools; None before the first reading."""
        done, total = self.loading
        return PoolsRead(self.pools(), self.held.pools.epoch()) if self.at_ms and done >= total else None

    def _pools(self) -> Document:
        held = self.held
        current = pool_shares.Current(held.snapshot, self._reader.demands.all(held.held_pools), self._runnable)
        return pool_shares.pools_json(self._as_cell, current)

    def reasons(self) -> Mapping[str, Mapping[str, int]]:
        """Return how many jobs with unplaced tasks, and how many of these tasks, have each reason."""
        return self._reader.reasons.counts()

    def room(self) -> Document:
        """Return what is free on machines that are up, together and on the machine that has most of it."""
        return self._kept("room", lambda: room_document(self.held))

    def _kept(self, name: str, make: Callable[[], Kept], options: object = None) -> Kept:
        """Return what `make` made since the last change, with the same options."""
        with self._making:  # the reader makes some without the lock of the mirror
            state = self.index, self.loading, options
            before, known = self._made.get(name, (None, None))
            if before != state:
                known = make()
                self._made[name] = state, known
            return cast("Kept", known)

    # Jobs

    def jobs(
        self, wanted: JobFilter = ALL_JOBS, *, sort: str = "", limit: int | None = None, cursor: str | None = None
    ) -> Document:  # fmt: skip
        """Return a page of jobs.

        Without `sort` it is the document of ``omega job list``: the `limit` newest, in order of submission; its
        ``next`` is the number of a submission. With `sort`, a name of `SORTS`, descending after ``-``: the first
        ones in that order, ``total`` counts all that pass, and ``next`` is a text.
        """
        table, name = self.held.table, self.held.name
        rows = table.matching(wanted, self._rows_of_reason, self._in_pool)
        if sort:
            page = job_pages.page(table, rows, sort, limit or MOST_ROWS, cursor)
            listed = [self._job_json(row) for row in page.rows]
            return {"cell": name, "total": page.total, "next": page.following, "jobs": listed}
        before = None if cursor is None else job_pages.submission(cursor)
        shown, left = job_pages.newest(table, rows, limit, before)
        total, following = job_pages.ends(table, wanted, shown, (len(rows), left), limit, before)
        return {"cell": name, "total": total, "next": following, "jobs": [self._job_json(row) for row in shown]}

    def _in_pool(self, wanted: str, pool: str, user: str) -> bool:
        """Return whether the jobs of a user, submitted to a pool, are in a pool or in one below it."""
        pools = self.held.held_pools
        leaf = pools.pool_of(pool, user)
        above = pools.path(leaf) or pools.path(pools.trees[0].default_parent)
        return wanted == leaf or any(pool.name == wanted for pool in above)

    def _rows_of_reason(self, reason: str) -> Sequence[int]:
        """Return the rows of jobs with unplaced tasks that have a reason."""
        table, reasons = self.held.table, self._reader.reasons
        mask = np.isin(table.column("shape"), reasons.shapes_of(reason)) & (table.column("state") != ABSENT)
        for job, number in reasons.alone():
            mask[table.row(job.id)] = reasons.of(job, number) == reason
        found: list[int] = np.flatnonzero(mask).tolist()
        return found

    def _job_json(self, row: int) -> Document:
        job, reasons = self.held.table.job(row), self._reader.reasons
        reason = reasons.of(job, self.held.table.value("shape", row)) or None
        delay = delay_json(reasons.room.delay(job), self.at_ms) if reason == "LOCALITY" else None
        return job_json(job, None, self.at_ms, self.held.table.times(row)) | {"reason": reason, "delay": delay}

    def job_row(self, job_id: str) -> Document | None:
        """Return the row of a job in `jobs`; None when it is not kept."""
        row = self.held.table.row(job_id)
        return None if row is None else self._job_json(row)

    def job_index(self, job_id: str) -> int:
        """Return the version of the last change of a job, 0 for one that is not kept."""
        row = self.held.table.row(job_id)
        return 0 if row is None else self.held.table.value("changed", row)

    def find_job(self, asked: str) -> Job:
        """Return a job by its id, its name (of several the newest) or the beginning of its id, without its runs.

        Raises Refused as `omega.queries.jobs.find_job`.
        """
        return find_job(self._as_cell, asked)

    # Machines

    def machines(
        self, *, state: str | None = None, limit: int | None = None, after: int | None = None,
        attributes: Mapping[str, str] | None = None,
    ) -> Document:  # fmt: skip
        """Return the document of ``omega machine list``, of machines in a state and with some attributes."""
        snapshot, size = self.held.snapshot, len(self.held.dimensions)
        mask = snapshot.rows[2] != MachineState.GONE
        if state == "over":
            mask &= (snapshot.allocated > snapshot.capacity).any(axis=0)
        elif state is not None:
            mask &= snapshot.rows[2] == MachineState[state.upper()]
        for name, value in (attributes or {}).items():
            values = snapshot.attributes.values(name)
            mask &= snapshot.attributes.codes(name) == (values.index(value) if value in values[1:] else -1)
        del size
        found = np.flatnonzero(mask)
        later = found if after is None else found[found > after]
        shown = later[:limit].tolist()
        following = shown[-1] if shown and len(shown) < len(later) else None
        tasks, why = self._reader.counts, self.held.held_unfit
        rows = [
            machines_module.machine_json(self.held.dimensions, each, int(tasks[each.index]), why.get(each.name, ""))
            for each in self.held.machines.at(shown)
        ]
        return {"cell": self.held.name, "total": len(found), "next": following, "machines": rows}

    def machine_columns(self, attributes: Sequence[str] = ()) -> MachineColumns:
        """Return all machines in columns, with some attributes."""
        wanted = tuple(attributes)
        return self._kept("machines", lambda: machine_columns(self.held, self._reader.counts, wanted), wanted)

    def attribute_names(self) -> Sequence[str]:
        """Return the attributes that machines have, ``machine`` for their names included."""
        return self.held.snapshot.attributes.names()

    # Events

    def events(
        self, after: Index | None = None, *, kinds: Sequence[str] = (), job: str | None = None, limit: int = 50,
        before: int | None = None,
    ) -> Document:  # fmt: skip
        """Return the document of ``omega events``, from the newest entries of the log.

        The first events after an index, or without one the last ones (before a version). ``reset``: the index is of a
        history that the store lost, or not known, and the last events follow; ``gap``: versions that are missing.
        """
        return event_document(
            self.held, after, Filter(frozenset(kinds), job), limit, before, known=after is None or self.has(after)
        )

    def history(self) -> Document:
        """Return the last hour: rates of each scheduler, use of each resource, tasks placed per second."""
        return {"cell": self.held.name, "since_ms": self.since_ms, **self._reader.hour.as_json(self.at_ms)}

    def conflicts(self) -> Document:
        """Return which schedulers lost claims to which others."""
        names = self.held.snapshot.attributes.name
        return self._contested() | {"inferred": True, "rows": self._reader.contests.rows(self._since(), names)}

    def _since(self) -> int:
        return self.at_ms - HOUR_MS

    def _contested(self) -> Document:
        """Return since when conflicts and evictions are known, and which versions are missing."""
        missing = [each.as_json() for each in self.held.ring.missing]
        return {"cell": self.held.name, "first_version": self._reader.contests.first, "gaps": missing}

    def pool_flow(self) -> Document:
        """Return the evictions between pools."""
        return self._contested() | {"rows": self._reader.contests.flows(self._since())}
