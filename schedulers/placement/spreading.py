"""Tasks of one group are given out one by one, each to the machine with the most points at that moment.

Points of a machine fall only by what the decision itself does: one more task on it, one more in one of
its domains. So machines are sorted once, patch by patch, and each step looks at the best of each patch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from schedulers.placement.domains import Level, Patches

Points = NDArray[np.float64]
NEVER = float("-inf")


@dataclass(slots=True)
class Patch:
    """Machines alike in their domains, best first: those not looked at yet, and those that took tasks."""

    first: int
    last: int
    again: list[tuple[float, int]] = field(default_factory=list)


class Spreading:
    """One group's tasks over some machines; `found` are their indices, `fits` how many tasks each holds.

    `apart` and `spread` are the points that each task takes from its machine and from its domains.
    """

    def __init__(
        self, found: NDArray[np.intp], fits: NDArray[np.int64], points: Points, patches: Patches,
        levels: Sequence[Level], apart: float, spread: float,
    ) -> None:  # fmt: skip
        """Sort the machines; nothing is given out yet."""
        of = patches.of[found]
        order = np.lexsort((-points, of))
        firsts = np.flatnonzero(np.diff(of[order], prepend=-1))
        self.machines = found[order].tolist()
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
        """Give out up to so many tasks; returns how many found no machine."""
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
        """Whether machines with room are ruled out by a bound on their domains."""
        return bool((self.best[self.lost == np.inf] > NEVER).any())

    def _take(self, patch: int, most: int) -> int:
        here = self.patches[patch]
        if here.again and -here.again[0][0] >= (self.points[here.first] if here.first < here.last else NEVER):
            points, at = heappop(here.again)
            points = -points
        else:
            points, at = self.points[here.first], here.first
            here.first += 1
        # Where nothing falls by a task the same machine would be chosen again until it is full.
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
        """Take points from all patches that share a domain with this one; close the domains that are full."""
        for number, ((bound, counts), codes) in enumerate(zip(self.levels, self.codes, strict=True)):
            code = int(codes[patch])
            inside = self.inside.get((number, code))
            if inside is None:
                inside = self.inside[number, code] = np.flatnonzero(codes == code)
            counts[code] += count
            loss = np.inf if bound is not None and counts[code] >= bound else self.spread * count
            self.lost[inside] += loss
            self.now[inside] = self.best[inside] - self.lost[inside]
