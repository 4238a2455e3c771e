"""Monolithic: one scheduler decides on the authoritative state, so conflicts cannot occur (Omega §3.1).

Single-path and multi-path differ only in the scheduler: one decision time for all jobs, or one per
kind. Jobs wait in one queue behind slow ones in both.
"""

from cellstate.view import View
from omega.simulation.drive import Architecture, Desk


class Monolithic(Architecture):
    """The copy is the cell's state at the moment of the decision."""

    def sync(self, desk: Desk) -> View:
        """See Architecture.sync."""
        if len(desk.scheduler.queue.blocked):
            desk.refresh(desk.copy)
        return desk.copy

    def ready(self, desk: Desk) -> None:
        """Apply tasks that ended during the decision time."""
        desk.refresh(desk.copy)
