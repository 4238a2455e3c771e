"""A cell as a whole, its schedulers and limits, for `omega.Client`."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from typing import TYPE_CHECKING, Any

from omega.cellstate.clock import now_ms
from omega.cellstate.replies import KindUse
from omega.client.arguments import known
from omega.limits import JOBS, set_limits
from omega.queries import cells, event_list, events, schedulers
from omega.queries.recent import recently

if TYPE_CHECKING:
    from omega.cellstate.redis import RedisCell
    from omega.client.connections import Connections

Document = dict[str, Any]


class CellCalls:
    """The methods of a client that read a cell as a whole, and set limits."""

    _connections: "Connections"
    _by: str

    def limits(self, kind: str | None = None) -> Document:
        """Return limits and use of a kind of job, or of all with limits or placed tasks. See ``omega cell limits``."""
        with self._connections.cell() as cell:
            rows = {name: cells.limits_json(cell.dimensions, use) for name, use in cells.kinds_of(cell, kind).items()}
            return {"cell": cell.name, "limits": rows}

    def set_limits(self, kind: str, limits: Mapping[str, Any], *, clear: bool = False, over: bool = False) -> Document:
        """Change the limits of a kind of job and return them: ``resources`` by name, ``jobs``, ``precedence``.

        Fields that are absent stay, None removes a limit, `clear` removes all others. `over`: evict tasks above the
        limits; the answer has their number as ``evicted``. See ``omega cell limits KIND``.
        """
        from omega.limits import excess_of_kind, settle

        with self._connections.cell() as cell:
            cell.schedulers.members()
            wanted = set_limits(cell, kind, limits, now_ms(), self._by, clear=clear)
            belongs = (lambda job: job.kind == kind) if over else None
            excess = partial(excess_of_kind, cell, kind, wanted if cell.dry else None)
            settled = settle(cell, f"kind {kind}", excess, belongs, now_ms, self._by)
            use = cells.kinds_of(cell, kind)[kind]
            if cell.dry:
                used = [held - settled.freed[name] for name, held in zip(cell.dimensions.names, use.used, strict=True)]
                use = KindUse(wanted, use.jobs - settled.freed[JOBS], tuple(used))
            document = {"cell": cell.name, "limits": {kind: cells.limits_json(cell.dimensions, use)}}
        return document | ({"evicted": settled.evicted} if over else {})

    def schedulers(self, *, everybody: bool = False) -> Document:
        """Return the schedulers and their figures, with `everybody` also past ones. See ``omega scheduler list``."""
        with self._connections.cell() as cell:
            found = schedulers.describe(cell, everybody)
            return {"cell": cell.name, "schedulers": found} | cells.writes_json(cell)

    def scheduler(self, name: str | None = None) -> Document:
        """Return a scheduler (``batch/0``), those of a kind, or all, with queues. See ``omega scheduler status``."""
        with self._connections.cell() as cell:
            return {"cell": cell.name, "schedulers": schedulers.status(cell, name)}

    def cell_status(self) -> Document:
        """Return the figures of the cell. See ``omega cell status``."""
        with self._connections.cell() as cell:
            figures = cells.describe(cell, cell.pools.kinds(), recently(cell, now_ms()))
            return {"cell": cell.name, "store": self._connections.shown_url} | figures | cells.writes_json(cell)

    def verify(self, since: int = 0) -> Document:
        """Check every invariant of the cell, and the log after a version. See ``omega cell verify``."""
        from omega.verifying import verified

        with self._connections.cell() as cell:
            report, warnings = verified(self._connections.url, cell, since)
            return report.as_json() | {"warnings": warnings}

    def cells(self) -> Document:
        """Return the cells of the store. See ``omega cell list``."""
        with ExitStack() as opened:

            def open_cell(name: str) -> "RedisCell":
                return opened.enter_context(closing(self._connections.open(name)))

            rows = cells.list_cells(self._connections.cells(), open_cell)
        return {"store": self._connections.shown_url, "cells": rows}

    def event_list(
        self, since: int | None = None, *, limit: int = 50, kinds: Sequence[str] = (), job: str | None = None
    ) -> Document:
        """Return the first `limit` events after a version, or without `since` the last ones. See ``omega events``."""
        for kind in kinds:
            known("kind", events.current_kind(kind), events.KINDS)
        with self._connections.cell() as cell:
            asked = None if job is None else event_list.job_id(cell, job)
            wanted = event_list.Filter(frozenset(map(events.current_kind, kinds)), asked)
            return event_list.events_json(cell, since, limit, wanted)
