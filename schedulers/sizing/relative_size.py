"""Never more than a multiple of what the user asked for (Omega §6, relative job size)."""

from dataclasses import dataclass

from schedulers.sizing.model import Profile, Totals, earliest


@dataclass(frozen=True, slots=True)
class RelativeSize:
    """What is idle, up to `times` the workers asked for; the paper takes four."""

    times: int = 4

    def size(self, profile: Profile, totals: Totals) -> int:
        """See Sizing.size."""
        idle = max(profile.asked, profile.has + totals.room(profile.need))
        return earliest(profile, min(self.times * profile.asked, idle))
