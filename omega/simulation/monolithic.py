"""Monolithic: one scheduler decides on the authoritative state, so conflicts cannot occur (Omega §3.1).

Single-path and multi-path differ only in the scheduler: one decision time for all jobs, or one per
kind. Jobs wait in one queue behind slow ones in both.
"""

from cellstate.snapshot import Snapshot
from omega.simulation.drive import Architecture, SimulatedScheduler


class Monolithic(Architecture):
    """The copy is the cell's state at the moment of the decision."""

    def sync(self, simulated: SimulatedScheduler) -> Snapshot:
        """See Architecture.sync."""
        if len(simulated.scheduler.queue.blocked):
            simulated.refresh(simulated.copy)
        return simulated.copy

    def ready(self, simulated: SimulatedScheduler) -> None:
        """Apply tasks that ended during the decision time."""
        simulated.refresh(simulated.copy)
