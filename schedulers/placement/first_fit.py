"""Randomised first fit (Omega §4): the first machines with room, from a random one on."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar

import numpy as np

from omega.cellstate.resources import Resources
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Claim, ClaimColumns
from omega.schedulers.draws import sampler_of
from omega.schedulers.fitting import Amounts, fitting
from omega.schedulers.placement.domains import used_by
from omega.schedulers.work import Work

_new = object.__new__


@dataclass(frozen=True, slots=True)
class FirstFit:
    """Fill a machine with a job's identical tasks, then continue with the next.

    After `window` machines, the rest of the cell is searched in one vector operation: in a full cell most machines have
    no room, and 10,000 at once cost less than 200 single checks.
    """

    window: int = 64

    keeps_apart: ClassVar[bool] = True
    reads: ClassVar[tuple[str, ...]] = ()

    def place(self, work: Work, snapshot: Snapshot, rng: Random) -> Sequence[Claim]:
        """Return claims for the tasks that fit and mark them in the snapshot with `snapshot.take`."""
        if len(work.left) == 1:
            return self._place_group(work, 0, snapshot, rng)
        claims: list[Claim] = []
        for group, left in enumerate(work.left):
            placed = self._place_group(work, group, snapshot, rng)
            if left and not placed and work.gang:
                snapshot.undo(snapshot.mark() - len(claims))
                return []
            claims += placed
        return claims

    def place_all(
        self, works: Sequence[Work], snapshot: Snapshot, rng: Random, most: int
    ) -> tuple[list[Sequence[Claim]], int]:
        """Return the claims of the first jobs, as `place` for one after another does, and their number."""
        placed: list[Sequence[Claim]] = []
        size, window = 0, min(self.window, snapshot.size)
        works = _of_one_group(works) if snapshot.size else []
        starts = self._starts(snapshot.size, len(works), rng)
        while len(placed) < len(works) and size < most:
            at = len(placed)
            need, end = works[at].job.groups[0].need, at + 1
            while end < len(works) and works[end].job.groups[0].need == need:
                end += 1
            tasks = [work.left[0] for work in works[at:end]]
            for machines, counts, missing in snapshot.fill_all(need, tasks, starts[at:end], window):
                if missing:
                    work, start = works[len(placed)], starts[len(placed)]
                    if self._search(need, missing, snapshot, start, machines, counts) and work.gang:
                        snapshot.undo(snapshot.mark() - len(machines))
                        machines.clear()
                        counts.clear()
                claims = _new(ClaimColumns)  # field by field, in two thirds of the time of a call of the class
                claims.machines, claims.counts, claims.group, claims.seen = machines, counts, 0, None
                placed.append(claims)
                size += len(machines)
            if not placed[-1]:
                break
        return placed, size

    def _starts(self, size: int, count: int, rng: Random) -> list[int]:
        """Return the machines at which the search of each of `count` groups begins."""
        return sampler_of(rng)(size, count)

    def _place_group(self, work: Work, group: int, snapshot: Snapshot, rng: Random) -> Sequence[Claim]:
        """Claim machines for the tasks of a group; none for a gang whose group does not fit as a whole."""
        need, left, size = work.job.groups[group].need, work.left[group], snapshot.size
        if not left or not size:
            return []
        (start,) = self._starts(size, 1, rng)
        used = used_by(work, group, snapshot) if work.job.spec else None
        if used is not None:
            return self._place_apart(work, group, snapshot, start, used)
        machines, counts, left = snapshot.fill(need, left, start, min(self.window, size))
        if left and self._search(need, left, snapshot, start, machines, counts) and work.gang:
            snapshot.undo(snapshot.mark() - len(machines))
            return []
        return ClaimColumns(machines, counts, group=group)

    def _place_apart(self, work: Work, group: int, snapshot: Snapshot, start: int, used: set[int]) -> Sequence[Claim]:
        """Claim machines for one task each, without the used ones."""
        need, left = work.job.groups[group].need, work.left[group]
        fits = fitting(snapshot.room, need, 1)
        fits[list(used)] = 0
        machines: list[int] = []
        if _take(need, left, snapshot, fits, start, machines, []) and work.gang:
            snapshot.undo(snapshot.mark() - len(machines))
            return []
        return ClaimColumns(machines, group=group)

    def _search(
        self, need: Resources, left: int, snapshot: Snapshot, start: int, machines: list[int], counts: list[int]
    ) -> int:
        return _take(need, left, snapshot, fitting(snapshot.room, need, left), start, machines, counts)


def _take(
    need: Resources, left: int, snapshot: Snapshot, fits: Amounts, start: int, machines: list[int], counts: list[int]
) -> int:
    """Claim what fits on the machines from `start` on, add it to the lists; return the tasks without a machine."""
    candidates = np.flatnonzero(fits > 0)
    if not len(candidates):
        return left
    candidates = np.roll(candidates, -int(np.searchsorted(candidates, start)))
    for machine in candidates.tolist():
        count = min(left, int(fits[machine]))
        snapshot.take(machine, need, count)
        machines.append(machine)
        counts.append(count)
        left -= count
        if not left:
            break
    return left


def _of_one_group(works: Sequence[Work]) -> Sequence[Work]:
    """Return the first jobs, those before one with several groups or with a part that may not be placed."""
    for number, work in enumerate(works):
        if len(work.left) != 1 or work.admitted is not None:
            return works[:number]
    return works
