"""Assignment of one group's tasks, one by one, each to the machine with the highest score at that moment.

A machine's score falls only through the decision itself: one task more on it or in its domains. So machines are sorted
once per patch, and each step compares the best machine of each patch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from omega.schedulers.placement.domains import Level, Patches

Points = NDArray[np.float64]
NEVER = float("-inf")


@dataclass(slots=True)
class Patch:
    """Machines with equal domains, best first: those not considered yet, and those that took tasks."""

    first: int
    last: int
    again: list[tuple[float, int]] = field(default_factory=list)


class Spreading:
    """Assignment of a group's tasks to machines; `candidates` are their indices, `fits` the tasks each has room for.

    `apart` and `spread` are the points that each task deducts from its machine and its domains.
    """

    def __init__(
        self, candidates: NDArray[np.intp], fits: NDArray[np.int64], points: Points, patches: Patches,
        levels: Sequence[Level], apart: float, spread: float,
    ) -> None:  # fmt: skip
        """Sort the machines; assign nothing."""
        of = patches.of[candidates]
        order = np.lexsort((-points, of))
        firsts = np.flatnonzero(np.diff(of[order], prepend=-1))
        self.machines = candidates[order].tolist()
        self.fits = fits[order].tolist()
        self.points = points[order].tolist()
        self.taken = [0] * len(order)
        self.patches = [Patch(int(a), int(b)) for a, b in zip(firsts, [*firsts[1:], len(order)], strict=True)]
        self.apart, self.spread = apart, spread
        self.levels = [(level.bound, level.counts.copy()) for level in levels]
        self.codes = [codes[of[order[firsts]]] for codes in patches.codes]
        self.inside: dict[tuple[int, int], NDArray[np.intp]] = {}
        self.best = points[order[firsts]].copy()
        self.lost = np.zeros(len(firsts))
        for (bound, counts), codes in zip(self.levels, self.codes, strict=True):
            self.lost += spread * counts[codes]
            if bound is not None:
                self.lost[counts[codes] >= bound] = np.inf
        self.now = self.best - self.lost

    def give(self, tasks: int) -> int:
        """Assign up to `tasks` tasks; return the number that found no machine."""
        while tasks and len(self.now):
            patch = int(self.now.argmax())
            if self.now[patch] == NEVER:
                break
            tasks -= self._take(patch, tasks)
        return tasks

    def takes(self) -> list[tuple[int, int]]:
        """(machine, tasks), machine by machine."""
        return [(machine, count) for machine, count in zip(self.machines, self.taken, strict=True) if count]

    @property
    def held_back(self) -> bool:
        """Return whether a bound on domains excludes machines with room."""
        return bool((self.best[self.lost == np.inf] > NEVER).any())

    def _take(self, patch: int, most: int) -> int:
        here = self.patches[patch]
        if here.again and -here.again[0][0] >= (self.points[here.first] if here.first < here.last else NEVER):
            points, at = heappop(here.again)
            points = -points
        else:
            points, at = self.points[here.first], here.first
            here.first += 1
        # Without deductions the same machine would be chosen until it is full.
        count = 1 if self.apart or self.levels else min(most, self.fits[at])
        self.taken[at] += count
        self.fits[at] -= count
        if self.fits[at]:
            heappush(here.again, (self.apart * count - points, at))
        fresh = self.points[here.first] if here.first < here.last else NEVER
        self.best[patch] = max(fresh, -here.again[0][0]) if here.again else fresh
        self._fill(patch, count)
        self.now[patch] = self.best[patch] - self.lost[patch]
        return count

    def _fill(self, patch: int, count: int) -> None:
        """Deduct points in all patches that share a domain with this one; close full domains."""
        for number, ((bound, counts), codes) in enumerate(zip(self.levels, self.codes, strict=True)):
            code = int(codes[patch])
            inside = self.inside.get((number, code))
            if inside is None:
                inside = self.inside[number, code] = np.flatnonzero(codes == code)
            counts[code] += count
            loss = np.inf if bound is not None and counts[code] >= bound else self.spread * count
            self.lost[inside] += loss
            self.now[inside] = self.best[inside] - self.lost[inside]
