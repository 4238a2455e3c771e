"""The ports of a cell, one for each kind of caller; the store and its in-memory twin implement all of them.

Times are milliseconds of the caller's clock; a cell has no clock except for the expiry of leases.
"""

from contextlib import AbstractContextManager
from typing import Any, Protocol

from omega.cellstate.ports.clients import JobStore, OperatorStore
from omega.cellstate.ports.executors import ExecutorStore, ShardStore
from omega.cellstate.ports.parts import Housekeeping
from omega.cellstate.ports.queries import Audited, JobQueries, MachineQueries, Queries, Session
from omega.cellstate.ports.schedulers import SchedulerStore

__all__ = [
    "Audited", "Cell", "ExecutorStore", "Housekeeping", "JobQueries", "JobStore", "MachineQueries", "OperatorStore",
    "Queries", "SchedulerStore", "Session", "ShardStore", "StoredCell",
]  # fmt: skip


class Cell(SchedulerStore, ExecutorStore, ShardStore, JobStore, OperatorStore, Protocol):
    """All operations on a cell."""


class StoredCell(Cell, Protocol):
    """A cell on a server."""

    client: Any
    """The client of the server (redis.Redis), for backups, which read keys as they are."""

    def dry_run(self) -> AbstractContextManager[None]:
        """Let the changes of a block be refused and answered as ever, and change nothing."""

    def delete(self) -> None:
        """Remove the cell and everything in it, a few hundred keys at a time."""
