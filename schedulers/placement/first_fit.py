"""Randomised first fit (Omega §4): the first machines with room, from a random one on."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random

import numpy as np

from cellstate.resources import Resources
from cellstate.snapshot import Snapshot
from cellstate.transaction import Claim, Columns
from schedulers.fitting import fitting
from schedulers.work import Work


@dataclass(frozen=True, slots=True)
class RandomFirstFit:
    """Fill a machine with a job's identical tasks, then continue with the next.

    After `window` machines, the rest of the cell is searched in one vector operation: in a full cell most machines have
    no room, and 10,000 at once cost less than 200 single checks.
    """

    window: int = 64

    def place(self, work: Work, snapshot: Snapshot, rng: Random) -> Sequence[Claim]:
        """See Placement.place."""
        if len(work.left) == 1:
            return self._place_group(work, 0, snapshot, rng)
        claims: list[Claim] = []
        for group, left in enumerate(work.left):
            found = self._place_group(work, group, snapshot, rng)
            if left and not found and work.gang:
                snapshot.undo(snapshot.mark() - len(claims))
                return []
            claims += found
        return claims

    def _place_group(self, work: Work, group: int, snapshot: Snapshot, rng: Random) -> Sequence[Claim]:
        """Claim machines for the tasks of a group; none for a gang whose group does not fit as a whole."""
        need, left, size = work.job.groups[group].need, work.left[group], snapshot.size
        if not left or not size:
            return []
        machine = start = int(rng.random() * size)
        free_of, wanted = snapshot.free, _wanted(need)
        machines: list[int] = []
        counts: list[int] = []
        for _ in range(min(self.window, size)):
            count = left
            for d, amount in wanted:
                free = free_of[d][machine]
                if free < amount * count or free < 0:
                    count = free // amount if amount else 0
                    if count <= 0:
                        break
            else:
                snapshot.take(machine, need, count)
                machines.append(machine)
                counts.append(count)
                left -= count
                if not left:
                    return Columns(machines, counts, group)
            machine += 1
            if machine == size:
                machine = 0
        if self._search(need, left, snapshot, start, machines, counts) and work.gang:
            snapshot.undo(snapshot.mark() - len(machines))
            return []
        return Columns(machines, counts, group)

    def _search(
        self, need: Resources, left: int, snapshot: Snapshot, start: int, machines: list[int], counts: list[int]
    ) -> int:
        fits = fitting(snapshot.room, need, left)
        found = np.flatnonzero(fits > 0)
        if not len(found):
            return left
        found = np.roll(found, -int(np.searchsorted(found, start)))
        for machine in found.tolist():
            count = min(left, int(fits[machine]))
            snapshot.take(machine, need, count)
            machines.append(machine)
            counts.append(count)
            left -= count
            if not left:
                break
        return left


@lru_cache(maxsize=1024)
def _wanted(need: Resources) -> tuple[tuple[int, int], ...]:
    """Return the dimensions that a task needs something of, with the amounts; the first one if it needs nothing."""
    return tuple((d, amount) for d, amount in enumerate(need) if amount) or ((0, 0),)
