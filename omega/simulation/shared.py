"""Shared state: each scheduler decides on a private copy of the whole cell; its commit may conflict (Omega §3.4)."""

from cellstate.view import View
from omega.simulation.drive import Architecture, Desk


class Shared(Architecture):
    """The copy is the cell as it was when the attempt began."""

    def sync(self, desk: Desk) -> View:
        """See Architecture.sync."""
        return desk.refresh(desk.copy)
