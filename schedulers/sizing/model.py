"""The predicted gain of a MapReduce job from more workers: the idealised model of Omega §6.

Maps and reduces are consecutive phases. Each speeds up in proportion to the workers until all its remaining shards run
at once; only the mean duration of a shard is used.
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
