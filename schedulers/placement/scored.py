"""Scored placement: all machines are scored; tasks of a job are kept apart where possible."""

from dataclasses import dataclass
from random import Random
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.resources import Resources
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Claim
from omega.schedulers.fitting import fitting
from omega.schedulers.work import Work

Scores = NDArray[np.float64]


def tightness(snapshot: Snapshot, need: Resources) -> Scores:
    """Return how full a machine would be, 0 to 1, mean over dimensions; best fit prefers high values."""
    total = np.zeros(snapshot.size)
    for d, amount in enumerate(need):
        capacity = np.maximum(snapshot.capacity[d], 1)
        total += 1.0 - (snapshot.room[d] - amount) / capacity
    return total / len(need)


@dataclass(frozen=True, slots=True)
class BestFit:
    """The tightest machines first, with at most `apart` tasks of a job per machine and round.

    With `apart` 0 a machine takes all it has room for (plain best fit). With 1, the default of the service preset, each
    round gives every machine at most one task, so that a failure affects few tasks. Ties are broken at random, so that
    concurrent schedulers do not all choose the same machine.
    """

    apart: int = 0

    reads: ClassVar[tuple[str, ...]] = ()

    def place(self, work: Work, snapshot: Snapshot, rng: Random) -> list[Claim]:
        """Return claims for the tasks that fit and mark them in the snapshot with `snapshot.take`."""
        claims: list[Claim] = []
        mark = snapshot.mark()
        here = dict(work.places)
        for group, left in enumerate(work.left):
            while left:
                placed = self._round(work, group, left, snapshot, rng, claims, here)
                left -= placed  # noqa: PLW2901 - counts down
                if not placed:
                    break
            if left and work.gang:
                snapshot.undo(mark)
                return []
        return claims

    def _round(
        self, work: Work, group: int, left: int, snapshot: Snapshot, rng: Random, claims: list[Claim],
        here: dict[int, int],
    ) -> int:  # fmt: skip
        need = work.need(group)
        fits = fitting(snapshot.room, need, self.apart or left)
        candidates = np.flatnonzero(fits > 0)
        if not len(candidates):
            return 0
        scores = tightness(snapshot, need)[candidates]
        for machine, count in here.items():
            scores[candidates == machine] -= count
        ties = np.random.Generator(np.random.PCG64(rng.getrandbits(64))).random(len(candidates))
        placed = 0
        for i in np.lexsort((ties, -scores)):
            machine = int(candidates[i])
            count = min(left - placed, int(fits[machine]))
            snapshot.take(machine, need, count)
            here[machine] = here.get(machine, 0) + count
            claims.append(Claim(machine, group, count, seen=int(snapshot.number[machine])))
            placed += count
            if placed == left:
                break
        return placed
