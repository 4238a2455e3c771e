"""The evictions of Hadoop's Fair Scheduler for one job: the youngest tasks of pools above their fair shares."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from random import Random

import numpy as np

from omega.cellstate.fairness import PoolLoss, is_legal, leaf_of
from omega.cellstate.resources import Resources
from omega.cellstate.snapshot import Resident, Snapshot
from omega.cellstate.transaction import Claim
from omega.schedulers.policies import Placement, claims_of
from omega.schedulers.preemption.precedence import might_hold
from omega.schedulers.preemption.sets import with_victims
from omega.schedulers.preemption.victims import Victim, add, without_needless
from omega.schedulers.work import Work


@dataclass(slots=True)
class YoungestTasks:
    """A plan: room for tasks of a job up to the `target` of its pool, by evictions that are legal by `shares`.

    `below`: the precedence below which victims are; None for any. `gone`: tasks by placement that other jobs evict.
    """

    work: Work
    snapshot: Snapshot
    target: tuple[float, ...]
    shares: Mapping[str, tuple[float, ...]]
    below: int | None
    gone: Mapping[int, int]
    leaf: str = ""
    evicted: dict[int, int] = field(default_factory=dict)
    """Tasks by placement."""
    losers: dict[str, None] = field(default_factory=dict)
    """The pools that lose tasks."""
    _of: dict[int, Resident] = field(default_factory=dict)
    _held: dict[str, Resources] = field(default_factory=dict)
    """What pools hold after the planned evictions and placements."""
    _room: dict[int, list[int]] = field(default_factory=dict)
    _group: int = 0

    def __post_init__(self) -> None:
        self.leaf = leaf_of(*self.work.whose)
        self._group = next(group for group, left in enumerate(self.work.left) if left)

    @property
    def _need(self) -> Resources:
        return self.work.need(self._group)

    def place(self, placement: Placement, rng: Random) -> list[Claim]:
        """Return claims with their victims; none when no set is legal, or the placement refuses the machines."""
        tasks, snapshot = self._choose(), self.snapshot
        if not tasks:
            return []
        left = [tasks if group == self._group else 0 for group in range(len(self.work.left))]
        extra = np.zeros((snapshot.dimensions, snapshot.size), dtype=np.int64)
        victims: dict[int, list[tuple[int, int]]] = {}
        for name, count in self.evicted.items():
            each = self._of[name]
            if each.machine not in victims:
                extra[:, each.machine] = self._in_flight(each.machine)
            extra[:, each.machine] += np.array(each.need, dtype=np.int64) * count
            victims.setdefault(each.machine, []).append((name, count))
        relieved = snapshot.relieve(extra, np.zeros(snapshot.size))
        claims = claims_of(placement, placement.place(replace(self.work, left=left, admitted=None), relieved, rng))
        room = {machine: self._free_now(machine) for machine in victims}
        return with_victims(claims, victims, self._of, room, self.work)

    def _choose(self) -> int:
        """Choose victims for one task of the group after the other; return the number of tasks."""
        tasks, most = 0, self.work.left[self._group]
        for first in self._candidates():
            while tasks < most and (chosen := self._for_task(first)) is not None:
                self._carry_out(first.machine, chosen)
                tasks += 1
        return tasks

    def _candidates(self) -> Iterator[Resident]:
        """Tasks on the known machines, the youngest first."""
        known = might_hold(self.work, self.snapshot) & self.snapshot.residents.known(self.snapshot.number)
        residents = (each for machine in np.flatnonzero(known).tolist() for each in self.snapshot.residents.on(machine))
        yield from sorted(residents, key=lambda each: -each.placement)

    def _left(self, resident: Resident) -> int:
        """Return how many tasks of a run may still go: those of other pools above their fair shares."""
        leaf = leaf_of(resident.pool, resident.user)
        if leaf == self.leaf or resident.together or (self.below is not None and resident.precedence >= self.below):
            return 0
        share = self.shares.get(leaf)
        if share is None or not any(
            has > part for has, part, need in zip(self._holds(leaf), share, resident.need, strict=True) if need
        ):
            return 0
        gone = self.gone.get(resident.placement, 0) + self.evicted.get(resident.placement, 0)
        return max(0, resident.tasks - gone)

    def _holds(self, leaf: str) -> Resources:
        return self._held.get(leaf) or self.snapshot.usage.of_leaf(leaf)

    def _free(self, machine: int) -> list[int]:
        """Return what is free on a machine after the planned evictions and placements."""
        if machine not in self._room:
            self._room[machine] = self._free_now(machine)
        return self._room[machine]

    def _free_now(self, machine: int) -> list[int]:
        """Return what is free on a machine after the evictions in flight, whose claims the snapshot counts."""
        room = [int(amounts[machine]) for amounts in self.snapshot.room]
        return [has + more for has, more in zip(room, self._in_flight(machine), strict=True)]

    def _in_flight(self, machine: int) -> list[int]:
        freed = [0] * self.snapshot.dimensions
        for each in self.snapshot.residents.on(machine):
            add(freed, each.need, self.gone.get(each.placement, 0))
        return freed

    def _for_task(self, first: Resident) -> list[Victim] | None:
        """Return the youngest tasks that make room for one task on a machine; None if there is no such legal set."""
        if not self._left(first):
            return None
        lacking = [amount - free for amount, free in zip(self._need, self._free(first.machine), strict=True)]
        chosen = list[Victim]()
        for resident in sorted(self.snapshot.residents.on(first.machine), key=lambda each: -each.placement):
            useful = [ceil(lack / need) for lack, need in zip(lacking, resident.need, strict=True) if lack > 0 and need]
            count = min(self._left(resident), max(useful, default=0))
            if count > 0:
                chosen.append(Victim(resident, count))
                add(lacking, resident.need, -count)
        if not chosen or any(amount > 0 for amount in lacking):
            return None
        chosen = without_needless(chosen, lacking)
        return chosen if self._is_legal(chosen) else None

    def _is_legal(self, chosen: Sequence[Victim]) -> bool:
        """Return whether the store accepts the set (semantics 33), after those that were chosen before."""
        units: dict[str, list[Resources]] = {}
        for resident, count in chosen:
            units.setdefault(leaf_of(resident.pool, resident.user), []).extend([resident.need] * count)
        losses = [PoolLoss(self._holds(leaf), self.shares[leaf], each) for leaf, each in units.items()]
        return bool(losses) and is_legal(self._holds(self.leaf), self.target, self._need, losses)

    def _carry_out(self, machine: int, chosen: Sequence[Victim]) -> None:
        """Count victims as gone and a task as placed."""
        for resident, count in chosen:
            leaf, free = leaf_of(resident.pool, resident.user), self._free(machine)
            self.evicted[resident.placement] = self.evicted.get(resident.placement, 0) + count
            self._of[resident.placement], self.losers[leaf] = resident, None
            self._count(leaf, resident.need, -count)
            add(free, resident.need, count)
        self._count(self.leaf, self._need, 1)
        add(self._free(machine), self._need, -1)

    def _count(self, leaf: str, need: Resources, tasks: int) -> None:
        held = list(self._holds(leaf))
        add(held, need, tasks)
        self._held[leaf] = tuple(held)
