"""The number of workers that the user requested: the baseline of the other policies."""

from dataclasses import dataclass

from omega.schedulers.sizing.model import Profile, Totals


@dataclass(frozen=True, slots=True)
class AsAsked:
    """Keep the requested number of workers."""

    def size(self, profile: Profile, totals: Totals) -> int:
        """Return the job's number of workers, including the present ones."""
        return profile.asked
