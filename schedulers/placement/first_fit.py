"""First fit from a random machine on (Omega §4), in a scheduler's own part first, or each task on a random machine.

The own part is a preference, so that schedulers that share a cell rarely choose the same machine: one whose part has no
room goes on behind it, and places whatever fits in the cell.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import ClassVar

import numpy as np

from omega.cellstate.model import MOST_CLAIMS, Gang
from omega.cellstate.override import override
from omega.cellstate.resources import Resources
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Claim, ClaimColumns
from omega.schedulers.fitting import Amounts, fitting
from omega.schedulers.placement.domains import used_by
from omega.schedulers.policies import Peers
from omega.schedulers.work import Work

AHEAD = 4096
"""Numbers made at once: about 15 ns each, a fifth of the time of single calls."""
_new = object.__new__
_NO_GANG = Gang.NO


class Draws(Random):
    """A Random that also returns many numbers below a bound, from a batch made in advance.

    The same seed and the same calls give the same numbers; the rest of a batch is discarded when another bound is
    requested.
    """

    def __init__(self, seed: str) -> None:
        """Create the stream named `seed`."""
        super().__init__(seed)
        self._bound = 0
        self._ahead: list[int] = []
        self._used = 0

    def below(self, bound: int, count: int) -> list[int]:
        """Return `count` numbers from 0 to `bound` - 1; the bound is at most 2^32."""
        first, ahead = self._used, self._ahead
        self._used = end = first + count
        if bound == self._bound and end <= len(ahead):
            return ahead[first:end]
        left = ahead[first:] if bound == self._bound else []
        words = np.frombuffer(self.randbytes(4 * max(AHEAD, count)), dtype="<u4").astype(np.uint64)
        self._ahead = left + (words * np.uint64(bound) >> np.uint64(32)).tolist()
        self._bound, self._used = bound, count
        return self._ahead[:count]


def sampler_of(rng: Random) -> Callable[[int, int], list[int]]:
    """Return a function (bound, count) that draws many numbers from any stream, as `Draws.below`."""
    if isinstance(rng, Draws):
        return rng.below
    random = rng.random
    return lambda bound, count: [int(random() * bound) for _ in range(count)]


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


@dataclass(frozen=True, slots=True)
class OwnPart(FirstFit):
    """Begin each search at a random machine of the scheduler's part; otherwise as `FirstFit`.

    The machines are divided by index among the live schedulers of a kind: the n-th of m begins within the n-th m-th
    of them. A scheduler alone chooses exactly as `FirstFit`.
    """

    _part: list[int] = field(default_factory=lambda: [0, 1], init=False, repr=False, compare=False)
    """Number of the scheduler among its kind, and how many they are."""

    keeps_apart: ClassVar[bool] = True
    reads: ClassVar[tuple[str, ...]] = ()

    def join(self, peers: Peers) -> None:
        """Record the number of the scheduler and of its peers."""
        self._part[:] = peers.number, peers.members

    @override
    def _starts(self, size: int, count: int, rng: Random) -> list[int]:
        number, members = self._part
        first, end = size * number // members, size * (number + 1) // members
        if end == first:  # fewer machines than schedulers
            first, end = 0, size
        return [first + start for start in sampler_of(rng)(end - first, count)]


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
