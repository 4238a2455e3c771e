"""Monolithic: one scheduler decides on the master copy itself, so nothing ever conflicts (Omega §3.1).

Single-path and multi-path differ only in the scheduler: one decision time for all jobs, or one for each
kind. Jobs still wait in one line behind slow ones.
"""

from cellstate.view import View
from omega.simulation.drive import Architecture, Desk


class Monolithic(Architecture):
    """The copy is the cell as it is at the moment of the decision."""

    def sync(self, desk: Desk) -> View:
        """See Architecture.sync."""
        if len(desk.scheduler.queue.blocked):
            desk.refresh(desk.copy)
        return desk.copy

    def ready(self, desk: Desk) -> None:
        """Take over what happened meanwhile: tasks ended."""
        desk.refresh(desk.copy)
