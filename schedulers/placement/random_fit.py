"""Randomised first fit as the lightweight simulator has it (Omega §4): task by task, each on a random machine."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from cellstate.model import MOST_CLAIMS
from cellstate.resources import Resources
from cellstate.transaction import Claim, Singles
from cellstate.view import View
from schedulers.work import Work


@dataclass(frozen=True, slots=True)
class RandomFit:
    """Each task goes on a machine drawn among those with room; so a job spreads over the cell.

    Machines are drawn blindly while most draws succeed; after `misses` of the machines' number the
    ones with room are listed and drawn from.
    """

    misses: float = 0.02

    def place(self, work: Work, view: View, rng: Random) -> Sequence[Claim]:
        """See Placement.place."""
        left, mark = work.left, view.mark()
        if len(left) == 1:
            machines = self._draw(work.need(0), left[0], view, rng)
            if work.gang and len(machines) < left[0]:
                view.undo(mark)
                return []
            return Singles(machines)
        claims: list[Claim] = []
        for group, wanted in enumerate(left):
            machines = self._draw(work.need(group), min(wanted, MOST_CLAIMS - len(claims)), view, rng)
            claims += Singles(machines, group, [int(view.number[machine]) for machine in machines])
            if work.gang and len(machines) < wanted:
                view.undo(mark)
                return []
        return claims

    def _draw(self, need: Resources, wanted: int, view: View, rng: Random) -> list[int]:
        size, random = view.size, rng.random
        left = min(wanted, MOST_CLAIMS)
        if not size or not left:
            return []
        found = view.take_each(need, [int(random() * size) for _ in range(left)])
        left -= len(found)
        if not left:
            return found
        found, most = list(found), max(16, int(size * self.misses))
        missed = left
        while left and missed < most:
            stood = view.take_each(need, [int(random() * size) for _ in range(left)])
            found += stood
            left -= len(stood)
            missed += left
        if left:
            found += self._search(need, left, view, rng)
        return found

    def _search(self, need: Resources, wanted: int, view: View, rng: Random) -> list[int]:
        """Draw among the machines that have room."""
        found: list[int] = []
        machines = view.holding(need)
        while machines and len(found) < wanted:
            i = int(rng.random() * len(machines))
            if view.take_each(need, [machines[i]]):
                found.append(machines[i])
            else:
                machines[i] = machines[-1]
                machines.pop()
        return found
