"""Scored placement: best fit; and long-running jobs by constraints, failure domains, other jobs and resources.

The tasks of a group are assigned one by one, each to the machine with the highest score at that moment. A machine's
score falls only through the decision itself: one task more on it or in its domains. So machines are sorted once per
patch, and each step compares the best machine of each patch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.constraints.evaluation import holds
from omega.cellstate.resources import Resources
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Claim
from omega.schedulers.constraints.demands import Demands, demands
from omega.schedulers.constraints.enforcing import permitted, related
from omega.schedulers.fitting import fitting
from omega.schedulers.placement.domains import (
    Level,
    Patches,
    closed,
    levels,
    most_on_machine,
    patches,
    places_of,
    tasks_of,
)
from omega.schedulers.work import Work

Scores = NDArray[np.float64]
Points = NDArray[np.float64]
NEVER = float("-inf")
Found = NDArray[np.intp]
_TIE = 1e-6


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicePlacement:
    """Score every feasible machine; each task goes to the machine with the highest score.

    ==============  ============================================================================================
    `fit`           best fit: how full the machine would be, 0 to 1
    `balance`       how evenly its resources would be used, 0 to 1: an exhausted one leaves the others unusable
    `preferred`     for satisfied preferred constraints, per 100 of their weights
    `near`          for a machine near a job that this one wants to be near
    `apart`         deducted for each task of the job on the machine
    `spread`        deducted for each task of the job in the same domain, for each kind of domain
    `precedence`    deducted, 0 to 1 of it, by the precedence and the number of the tasks to be evicted
    `effort`        number of machines that are scored, drawn at random; 0 for all. A job that does not fit on those
                    is tried on all
    `tries`         number of restarts of a job in random order when overlapping domains exclude the rest
    ==============  ============================================================================================

    `fit` and `balance` are scaled to at most one point together: they decide between machines with equally many tasks
    of the job. Ties are broken at random, so that concurrent schedulers seldom choose the same machine.
    """

    fit: float = 1.0
    balance: float = 0.5
    preferred: float = 10.0
    near: float = 5.0
    apart: float = 1.0
    spread: float = 1.0
    precedence: float = 20.0
    effort: int = 10_000
    tries: int = 8

    applies_constraints: ClassVar[bool] = True
    reads: ClassVar[tuple[str, ...]] = ()

    def place(self, work: Work, snapshot: Snapshot, rng: Random) -> list[Claim]:
        """Return claims for the tasks that fit. Bounded groups are placed first; the others fit more easily."""
        mark, here = snapshot.mark(), places_of(work, snapshot)
        by_group: dict[int, list[Claim]] = {}
        groups = [group for group, left in enumerate(work.left) if left]
        for group in sorted(groups, key=lambda group: _freedom(demands(work.job, group))):
            left = work.left[group]
            by_group[group] = self._place_group(work, group, snapshot, here, rng)
            if work.gang and sum(claim.count for claim in by_group[group]) < left:
                snapshot.undo(mark)
                return []
        return [claim for claims in by_group.values() for claim in claims]

    def _place_group(
        self, work: Work, group: int, snapshot: Snapshot, here: dict[int, int], rng: Random
    ) -> list[Claim]:
        need, left = work.need(group), work.left[group]
        wants, total = demands(work.job, group), tasks_of(work)
        over = levels(wants, total, snapshot, here)
        fits = self._fits(work, group, snapshot, here, over)
        candidates = np.flatnonzero(fits)
        if not len(candidates):
            return []
        dice = np.random.Generator(np.random.PCG64(rng.getrandbits(64)))
        takes = list[tuple[int, int]]()
        if self.effort and len(candidates) > max(self.effort, 4 * left):
            some = candidates[dice.random(len(candidates)) < max(self.effort, 4 * left) / len(candidates)]
            takes = self._spread(work, group, snapshot, here, over, some, fits, dice)
        if sum(count for _, count in takes) < left:
            takes = self._spread(work, group, snapshot, here, over, candidates, fits, dice)
        claims = []
        for machine, count in takes:
            snapshot.take(machine, need, count)
            here[machine] = here.get(machine, 0) + count
            claims.append(Claim(machine, group, count, seen=int(snapshot.number[machine])))
        return claims

    def _fits(
        self, work: Work, group: int, snapshot: Snapshot, here: Mapping[int, int], over: list[Level]
    ) -> NDArray[np.int64]:
        """Return the number of tasks that each machine may take and has room for."""
        fits = fitting(snapshot.room, work.need(group), work.left[group])
        may = permitted(work, group, snapshot)
        if may is not None:
            fits[~may] = 0
        most = most_on_machine(demands(work.job, group), tasks_of(work))
        if most is not None:
            np.minimum(fits, most, out=fits)
            if here:
                machines = np.fromiter(here, np.int64, len(here))
                numbers = np.fromiter(here.values(), np.int64, len(here))
                fits[machines] = np.minimum(fits[machines], np.maximum(most - numbers, 0))
        for level in over:
            full = closed(level, snapshot)
            if full is not None:
                fits[full] = 0
        return fits

    def _spread(
        self, work: Work, group: int, snapshot: Snapshot, here: Mapping[int, int], over: list[Level], candidates: Found,
        fits: NDArray[np.int64], dice: np.random.Generator,
    ) -> list[tuple[int, int]]:  # fmt: skip
        """Return (machine, tasks) for as many of the remaining tasks as fit."""
        left = work.left[group]
        points = sum(self.scores(work, group, snapshot, candidates, here).values(), _TIE * dice.random(len(candidates)))
        if not over:
            candidates, points = _best(candidates, points, left)
        kinds = patches(snapshot.attributes, tuple(level.domain for level in over))
        best, fewest = list[tuple[int, int]](), left + 1
        # With several bounds the order of machines decides how many tasks fit, so each try draws a new order.
        tries = self.tries if sum(level.bound is not None for level in over) > 1 else 0
        for _ in range(1 + tries):
            given = Spreading(candidates, fits[candidates], points, kinds, over, self.apart, self.spread)
            lacking = given.give(left)
            if lacking < fewest:
                best, fewest = given.takes(), lacking
            if not lacking or not given.held_back:
                break
            points = dice.random(len(candidates))
        return best

    def scores(
        self, work: Work, group: int, snapshot: Snapshot, machines: Found, here: Mapping[int, int] | None = None
    ) -> dict[str, Points]:
        """Return the points of one more task of a group on each of these machines, by criterion; their sum decides.

        Deductions for spreading change with each task and are not included. `here`: the tasks of the job by machine.
        """
        here = places_of(work, snapshot) if here is None else here
        wants = demands(work.job, group)
        used, most = usage(snapshot, work.need(group), machines), max(1.0, self.fit + self.balance)
        points = {
            "fit": self.fit / most * used.mean(axis=0),
            "balance": self.balance / most * (1.0 - used.max(axis=0) + used.min(axis=0)),
        }
        if wants.preferred:
            masks = [(each.weight / 100, holds(each.text, snapshot.attributes)[machines]) for each in wants.preferred]
            points["preferred"] = self.preferred * sum(
                (weight * mask for weight, mask in masks), np.zeros(len(machines))
            )
        if wants.near:
            near = [related(relation, snapshot)[machines] for relation in wants.near]
            points["near"] = self.near * np.sum(near, axis=0, dtype=np.float64)
        if snapshot.disturbs is not None:
            points["precedence"] = -self.precedence * snapshot.disturbs[machines]
        if here:
            had = np.zeros(snapshot.size)
            had[list(here)] = list(here.values())
            points["apart"] = -self.apart * had[machines]
        return points


def _best(machines: Found, points: Points, tasks: int) -> tuple[Found, Points]:
    """Return the machines that so many tasks may get: where all are in one domain, no more of them than tasks."""
    if len(points) <= tasks:
        return machines, points
    best = points >= np.partition(points, -tasks)[-tasks]
    return machines[best], points[best]


def _freedom(wants: Demands) -> int:
    return 0 if wants.different else 1 if any(s.most or s.share for s in wants.spread) else 2


def usage(snapshot: Snapshot, need: Resources, machines: Found) -> Points:
    """Return the use of each resource with one task more, 0 to 1, by resource and machine."""
    capacity = np.maximum(snapshot.capacity[:, machines], 1)
    room = np.stack([room[machines] for room in snapshot.room])
    used: Points = 1.0 - (room - np.array(need, dtype=np.int64)[:, None]) / capacity
    return used
