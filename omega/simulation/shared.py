"""Shared state: each scheduler decides on a working copy of the cell; its commit may conflict (Omega §3.4)."""

from cellstate.snapshot import Snapshot
from omega.simulation.drive import Architecture, SimulatedScheduler


class Shared(Architecture):
    """The copy is the cell's state at the beginning of the attempt."""

    def sync(self, simulated: SimulatedScheduler) -> Snapshot:
        """See Architecture.sync."""
        return simulated.refresh(simulated.copy)
