"""Numbers of workers of elastic jobs: the gain that a policy sees (`Profile`, `Totals`), and the policies of Omega §6.

The idealised model: maps and reduces are consecutive phases, each speeds up in proportion to the workers until all its
remaining shards run at once, and only the mean duration of a shard is used. The policies take as many workers as the
user asked for, idle resources without bound (max-parallelism), up to a multiple of the request (relative job size), or
while the cell is little used (global cap).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from omega.cellstate.resources import Resources

PLAN = "mapreduce"
"""Field of a job's spec with its numbers of ``maps`` and ``reduces``."""
UNBOUNDED = 1 << 40
"""Room for workers that need no resource."""


@dataclass(frozen=True, slots=True)
class Phase:
    """The rest of a phase: number of shards, and mean seconds of each (None: unknown)."""

    activities: int
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    """A job as a sizing policy sees it.

    `asked` is the requested number of workers, `has` the current one, `need` the resources of one worker.
    """

    asked: int
    phases: Sequence[Phase]
    need: Resources = ()
    has: int = 0

    def seconds(self, workers: int) -> float | None:
        """Return the predicted seconds to the end with `workers` workers; None while no phase's duration is known."""
        durations = self.durations()
        if durations is None:
            return None
        pairs = zip(self.phases, durations, strict=True)
        return sum(
            phase.activities * mean / min(workers, phase.activities) for phase, mean in pairs if phase.activities
        )

    def useful(self) -> int | None:
        """Return the smallest number of workers with the earliest predicted end if room is unlimited; None as above."""
        durations = self.durations()
        if durations is None:
            return None
        pairs = zip(self.phases, durations, strict=True)
        return max((phase.activities for phase, mean in pairs if mean), default=0)

    def durations(self) -> list[float] | None:
        """Return mean seconds by phase; an unknown phase counts as the longest known one."""
        known = [phase.seconds for phase in self.phases if phase.seconds is not None]
        if not known:
            return None
        return [max(known) if phase.seconds is None else phase.seconds for phase in self.phases]


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over the machines of a cell that are up."""

    capacity: Resources
    allocated: Resources

    def room(self, need: Resources, percent: int = 100) -> int:
        """Return the number of workers that fit until the utilisation of a resource reaches `percent`.

        Negative above it: the number of workers to give up. Fragmentation is ignored.
        """
        room = UNBOUNDED
        for capacity, allocated, amount in zip(self.capacity, self.allocated, need, strict=True):
            if amount:
                room = min(room, (capacity * percent // 100 - allocated) // amount)
        return room


def earliest(profile: Profile, most: int) -> int:
    """Return the smallest number of workers, at most `most`, with the earliest predicted end.

    The requested number while there is no prediction; at least one.
    """
    useful = profile.useful()
    return profile.asked if useful is None else max(1, min(useful, most))


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
