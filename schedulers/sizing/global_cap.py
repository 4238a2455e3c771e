"""Idle resources only while the cell is little used (Omega §6, global cap)."""

from dataclasses import dataclass

from schedulers.sizing.model import Profile, Totals, earliest


@dataclass(frozen=True, slots=True)
class GlobalCap:
    """What is idle below a utilisation of the cell of so many `percent`; above it, extra workers are given up again.

    The paper takes 60. Of the resources a worker needs, the one used most decides.
    """

    percent: int = 60

    def size(self, profile: Profile, totals: Totals) -> int:
        """See Sizing.size."""
        return earliest(profile, max(profile.asked, profile.has + totals.room(profile.need, self.percent)))
