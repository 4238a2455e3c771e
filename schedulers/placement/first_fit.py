"""Randomised first fit (Omega §4): the first machines with room, from a random one on."""

from collections.abc import Sequence
from dataclasses import dataclass
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

    def place_all(
        self, works: Sequence[Work], snapshot: Snapshot, rng: Random, most: int
    ) -> tuple[list[Sequence[Claim]], int]:
        """See PlacesAll."""
        found: list[Sequence[Claim]] = []
        left, size, window = most, snapshot.size, min(self.window, snapshot.size)
        random, fill = rng.random, snapshot.fill
        for work in works:
            wanted = work.left
            if left <= 0 or len(wanted) != 1 or work.admitted is not None or not size:
                break
            need, start = work.job.groups[0].need, int(random() * size)
            machines, counts, missing = fill(need, wanted[0], start, window)
            if missing and self._search(need, missing, snapshot, start, machines, counts) and work.gang:
                snapshot.undo(snapshot.mark() - len(machines))
                machines, counts = [], []
            found.append(Columns(machines, counts))
            if not machines:
                break
            left -= len(machines)
        return found, most - left

    def _place_group(self, work: Work, group: int, snapshot: Snapshot, rng: Random) -> Sequence[Claim]:
        """Claim machines for the tasks of a group; none for a gang whose group does not fit as a whole."""
        need, left, size = work.job.groups[group].need, work.left[group], snapshot.size
        if not left or not size:
            return []
        start = int(rng.random() * size)
        machines, counts, left = snapshot.fill(need, left, start, min(self.window, size))
        if left and self._search(need, left, snapshot, start, machines, counts) and work.gang:
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
