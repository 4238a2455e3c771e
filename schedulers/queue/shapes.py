"""Jobs grouped by shape and lane, each group in the policy's order: what is true of its first job is true of all."""

from collections.abc import Hashable, Iterator
from heapq import heappop, heappush

from schedulers.queue.ranks import Ranks
from schedulers.work import Work

Alike = tuple[Hashable, Hashable]
"""A lane, and what the jobs of a group have in common."""


class Group:
    """Jobs that are alike."""

    __slots__ = ("_heap", "_put", "works")

    def __init__(self) -> None:
        """Nobody is here."""
        self.works: dict[str, tuple[float, int, Work]] = {}
        self._heap: list[tuple[float, int, int, str]] = []
        self._put = 0

    def put(self, within: tuple[float, int], work: Work) -> None:
        """Add a job at its place."""
        self.works[work.id] = (*within, work)
        self._put += 1
        heappush(self._heap, (*within, self._put, work.id))

    def first(self) -> tuple[float, int, Work]:
        """Key, tie and the job that comes first."""
        while True:
            key, tie, _, job_id = self._heap[0]
            found = self.works.get(job_id)
            if found is not None and found[:2] == (key, tie):
                return found
            heappop(self._heap)


class ByShape:
    """Groups of jobs that are alike."""

    def __init__(self, ranks: Ranks) -> None:
        """Nobody is here."""
        self.ranks = ranks
        self.groups: dict[Alike, Group] = {}
        self._of: dict[str, Alike] = {}

    def shape_of(self, work: Work) -> Hashable:
        """What jobs of one group have in common beside their lane."""
        return work.shape()

    def add(self, work: Work) -> Alike:
        """Put a job into its group, at its place in the policy's order."""
        alike = self.ranks.lane(work), self.shape_of(work)
        self._of[work.id] = alike
        group = self.groups.get(alike)
        if group is None:
            group = self.groups[alike] = Group()
        group.put(self.ranks.within(work), work)
        return alike

    def discard(self, job_id: str) -> Work | None:
        """Take a job out; None when it is not here."""
        alike = self._of.pop(job_id, None)
        if alike is None:
            return None
        group = self.groups[alike]
        work = group.works.pop(job_id)[2]
        if not group.works:
            del self.groups[alike]
        return work

    def get(self, job_id: str) -> Work | None:
        """Return a job; None when it is not here."""
        alike = self._of.get(job_id)
        return None if alike is None else self.groups[alike].works[job_id][2]

    def first(self, alike: Alike) -> Work:
        """The first job of a group."""
        return self.groups[alike].first()[2]

    def works(self) -> Iterator[Work]:
        """Every job."""
        return (found[2] for group in self.groups.values() for found in group.works.values())

    def ids(self) -> list[str]:
        """Ids of all jobs."""
        return list(self._of)

    def clear(self) -> list[Work]:
        """Take out every job."""
        works = list(self.works())
        self.groups, self._of = {}, {}
        return works

    def __len__(self) -> int:
        """How many jobs there are."""
        return len(self._of)
