"""Workers for as long as each one still shortens the job (Omega §6, max-parallelism)."""

from dataclasses import dataclass

from schedulers.sizing.model import Profile, Totals, earliest


@dataclass(frozen=True, slots=True)
class MaxParallelism:
    """All that is idle, as far as it is of use."""

    def size(self, profile: Profile, totals: Totals) -> int:
        """See Sizing.size."""
        return earliest(profile, max(profile.asked, profile.has + totals.room(profile.need)))
