"""Housekeeping, by any live process."""

from typing import Protocol

from omega.cellstate.ports.parts import DrainDeadlines, EndTasks, NotifySchedulers
from omega.cellstate.ports.queries import Queries
from omega.cellstate.replies import Housekept


class Housekeeping(Queries, EndTasks, DrainDeadlines, NotifySchedulers, Protocol):
    """What any live scheduler or agent does for the whole cell."""

    def housekeep(self, at_ms: int, by: str, most: int = 1_000) -> Housekept:
        """End tasks of stopped and abandoned jobs, at most `most` runs; queue lost tasks again (semantics 24, 26).

        Any live scheduler calls it, repeatedly while more is due.
        """

    def retire(self, now_ms: int, most: int = 1_000) -> int:
        """Delete finished jobs older than the cell keeps them, at most `most`; returns their number.

        `now_ms` is the server's clock (`Session.store_ms`), never a client's (semantics 30).
        """

    def reap_executors(self, at_ms: int, by: str) -> list[str]:
        """Requeue the tasks of executors with expired leases; return their names. Any process may call it.

        Not within one lease of a start of the store: after an outage every lease has expired (semantics 17).
        """
