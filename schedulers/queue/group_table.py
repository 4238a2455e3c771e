"""One line per group of blocked jobs, as arrays, so that all groups are compared with freed room at once."""

from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from omega.schedulers.queue.ranks import Place, Ranks
from omega.schedulers.queue.shapes import Alike
from omega.schedulers.work import Work

Mask = NDArray[np.bool_]
FEW = 16
"""Number of groups up to which sorting their places costs less than arrays of them."""
NOBODY = np.iinfo(np.int64).max


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
