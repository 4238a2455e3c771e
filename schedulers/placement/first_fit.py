"""Randomised first fit (Omega §4): the first machines with room, from a random one on."""

from dataclasses import dataclass
from random import Random

import numpy as np

from cellstate.snapshot import Snapshot
from cellstate.transaction import Claim
from schedulers.fitting import fitting
from schedulers.work import Work

_new = tuple.__new__
"""Makes the claims: a call of the class would take half as long as the rest of a decision."""


@dataclass(frozen=True, slots=True)
class RandomFirstFit:
    """Fill a machine with a job's identical tasks, then continue with the next.

    After `window` machines, the rest of the cell is searched in one vector operation: in a full cell most machines have
    no room, and 10,000 at once cost less than 200 single checks.
    """

    window: int = 64

    def place(self, work: Work, snapshot: Snapshot, rng: Random) -> list[Claim]:
        """See Placement.place."""
        claims: list[Claim] = []
        mark = snapshot.mark()
        for group, left in enumerate(work.left):
            if left and self._place_group(work, group, left, snapshot, rng, claims) and work.gang:
                snapshot.undo(mark)
                return []
        return claims

    def _place_group(
        self, work: Work, group: int, left: int, snapshot: Snapshot, rng: Random, claims: list[Claim]
    ) -> int:
        need, size = work.job.groups[group].need, snapshot.size
        if not size:
            return left
        start = int(rng.random() * size)
        free_of = snapshot.free
        wanted = [(free_of[d], amount) for d, amount in enumerate(need) if amount] or [(free_of[0], 0)]
        number, take = snapshot.number, snapshot.take
        for step in range(min(self.window, size)):
            machine = (start + step) % size
            count = left
            for word, amount in wanted:
                free = word[machine]
                if free < amount:
                    count = 0
                    break
                if amount and free < amount * count:
                    count = free // amount
            if count:
                take(machine, need, count)
                claims.append(_new(Claim, (machine, group, count, int(number[machine]), ())))
                left -= count
                if not left:
                    return 0
        return self._search(work, group, left, snapshot, start, claims)

    def _search(self, work: Work, group: int, left: int, snapshot: Snapshot, start: int, claims: list[Claim]) -> int:
        need = work.need(group)
        fits = fitting(snapshot.room, need, left)
        found = np.flatnonzero(fits > 0)
        if not len(found):
            return left
        found = np.roll(found, -int(np.searchsorted(found, start)))
        for machine in found.tolist():
            count = min(left, int(fits[machine]))
            snapshot.take(machine, need, count)
            claims.append(Claim(machine, group, count, int(snapshot.number[machine])))
            left -= count
            if not left:
                break
        return left
