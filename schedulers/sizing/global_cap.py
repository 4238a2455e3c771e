"""Idle resources only while the cell is little used (Omega §6, global cap)."""

from dataclasses import dataclass

from omega.schedulers.sizing.model import Profile, Totals, earliest


@dataclass(frozen=True, slots=True)
class GlobalCap:
    """Use idle resources below a utilisation of the cell of `percent`; above it, give up additional workers.

    The paper uses 60. The most used of the resources that a worker needs decides.
    """

    percent: int = 60

    def size(self, profile: Profile, totals: Totals) -> int:
        """Return the job's number of workers, including the present ones."""
        return earliest(profile, max(profile.asked, profile.has + totals.room(profile.need, self.percent)))
