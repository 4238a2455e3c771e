"""Jobs grouped by shape and lane, each group in the policy's order: the group's first job represents it.

A table has one line per group, so that all groups are compared with freed room at once.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from omega.schedulers.queue.ranks import Place, Ranks
from omega.schedulers.work import NOTHING, Work

Alike = tuple[Hashable, Hashable]
"""A lane, and the shape of a group's jobs."""
Mask = NDArray[np.bool_]
FEW = 16
"""Number of groups up to which sorting their places costs less than arrays of them."""
NOBODY = np.iinfo(np.int64).max


@dataclass(slots=True, eq=False)
class EquivalentJobs:
    """A group of jobs with one shape and lane: key, tie and work of each, by id."""

    works: dict[str, tuple[float, int, Work]] = field(default_factory=dict)
    _heap: list[tuple[float, int, int, str]] = field(default_factory=list)
    _put: int = 0

    def put(self, within: tuple[float, int], work: Work) -> None:
        """Add a job at its place."""
        self.works[work.id] = (*within, work)
        self._put += 1
        heappush(self._heap, (*within, self._put, work.id))

    def first(self) -> tuple[float, int, Work]:
        """Return key, tie and the first job."""
        while not self._is_valid(self._heap[0]):
            heappop(self._heap)
        return self.works[self._heap[0][3]]

    def alike(self, precedence: int) -> int:
        """Return the number of jobs of this precedence."""
        return sum(1 for _, _, work in self.works.values() if work.job.precedence == precedence)

    def _is_valid(self, entry: tuple[float, int, int, str]) -> bool:
        work = self.works.get(entry[3])
        return work is not None and work[:2] == entry[:2]


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


class GroupTable:
    """The smallest need of a group's tasks, and the place of its first job.

    A group is `unfit` when a job of it was tried on freed room and could not use it; it waits for other machines.
    """

    def __init__(self) -> None:
        """Create an empty table."""
        self.of: dict[Alike, int] = {}
        self.alike: list[Alike | None] = []
        self.least: NDArray[np.int64] = np.empty((0, 0), dtype=np.int64)
        self.key: NDArray[np.float64] = np.empty(0)
        self.tie: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self.lane: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self.unfit: Mask = np.empty(0, dtype=np.bool_)
        self._free: list[int] = []
        self._lanes: dict[Hashable, int] = {}
        self._rank: NDArray[np.float64] = np.empty(0)
        self._smallest: NDArray[np.int64] | None = None

    def put(self, alike: Alike, first: Work, within: tuple[float, int]) -> int:
        """Return the line of a group, given its first job."""
        line = self.of.get(alike)
        if line is None:
            needs = [first.need(group) for group, left in enumerate(first.left) if left]
            if not self._free:
                self._grow(len(needs[0]))
            line = self.of[alike] = self._free.pop()
            self.alike[line], self.unfit[line] = alike, False
            self.least[line], self._smallest = np.min(needs, axis=0), None
            self.lane[line] = self._lanes.setdefault(alike[0], len(self._lanes))
        self.key[line], self.tie[line] = within
        return line

    def smallest(self) -> NDArray[np.int64]:
        """Return by resource the smallest need of all groups."""
        if self._smallest is None:
            self._smallest = self.least.min(axis=0)
        return self._smallest

    def drop(self, alike: Alike) -> None:
        """Free the line of an empty group."""
        line = self.of.pop(alike)
        self.alike[line], self.least[line], self._smallest = None, NOBODY, None
        self._free.append(line)

    def _grow(self, dimensions: int) -> None:
        known = len(self.alike)
        more = max(8, known)
        least = np.full((more, dimensions), NOBODY, dtype=np.int64)
        self.least = np.concatenate([self.least.reshape(known, dimensions), least])
        self.key = np.concatenate([self.key, np.zeros(more)])
        self.tie, self.lane = (np.concatenate([each, np.zeros(more, dtype=np.int64)]) for each in (self.tie, self.lane))
        self.unfit = np.concatenate([self.unfit, np.zeros(more, dtype=np.bool_)])
        self.alike += [None] * more
        self._free += range(known + more - 1, known - 1, -1)

    def rerank(self, ranks: Ranks) -> None:
        """Update the ranks of the lanes."""
        if len(self._lanes) > 2 * len(self.of) + 64:
            self._forget_lanes()
        self._rank = np.array([ranks.rank(lane) for lane in self._lanes], dtype=np.float64)

    def _forget_lanes(self) -> None:
        self._lanes = {}
        for alike, line in self.of.items():
            self.lane[line] = self._lanes.setdefault(alike[0], len(self._lanes))

    def first_two(self, lines: NDArray[np.int64]) -> tuple[int, Place | None]:
        """Return the first of some lines, and the place of the next one."""
        if len(lines) == 1:
            return int(lines[0]), None
        rank = self._rank[self.lane[lines]]
        if len(lines) <= FEW:
            places = zip(rank.tolist(), self.key[lines].tolist(), self.tie[lines].tolist(), lines.tolist(), strict=True)
            first, second = sorted(places)[:2]
            return first[3], second[:3]
        best = _first(rank, self.key[lines], self.tie[lines])
        rest = np.arange(len(lines)) != best
        rival = lines[rest][_first(rank[rest], self.key[lines[rest]], self.tie[lines[rest]])]
        return int(lines[best]), (float(self._rank[self.lane[rival]]), float(self.key[rival]), int(self.tie[rival]))


def _first(rank: NDArray[np.float64], key: NDArray[np.float64], tie: NDArray[np.int64]) -> int:
    """Return the position of the least (rank, key, tie)."""
    at = np.flatnonzero(rank == rank.min())
    at = at[key[at] == key[at].min()]
    return int(at[tie[at].argmin()])
