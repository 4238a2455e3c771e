"""What a MapReduce job would gain from more workers: the idealised model of Omega §6.

Maps and reduces are phases that follow one another. Each speeds up in proportion to the workers until all
that is left of it runs at once; only the mean duration of its activities is used.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from cellstate.resources import Resources

UNBOUNDED = 1 << 40
"""Room for workers that need nothing."""


@dataclass(frozen=True, slots=True)
class Phase:
    """What is left of a phase: so many activities (shards) of so many seconds each; None: not known yet."""

    activities: int
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    """A job as a sizing policy sees it.

    `asked` is what its user wrote, `has` the workers it holds by now, `need` the amounts one worker takes.
    """

    asked: int
    phases: Sequence[Phase]
    need: Resources = ()
    has: int = 0

    def seconds(self, workers: int) -> float | None:
        """Predicted time to the end with so many workers; None while no phase's duration is known."""
        durations = self.durations()
        if durations is None:
            return None
        pairs = zip(self.phases, durations, strict=True)
        return sum(
            phase.activities * mean / min(workers, phase.activities) for phase, mean in pairs if phase.activities
        )

    def useful(self) -> int | None:
        """The fewest workers with the earliest predicted finish, were there room for any number; None as above."""
        durations = self.durations()
        if durations is None:
            return None
        pairs = zip(self.phases, durations, strict=True)
        return max((phase.activities for phase, mean in pairs if mean), default=0)

    def durations(self) -> list[float] | None:
        """Mean seconds by phase; one that is not known is taken to be like the longest that is."""
        known = [phase.seconds for phase in self.phases if phase.seconds is not None]
        if not known:
            return None
        return [max(known) if phase.seconds is None else phase.seconds for phase in self.phases]


@dataclass(frozen=True, slots=True)
class Totals:
    """The sums of a cell over the machines that are up."""

    capacity: Resources
    allocated: Resources

    def room(self, need: Resources, percent: int = 100) -> int:
        """How many workers fit the idle sums until the utilisation of some resource reaches so many percent.

        Negative when it is above: so many of these workers would have to go. Fragmentation is not seen.
        """
        room = UNBOUNDED
        for capacity, allocated, amount in zip(self.capacity, self.allocated, need, strict=True):
            if amount:
                room = min(room, (capacity * percent // 100 - allocated) // amount)
        return room


def earliest(profile: Profile, most: int) -> int:
    """The fewest workers, at most `most`, with the earliest predicted finish.

    What the user asked for while nothing is known to predict from; at least one.
    """
    useful = profile.useful()
    return profile.asked if useful is None else max(1, min(useful, most))
