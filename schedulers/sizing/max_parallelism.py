"""Additional workers while each shortens the job (Omega §6, max-parallelism)."""

from dataclasses import dataclass

from omega.schedulers.sizing.model import Profile, Totals, earliest


@dataclass(frozen=True, slots=True)
class MaxParallelism:
    """Use all idle resources that shorten the job."""

    def size(self, profile: Profile, totals: Totals) -> int:
        """Return the job's number of workers, including the present ones."""
        return earliest(profile, max(profile.asked, profile.has + totals.room(profile.need)))
