"""A plan of evictions for one job: the newest tasks of sibling pools that stand above their shares."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import ceil
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cellstate.fairness import Assertion, Loss, is_kept_in_full, is_legal, leaf_of
from cellstate.residents import Resident
from cellstate.resources import Resources
from cellstate.transaction import Claim
from schedulers.fairshare.standings import Path, Standings
from schedulers.fitting import fitting
from schedulers.policies import Placement, claims_of
from schedulers.preemption.precedence import might_hold
from schedulers.work import Work

if TYPE_CHECKING:
    from schedulers.preemption.fair_share import FairShare

MOST_EVICTIONS, MOST_STARTS = 200, 500
"""Of one transaction."""


def leaf_of_work(work: Work) -> str:
    """Return the leaf pool of a job."""
    return leaf_of(work.pool, work.user)


def unit_of(work: Work, need: Resources) -> Sequence[float]:
    """Return the least unit that a job wants next: a task, or all of a gang."""
    if not work.gang:
        return need
    groups = [(work.need(group), left) for group, left in enumerate(work.left)]
    return [float(sum(amounts[d] * left for amounts, left in groups)) for d in range(len(need))]


class Flight(NamedTuple):
    """Evictions whose outcome is not known.

    What leaf pools lose, tasks that go by placement, the room on machines, and the pools that gain.
    """

    lost: Sequence[tuple[str, Resources]]
    gone: dict[int, int]
    freed: Sequence[tuple[int, Resources]]
    gaining: Path = ()


class Plan:
    """Victims of one job at one level of its path: siblings of `path[level]` and what is below them."""

    def __init__(self, policy: "FairShare", work: Work, found: Standings, path: Path, level: int) -> None:
        self.policy, self.work, self.found, self.path = policy, work, found, path
        self.own, self.level = path[level], level
        self.snapshot = found.snapshot
        self.group = next(group for group, left in enumerate(work.left) if left)
        self.need = work.need(self.group)
        self.victims: dict[int, list[tuple[int, int]]] = {}
        self.planned: dict[int, int] = {}
        self.room: dict[int, list[int]] = {}
        self.pools: dict[str, None] = {}
        self.gone: dict[int, int] = policy.gone()
        self.strict = set[str]()
        self.lost: list[tuple[str, Resources]] = []
        self.freed: list[tuple[int, Resources]] = []
        self.lost_tasks: dict[str, int] = {}
        self.whole = True
        """Whether only pools lose tasks that keep their shares in full."""
        self.before = dict(self.gone)
        self.gaining = policy.gaining()
        """Pools for which this scheduler evicts: what they hold on the snapshot is not committed yet."""

    def flight(self) -> Flight:
        """What is evicted when all of it stands."""
        own = {name: count - self.before.get(name, 0) for name, count in self.gone.items()}
        return Flight(self.lost, {name: count for name, count in own.items() if count}, self.freed, self.path)

    @property
    def assertion(self) -> Assertion:
        """What the transaction asserts."""
        found = self.found
        return Assertion(
            found.threshold(self.own, found.share(self.own)),
            tuple(found.threshold(name, found.due(name)) for name in self.pools),
            found.snapshot.lanes.complete_to,
        )

    def place(self, placement: Placement, rng: Random) -> list[Claim]:
        """Return claims with their victims; none when no set is legal, or constraints forbid the machines."""
        tasks = self._choose()
        if not tasks:
            return []
        left = [0] * len(self.work.left)
        left[self.group] = tasks
        if self.work.gang:
            left = list(self.work.left)
        extra = np.zeros((self.snapshot.dimensions, self.snapshot.size), dtype=np.int64)
        for machine, room in self.room.items():
            for d, amount in enumerate(room):
                free = int(self.snapshot.room[d][machine])
                extra[d, machine] = max(0, amount + self.planned[machine] * self.need[d] - free)
        relieved = self.snapshot.relieve(extra, np.zeros(self.snapshot.size))
        claims = claims_of(placement, placement.place(replace(self.work, left=left, admitted=None), relieved, rng))
        return self._with_victims(claims)

    def _free(self, machine: int) -> list[int]:
        """What is free when the evictions in flight are carried out."""
        free = [int(room[machine]) for room in self.snapshot.room]
        for amounts in self.policy.freed(machine):
            free = [has + more for has, more in zip(free, amounts, strict=True)]
        return free

    def _quota(self) -> int:
        """How many tasks this scheduler plans: its part of the deficit, as far as one transaction goes."""
        share, used = self.found.share(self.own), self.found.used(self.own)
        deficit = min(
            (ceil((part - has) / amount) for part, has, amount in zip(share, used, self.need, strict=True) if amount),
            default=0,
        )
        return min(self.work.left[self.group], MOST_STARTS, max(1, ceil(deficit / self.policy.members[1])))

    def _choose(self) -> int:
        """Choose victims for as many tasks as are due; returns the number of tasks that get room."""
        if self.work.gang:
            self.whole = False
            return self._choose_for_gang()
        tasks = self._choose_tasks()
        if not tasks:
            self.whole = False
            tasks = self._choose_tasks()
        return tasks

    def _choose_tasks(self) -> int:
        quota, tasks, evictions = self._quota(), 0, 0
        for machine, resident in self._candidates():
            if tasks >= quota or evictions >= MOST_EVICTIONS:
                break
            while tasks < quota and (found := self._for_task(machine, resident)) is not None:
                tasks, evictions = tasks + 1, evictions + found
                if evictions >= MOST_EVICTIONS:
                    break
        return tasks

    def _choose_for_gang(self) -> int:
        """All of a gang is one set: free room first, then victims for the tasks that are left."""
        groups = [group for group, left in enumerate(self.work.left) if left]
        if len(groups) > 1:
            return 0
        wanted = self.work.left[self.group]
        room = np.stack(self.snapshot.room)
        fits = np.where((room < 0).any(axis=0), 0, fitting(np.maximum(room, 0), self.need))
        missing = wanted - int(np.minimum(fits, wanted).sum())
        taken = tuple(amount * wanted for amount in self.need)
        losses: dict[str, list[Resources]] = {}
        held: dict[str, Resources] = {}
        for machine, resident in self._candidates():
            while missing > 0 and self._take_for_gang(machine, resident, losses, held):
                missing -= 1
            if missing <= 0:
                break
        sets = [Loss(held[name], self.found.due(name), units) for name, units in losses.items()]
        # Tasks of the gang are counted as held when it is placed, not here.
        if missing > 0 or not sets or not (self._matters(taken, sets) and self._legal(taken, sets)):
            return 0
        return wanted

    def _take_for_gang(
        self, machine: int, first: Resident, losses: dict[str, list[Resources]], held: dict[str, Resources]
    ) -> bool:
        """Add victims on a machine for one more task of a gang; whether there were enough."""
        chosen = self._enough(machine, first)
        if chosen is None:
            return False
        for resident, count in chosen:
            path = self._path(resident)
            pair = self.found.pair(self.path, path)
            if pair is None:
                return False
            held.setdefault(pair[1], self.found.used(pair[1]))
            unit = self._unit(resident)
            if unit is not None:
                losses.setdefault(pair[1], []).extend([unit] * (1 if resident.together else count))
            self._evict(machine, resident, count, pair[1])
        self._occupy(machine)
        return True

    def _legal(self, taken: Resources, losses: Sequence[Loss]) -> bool:
        """Whether a set is legal on the snapshot, with what this plan evicts already."""
        return is_legal(self.found.used(self.own), self.found.share(self.own), taken, losses)

    def _matters(self, taken: Resources, losses: Sequence[Loss]) -> bool:
        """Whether a set does more than move the odd task from one pool to another.

        Shares are seldom multiples of a task. When no further task fits under the evictor's share, its pool passes
        its share by a part of one; it does so only at the cost of pools that keep their shares in full. Otherwise a
        task that was started for one pool would at once be evicted for the odd task of the next one.
        """
        used, share = self.found.used(self.own), self.found.share(self.own)
        if all(not more or has + more <= part for has, more, part in zip(used, taken, share, strict=True)):
            return True
        return all(is_kept_in_full(loss) for loss in losses)

    # Candidates

    def _candidates(self) -> Iterator[tuple[int, Resident]]:
        """Tasks of pools above their shares, on machines of one's own number first, the newest first."""
        policy, snapshot = self.policy, self.snapshot
        known = np.flatnonzero(might_hold(self.work, snapshot) & snapshot.residents.known(snapshot.number))
        number, members = policy.members
        found = []
        for machine in known[-policy.most :].tolist():
            if policy.rests(machine, snapshot.now):
                continue
            foreign = machine % members != number
            found += [(foreign, self._rank(each), machine, each) for each in snapshot.residents.on(machine)]
        found.sort(key=lambda each: each[:3])
        for _, _, machine, resident in found:
            if self._eligible(resident):
                yield machine, resident

    def _rank(self, resident: Resident) -> int:
        """The place of a task among the victims, smallest first.

        Of pools that stand above their shares by a part of a task the oldest goes: the newest may have been started
        for such a pool a moment ago.
        """
        return self.policy.rank(resident) if self.whole else resident.placement

    def _path(self, resident: Resident) -> Path:
        return self.found.shares.path(resident.pool or resident.user)

    def _eligible(self, resident: Resident) -> bool:
        """Return whether a task's pool is a sibling at this level, stands above its share, and may lose it."""
        path = self._path(resident)
        pair = self.found.pair(self.path, path)
        if pair is None or pair[0] != self.own or pair[1] in self.gaining:
            return False
        if self.gone.get(resident.placement, 0) >= resident.tasks:
            return False
        leaf, rules = path[0], self.found.shares.pools.preemption(path[0])
        if rules.allow_regular_preemption is False or self.policy.spares(
            resident, leaf, self.found, self.lost_tasks.get(leaf, 0)
        ):
            return False
        unit = self._unit(resident)
        if unit is None:
            return True  # the rest of a gang that goes already
        used, share = self.found.used(pair[1]), self.found.due(pair[1])
        if self.whole:
            return is_kept_in_full(Loss(used, share, [unit]))
        return any(amount > 0 and has > part for has, part, amount in zip(used, share, unit, strict=True))

    def _unit(self, resident: Resident) -> Resources | None:
        """What goes with a task: all of a strict gang; None when that was counted before."""
        if not resident.together:
            return resident.need
        if resident.job in self.strict:
            return None
        return tuple(amount * resident.together for amount in resident.need)

    # Victims for one task

    def _enough(self, machine: int, first: Resident) -> list[tuple[Resident, int]] | None:
        """Return the newest eligible tasks on a machine that free what one more task lacks; None: not enough."""
        room = self.room.setdefault(machine, self._free(machine))
        self.planned.setdefault(machine, 0)
        lacking = [amount - free for amount, free in zip(self.need, room, strict=True)]
        chosen: list[tuple[Resident, int]] = []
        here = sorted(self.snapshot.residents.on(machine), key=self._rank)
        for resident in (first, *(each for each in here if each is not first)):
            if all(amount <= 0 for amount in lacking):
                break
            spare = resident.tasks - self.gone.get(resident.placement, 0)
            useful = [ceil(lack / need) for lack, need in zip(lacking, resident.need, strict=True) if lack > 0 and need]
            if not useful or spare <= 0 or not self._eligible(resident):
                continue
            count = min(spare, max(useful))
            chosen.append((resident, count))
            lacking = [lack - need * count for lack, need in zip(lacking, resident.need, strict=True)]
        return chosen if all(amount <= 0 for amount in lacking) else None

    def _for_task(self, machine: int, first: Resident) -> int | None:
        """Add victims for one more task on a machine when the set is legal; returns their number."""
        found, chosen = self.found, self._enough(machine, first)
        if chosen is None:
            return None
        units: dict[str, list[Resources]] = {}
        for resident, count in chosen:
            pair = found.pair(self.path, self._path(resident))
            unit = self._unit(resident)
            if pair is not None and unit is not None:
                units.setdefault(pair[1], []).extend([unit] * (1 if resident.together else count))
        losses = [Loss(found.used(name), found.due(name), each) for name, each in units.items()]
        if not (self._matters(self.need, losses) and self._legal(self.need, losses)):
            return None
        for resident, count in chosen:
            pair = found.pair(self.path, self._path(resident))
            if pair is not None:
                self._evict(machine, resident, count, pair[1])
        found.move(self.path, self.need)
        self._occupy(machine)
        return sum(count for _, count in chosen)

    def _evict(self, machine: int, resident: Resident, count: int, pool: str) -> None:
        """Count tasks as gone."""
        self.pools[pool] = None
        leaf = self._path(resident)[0]
        self.lost_tasks[leaf] = self.lost_tasks.get(leaf, 0) + count
        self.gone[resident.placement] = self.gone.get(resident.placement, 0) + count
        self.victims.setdefault(machine, []).append((resident.placement, count))
        unit = self._unit(resident)
        if unit is not None:
            times = 1 if resident.together else count
            amounts = tuple(amount * times for amount in unit)
            self.found.move(self._path(resident), amounts, -1)
            self.lost.append((resident.pool or resident.user, amounts))
        if resident.together:
            self.strict.add(resident.job)
        amounts = tuple(amount * count for amount in resident.need)
        self.freed.append((machine, amounts))
        for d, amount in enumerate(amounts):
            self.room[machine][d] += amount

    def _occupy(self, machine: int) -> None:
        self.planned[machine] += 1
        for d, amount in enumerate(self.need):
            self.room[machine][d] -= amount

    def _with_victims(self, claims: Sequence[Claim]) -> list[Claim]:
        """Name the victims of each claim; the first claim on a machine names all that go there."""
        left = dict(self.victims)
        return [claim._replace(evict=tuple(left.pop(claim.machine, ()))) for claim in claims]
