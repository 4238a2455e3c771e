"""Jobs grouped by shape and lane, each group in the policy's order: the group's first job represents it."""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush

from omega.schedulers.queue.ranks import Ranks
from omega.schedulers.work import NOTHING, Work

Alike = tuple[Hashable, Hashable]
"""A lane, and the shape of a group's jobs."""


@dataclass(slots=True, eq=False)
class EquivalentJobs:
    """A group of jobs with one shape and lane: key, tie and work of each, by id."""

    works: dict[str, tuple[float, int, Work]] = field(default_factory=dict)
    _heap: list[tuple[float, int, int, str]] = field(default_factory=list)
    _put: int = 0
    _passed: dict[str, tuple[float, int, int, str]] = field(default_factory=dict)
    """Entries of jobs that are passed over."""

    def put(self, within: tuple[float, int], work: Work) -> None:
        """Add a job at its place."""
        self.works[work.id] = (*within, work)
        self._put += 1
        heappush(self._heap, (*within, self._put, work.id))

    def first(self) -> tuple[float, int, Work]:
        """Return key, tie and the first job that is not passed over."""
        while not self._is_valid(self._heap[0]):
            heappop(self._heap)
        return self.works[self._heap[0][3]]

    def _is_valid(self, entry: tuple[float, int, int, str]) -> bool:
        work = self.works.get(entry[3])
        return work is not None and work[:2] == entry[:2] and entry[3] not in self._passed

    @property
    def left(self) -> int:
        """Number of jobs that are not passed over."""
        return len(self.works) - len(self._passed)

    def pass_first(self) -> None:
        """Pass over the first job until `return_passed`."""
        job_id = self.first()[2].id
        self._passed[job_id] = heappop(self._heap)

    def return_passed(self) -> list[Work]:
        """Return the jobs that were passed over; they have their places again."""
        passed, self._passed = self._passed, {}
        for entry in passed.values():
            heappush(self._heap, entry)
        return [self.works[job_id][2] for job_id in passed]


class ByShape:
    """Groups of equivalent jobs."""

    def __init__(self, ranks: Ranks) -> None:
        """Create without groups."""
        self.ranks = ranks
        self.reads: frozenset[str] | None = NOTHING
        """The fields of jobs that policies read beside those that all policies see; None: any field."""
        self.groups: dict[Alike, EquivalentJobs] = {}
        self._of: dict[str, Alike] = {}

    def shape_of(self, work: Work) -> Hashable:
        """Return the common property of a group's jobs beside their lane."""
        return work.shape(self.reads)

    def add(self, work: Work) -> Alike:
        """Add a job to its group, at its place in the policy's order."""
        alike = self.ranks.lane(work), self.shape_of(work)
        self._of[work.id] = alike
        group = self.groups.get(alike)
        if group is None:
            group = self.groups[alike] = EquivalentJobs()
        group.put(self.ranks.within(work), work)
        return alike

    def discard(self, job_id: str) -> Work | None:
        """Remove and return a job; None when it is not here."""
        alike = self._of.pop(job_id, None)
        if alike is None:
            return None
        group = self.groups[alike]
        work = group.works.pop(job_id)[2]
        if not group.works:
            del self.groups[alike]
        return work

    def get(self, job_id: str) -> Work | None:
        """Return a job; None when it is not here. Another thread may call it, also while a job comes or goes."""
        alike = self._of.get(job_id)
        group = None if alike is None else self.groups.get(alike)
        entry = None if group is None else group.works.get(job_id)
        return None if entry is None else entry[2]

    def first(self, alike: Alike) -> Work:
        """Return the first job of a group."""
        return self.groups[alike].first()[2]

    def works(self) -> Iterator[Work]:
        """Yield every job."""
        return (entry[2] for group in self.groups.values() for entry in group.works.values())

    def ids(self) -> list[str]:
        """Return the ids of all jobs."""
        return list(self._of)

    def clear(self) -> list[Work]:
        """Remove and return every job."""
        works = list(self.works())
        self.groups, self._of = {}, {}
        return works

    def __len__(self) -> int:
        """Number of jobs."""
        return len(self._of)
