"""The policies for the number of workers of a job that Omega §6 compares.

As many as the user asked for, and idle resources without bound (max-parallelism), up to a multiple of the request
(relative job size), or while the cell is little used (global cap).
"""

from dataclasses import dataclass

from omega.schedulers.sizing.model import Profile, Totals, earliest


@dataclass(frozen=True, slots=True)
class AsAsked:
    """Keep the requested number of workers."""

    def size(self, profile: Profile, totals: Totals) -> int:
        """Return the job's number of workers, including the present ones."""
        return profile.asked


@dataclass(frozen=True, slots=True)
class MaxParallelism:
    """Use all idle resources that shorten the job."""

    def size(self, profile: Profile, totals: Totals) -> int:
        """Return the job's number of workers, including the present ones."""
        return earliest(profile, max(profile.asked, profile.has + totals.room(profile.need)))


@dataclass(frozen=True, slots=True)
class RelativeSize:
    """Use idle resources up to `times` the requested workers; the paper uses four."""

    times: int = 4

    def size(self, profile: Profile, totals: Totals) -> int:
        """Return the job's number of workers, including the present ones."""
        idle = max(profile.asked, profile.has + totals.room(profile.need))
        return earliest(profile, min(self.times * profile.asked, idle))


@dataclass(frozen=True, slots=True)
class GlobalCap:
    """Use idle resources below a utilisation of the cell of `percent`; above it, give up additional workers.

    The paper uses 60. The most used of the resources that a worker needs decides.
    """

    percent: int = 60

    def size(self, profile: Profile, totals: Totals) -> int:
        """Return the job's number of workers, including the present ones."""
        return earliest(profile, max(profile.asked, profile.has + totals.room(profile.need, self.percent)))
