"""Preemption by precedence: a job that fits nowhere takes the room of the fewest and least important tasks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.fairness import leaf_of
from omega.cellstate.model import MachineState
from omega.cellstate.override import override
from omega.cellstate.snapshot import Resident, Snapshot
from omega.cellstate.transaction import Claim
from omega.schedulers.constraints.enforcing import permitted
from omega.schedulers.policies import Placement, Preemption, claims_of
from omega.schedulers.preemption.victims import add, fewest
from omega.schedulers.work import Work

Prey = Mapping[int, Sequence[Resident]]
"""By machine: less important tasks that may be evicted for the job."""


@dataclass(frozen=True, slots=True)
class PrecedencePreemption(Preemption):
    """Evict tasks of strictly lower precedence (Omega §3.4).

    The lowest sufficient precedence is found first: more important tasks are never evicted. The placement is offered
    the machines on which one task of the job costs the fewest tasks, as many as needed; so constraints, spreading and
    gangs hold as usual. On a machine `fewest` chooses the victims. Machines on which a task of the job used up its
    restarts are offered only if no others suffice (semantics 26).

    `looks` machines that might hold the job are fetched per attempt, drawn at random, and cached until they change;
    `most` of the cached ones are considered. The choice is the best of these, not of the whole cell, which would have
    to be read for each job.
    """

    by: ClassVar[str] = "precedence"
    follows_use: ClassVar[bool] = False
    applies_constraints: ClassVar[bool] = True
    reads: ClassVar[tuple[str, ...]] = ()

    looks: int = 256
    most: int = 1024

    @override
    def suspects(self, work: Work, snapshot: Snapshot, rng: Random) -> list[int] | None:
        if not work.job.precedence:
            return None  # no task is less important
        return machines_to_fetch(work, snapshot, self.looks, rng)

    @override
    def place(self, work: Work, snapshot: Snapshot, placement: Placement, rng: Random) -> Sequence[Claim]:
        prey, others = self._prey(work, snapshot, rng), work.elsewhere(snapshot.size)
        if others is not None:
            away = {machine: residents for machine, residents in prey.items() if others[machine]}
            if claims := self._evict(work, snapshot, away, placement, rng=rng):
                return claims
        return self._evict(work, snapshot, prey, placement, rng=rng)

    def _evict(
        self, work: Work, snapshot: Snapshot, prey: Prey, placement: Placement, *, rng: Random
    ) -> Sequence[Claim]:
        levels = sorted({resident.precedence for residents in prey.values() for resident in residents})
        low, high = 0, len(levels) - 1
        if high < 0 or not _Trial(work, snapshot, prey, levels[high]).succeeds(placement, rng):
            return []
        while low < high:
            middle = (low + high) // 2
            if _Trial(work, snapshot, prey, levels[middle]).succeeds(placement, rng):
                high = middle
            else:
                low = middle + 1
        return _Trial(work, snapshot, prey, levels[low]).fewest_machines(placement, rng)

    def _prey(self, work: Work, snapshot: Snapshot, rng: Random) -> Prey:
        known = np.flatnonzero(might_hold(work, snapshot) & snapshot.residents.known(snapshot.number))
        if len(known) > self.most:
            dice = np.random.Generator(np.random.PCG64(rng.getrandbits(64)))
            known = np.sort(dice.choice(known, self.most, replace=False))
        below = work.job.precedence
        prey = {
            int(machine): [
                each
                for each in snapshot.residents.on(int(machine))
                if each.precedence < below and may_evict(work, each, snapshot)
            ]
            for machine in known
        }
        return {machine: residents for machine, residents in prey.items() if residents}


def may_evict(work: Work, resident: Resident, snapshot: Snapshot) -> bool:
    """Whether precedence decides between a job and a task: with pools, within one and for operators (semantics 33)."""
    pools = snapshot.pools
    if not pools.configured or leaf_of(work.pool, work.user) == leaf_of(resident.pool, resident.user):
        return True
    return pools.operators_from is not None and work.job.precedence >= pools.operators_from


def might_hold(work: Work, snapshot: Snapshot) -> NDArray[np.bool_]:
    """Return the machines that are not empty and would hold a task of the job if they were."""
    might = np.zeros(snapshot.size, dtype=np.bool_)
    for group, left in enumerate(work.left):
        if left:
            holds = (snapshot.capacity >= np.array(work.need(group), dtype=np.int64)[:, None]).all(axis=0)
            may = permitted(work, group, snapshot)
            might |= holds if may is None else holds & may
    might &= (snapshot.rows[2] == MachineState.UP) & (snapshot.base[0] >= 0) & snapshot.allocated.any(axis=0)
    return might


def machines_to_fetch(work: Work, snapshot: Snapshot, looks: int, rng: Random) -> list[int] | None:
    """Return at most `looks` machines with unknown tasks that might hold the job; None when no machine might."""
    might = might_hold(work, snapshot)
    if not might.any():
        return None
    unknown = np.flatnonzero(might & ~snapshot.residents.known(snapshot.number))
    if len(unknown) > looks:
        dice = np.random.Generator(np.random.PCG64(rng.getrandbits(64)))
        unknown = np.sort(dice.choice(unknown, looks, replace=False))
    return [int(machine) for machine in unknown]


class _Trial:
    """A placement on the room that evicting everything up to one precedence would free."""

    def __init__(self, work: Work, snapshot: Snapshot, prey: Prey, level: int) -> None:
        self.work, self.snapshot = work, snapshot
        self.prey = {
            machine: here
            for machine, residents in prey.items()
            if (here := [each for each in residents if each.precedence <= level])
        }
        self.needs = [work.need(group) for group, left in enumerate(work.left) if left]

    def succeeds(self, placement: Placement, rng: Random) -> bool:
        """Return whether anything can be placed; the snapshot is left unchanged."""
        mark = self.snapshot.mark()
        claims = self._place(list(self.prey), placement, rng)
        self.snapshot.undo(mark)
        return len(claims) > 0

    def fewest_machines(self, placement: Placement, rng: Random) -> Sequence[Claim]:
        """Return claims with victims: the cheapest machines are offered, doubled until something is placed."""
        costs = {machine: cost for machine in self.prey if (cost := self._cost(machine)) is not None}
        ranks = {cost[:2]: rank for rank, cost in enumerate(sorted(set(costs.values())))}
        disturbs = np.zeros(self.snapshot.size)
        for machine, cost in costs.items():
            disturbs[machine] = (ranks[cost[:2]] + 1) / (len(ranks) + 1)
        machines = sorted(costs, key=lambda machine: costs[machine])
        offered = min(self.work.remaining, len(machines))
        while machines:
            claims = self._place(machines[:offered], placement, rng, disturbs)
            if claims:
                return self._with_victims(claims)
            if offered == len(machines):
                break
            offered = min(2 * offered, len(machines))
        return []

    def _cost(self, machine: int) -> tuple[int, int, int] | None:
        """Return the cost of one task here: precedence of the most important victim, tasks, oldest victim."""
        costs = []
        for need in self.needs:
            lacking = tuple(amount - int(room[machine]) for amount, room in zip(need, self.snapshot.room, strict=True))
            if (victims := fewest(self.prey[machine], lacking)) is not None:
                above = max((each.resident.precedence for each in victims), default=-1)
                oldest = min((each.resident.placement for each in victims), default=0)
                costs.append((above, sum(each.tasks for each in victims), -oldest))
        return min(costs, default=None)

    def _place(
        self, machines: Sequence[int], placement: Placement, rng: Random, disturbs: NDArray[np.float64] | None = None
    ) -> Sequence[Claim]:
        extra = np.zeros((self.snapshot.dimensions, self.snapshot.size), dtype=np.int64)
        for machine in machines:
            for each in self.prey[machine]:
                extra[:, machine] += np.array(each.need, dtype=np.int64) * each.tasks
        relieved = self.snapshot.relieve(extra, np.zeros(self.snapshot.size) if disturbs is None else disturbs)
        return claims_of(placement, placement.place(self.work, relieved, rng))

    def _with_victims(self, claims: Sequence[Claim]) -> list[Claim]:
        """Assign victims to each claim; a machine's later claims use room that earlier victims freed."""
        room: dict[int, list[int]] = {}
        for claim in claims:
            here = room.setdefault(claim.machine, [int(amounts[claim.machine]) for amounts in self.snapshot.room])
            add(here, self.work.need(claim.group), claim.count)
        left = {machine: {each.placement: each for each in self.prey.get(machine, ())} for machine in room}
        complete = []
        for claim in claims:
            here, there = room[claim.machine], left[claim.machine]
            add(here, self.work.need(claim.group), -claim.count)
            victims = fewest(there.values(), tuple(-amount for amount in here)) or []
            for resident, count in victims:
                add(here, resident.need, count)
                there[resident.placement] = replace(resident, tasks=resident.tasks - count)
            complete.append(claim._replace(evict=tuple((each.resident.placement, each.number) for each in victims)))
        return self._with_whole_runs(complete)

    def _with_whole_runs(self, claims: list[Claim]) -> list[Claim]:
        """Name the rest of each run of a strict gang with the last of its victims: it ends with them.

        Until the end of the transaction the store counts only the room of the tasks that a claim needs.
        """
        rest = {each.placement: each.tasks for here in self.prey.values() for each in here if each.together}
        if rest:
            for claim in claims:
                rest |= {placement: rest[placement] - count for placement, count in claim.evict if placement in rest}
            for i, claim in reversed(list(enumerate(claims))):
                evict = tuple((placement, count + rest.pop(placement, 0)) for placement, count in claim.evict)
                claims[i] = claim._replace(evict=evict)
        return claims
