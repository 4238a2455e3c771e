"""Shared state: each scheduler decides on a working copy of the cell; its commit may conflict (Omega §3.4)."""

from cellstate.view import View
from omega.simulation.drive import Architecture, Desk


class Shared(Architecture):
    """The copy is the cell's state at the beginning of the attempt."""

    def sync(self, desk: Desk) -> View:
        """See Architecture.sync."""
        return desk.refresh(desk.copy)
