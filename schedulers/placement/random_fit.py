"""Randomised first fit of the lightweight simulator (Omega §4): task by task, each on a random machine."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar

from omega.cellstate.model import MOST_CLAIMS, Gang
from omega.cellstate.resources import Resources
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Claim, ClaimColumns
from omega.schedulers.draws import Draws, sampler_of
from omega.schedulers.placement.domains import used_by
from omega.schedulers.work import Work

_NO_GANG = Gang.NO


@dataclass(frozen=True, slots=True)
class RandomFit:
    """Place each task on a random machine with room, so that a job spreads over the cell.

    Machines are drawn blindly until the expected cost of further misses exceeds that of scanning all machines; then the
    machines with room are listed and drawn from.
    """

    fewest: int = 16
    """Number of misses before the expected cost is considered."""

    keeps_apart: ClassVar[bool] = True
    reads: ClassVar[tuple[str, ...]] = ()

    def place(self, work: Work, snapshot: Snapshot, rng: Random) -> Sequence[Claim]:
        """Return claims for the tasks that fit and mark them in the snapshot with `snapshot.take`."""
        left, job = work.left, work.job
        gang = job.gang is not _NO_GANG and work.gang
        if len(left) == 1 and not gang:
            used = used_by(work, 0, snapshot) if job.spec else None
            return ClaimColumns(self._draw(job.groups[0].need, left[0], snapshot, rng, used))
        claims: list[Claim] = []
        mark = snapshot.mark()
        for group, wanted in enumerate(left):
            used = used_by(work, group, snapshot, claims) if job.spec and wanted else None
            machines = self._draw(work.need(group), min(wanted, MOST_CLAIMS - len(claims)), snapshot, rng, used)
            if len(left) == 1 and len(machines) == wanted:
                return ClaimColumns(machines)
            seen = [int(snapshot.number[machine]) for machine in machines]
            claims += ClaimColumns(machines, group=group, seen=seen)
            if gang and len(machines) < wanted:
                snapshot.undo(mark)
                return []
        return claims

    def _draw(
        self, need: Resources, wanted: int, snapshot: Snapshot, rng: Random, used: set[int] | None = None
    ) -> list[int]:
        """Claim machines for the tasks that fit; with `used`, at most one on each machine, and none on those in it."""
        size, left = snapshot.size, min(MOST_CLAIMS, wanted)
        below = rng.below if type(rng) is Draws else sampler_of(rng)
        if not size or not left:
            return []
        drawn = below(size, left)
        machines = snapshot.take_each(need, drawn if used is None else _fresh(drawn, used))
        wanted, left = left, left - len(machines)
        if not left:
            return machines
        missed = left
        while left and (missed < self.fewest or left * missed <= (wanted - left + 1) * snapshot.scope):
            drawn = below(size, left)
            snapshot.take_each(need, drawn if used is None else _fresh(drawn, used), machines)
            left = wanted - len(machines)
            missed += left
        if left:
            self._search(need, wanted, snapshot, rng, machines, used)
        return machines

    def _search(
        self, need: Resources, wanted: int, snapshot: Snapshot, rng: Random, taken: list[int], used: set[int] | None
    ) -> None:
        machines, before = snapshot.holding(need), len(taken)
        if used is not None:
            machines = [machine for machine in machines if machine not in used]
        while machines and before < wanted:
            i = int(rng.random() * len(machines))
            snapshot.take_each(need, [machines[i]], taken)
            if len(taken) == before or used is not None:
                machines[i] = machines[-1]
                machines.pop()
            before = len(taken)


def _fresh(drawn: list[int], used: set[int]) -> list[int]:
    """Return the machines that were not drawn before, and add them to the used ones."""
    fresh = [machine for machine in dict.fromkeys(drawn) if machine not in used]
    used.update(fresh)
    return fresh
