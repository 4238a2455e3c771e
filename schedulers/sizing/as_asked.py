"""As the user asked, right or wrong: what every other policy is compared with."""

from dataclasses import dataclass

from schedulers.sizing.model import Profile, Totals


@dataclass(frozen=True, slots=True)
class AsAsked:
    """The user knows best."""

    def size(self, profile: Profile, totals: Totals) -> int:
        """See Sizing.size."""
        return profile.asked
