"""The order of one policy: the rank of a job's lane, then its key, then the order of submission."""

from collections.abc import Callable, Hashable, Sequence

from schedulers.policies import Ordering
from schedulers.work import Work

Place = tuple[float, float, int]
"""Rank of the lane, key of the job, tie; smallest first."""
Promise = Callable[[Work, Sequence[int]], None]
"""Counts tasks of a job, by group, as placed, for the next rank."""


class Ranks:
    """Places of jobs. The rank of a lane is cached until `forget`, because use and time change it."""

    def __init__(self, ordering: Ordering) -> None:
        """Order by `ordering`."""
        self.ordering = ordering
        self.lane = ordering.lane
        """The lane of a job."""
        self._key, self._rejoins = ordering.key, ordering.rejoins
        self._of: dict[Hashable, float] = {}

    def rank(self, lane: Hashable) -> float:
        """The rank of a lane."""
        found = self._of.get(lane)
        if found is None:
            found = self._of[lane] = self.ordering.rank(lane)
        return found

    def within(self, work: Work) -> tuple[float, int]:
        """The place of a job within its lane."""
        return self._key(work), work.joined if self._rejoins else work.job.order

    def place(self, work: Work) -> Place:
        """The place of a job among all."""
        return self.rank(self.lane(work)), *self.within(work)

    def forget(self) -> None:
        """Drop all ranks: use or time changed."""
        self._of.clear()
