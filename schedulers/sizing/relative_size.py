"""At most a multiple of the requested number of workers (Omega §6, relative job size)."""

from dataclasses import dataclass

from omega.schedulers.sizing.model import Profile, Totals, earliest


@dataclass(frozen=True, slots=True)
class RelativeSize:
    """Use idle resources up to `times` the requested workers; the paper uses four."""

    times: int = 4

    def size(self, profile: Profile, totals: Totals) -> int:
        """Return the job's number of workers, including the present ones."""
        idle = max(profile.asked, profile.has + totals.room(profile.need))
        return earliest(profile, min(self.times * profile.asked, idle))
