"""A plan of evictions for one job: the newest tasks of sibling pools that stand above their shares."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import IntEnum
from functools import cached_property
from math import ceil, inf
from random import Random

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.fairness import Assertion, PoolLoss, is_kept_in_full, is_legal, leaf_of
from omega.cellstate.override import override
from omega.cellstate.resources import Resources
from omega.cellstate.snapshot import Resident
from omega.cellstate.transaction import Claim
from omega.schedulers.fairshare.job_standings import SETTLED_SECONDS
from omega.schedulers.fairshare.satisfaction import Status
from omega.schedulers.fairshare.standings import Path, Standings
from omega.schedulers.fitting import fitting
from omega.schedulers.policies import Placement, claims_of
from omega.schedulers.preemption.planning import PlanningPolicy, rules_of
from omega.schedulers.preemption.precedence import might_hold
from omega.schedulers.preemption.victims import (
    EvictedAmounts,
    UnsettledEvictions,
    Victim,
    add,
    is_worth,
    leaf_of_work,
    with_victims,
    within_shares,
    without_needless,
)
from omega.schedulers.work import Work

Mask = NDArray[np.bool_]
MOST_EVICTIONS, MOST_STARTS = 200, 500
"""Of one transaction."""


class PlannedEvictions:
    """The evictions that are planned for one job, counted in the standings of pools as they are chosen.

    `own` is the pool that gains; amounts in smallest units, machines and placements by their numbers.
    """

    def __init__(self, policy: PlanningPolicy, work: Work, standings: Standings, own: str) -> None:
        """Plan nothing yet."""
        self.policy, self.work, self.standings, self.own = policy, work, standings, own
        self.path = standings.shares.path(leaf_of_work(work))
        self.snapshot = standings.snapshot
        self.group = next(group for group, left in enumerate(work.left) if left)
        self.need = work.need(self.group)
        self.victims: dict[int, list[tuple[int, int]]] = {}
        self.planned: dict[int, list[int]] = {}
        """What planned tasks take, by machine."""
        self.room: dict[int, list[int]] = {}
        self.pools: dict[str, None] = {}
        self.gone: dict[int, int] = policy.in_flight.gone()
        self.strict = set[str]()
        self.lost: list[tuple[str, Resources]] = []
        self.freed: list[tuple[int, Resources]] = []
        self.lost_tasks: dict[str, int] = {}
        self.evicted: dict[int, Resident] = {}
        self.before = dict(self.gone)

    def unsettled(self) -> UnsettledEvictions:
        """The planned evictions, if all are accepted."""
        own = {name: count - self.before.get(name, 0) for name, count in self.gone.items()}
        gone = {name: count for name, count in own.items() if count}
        return UnsettledEvictions(self.lost, gone, self.freed, self.evicted, self.path)

    def _path(self, resident: Resident) -> Path:
        return self.standings.shares.path(resident.pool or resident.user)

    def _pool(self, resident: Resident) -> str:
        """Return the pool that is compared with the evictor's when it loses this task."""
        pair = self.standings.pair(self.path, self._path(resident))
        return "" if pair is None else pair[1]

    def _unit(self, resident: Resident) -> Resources | None:
        """Return the amounts evicted with a task: those of a whole strict gang; None when they were counted before."""
        if not resident.together:
            return resident.need
        if resident.job in self.strict:
            return None
        return tuple(amount * resident.together for amount in resident.need)

    def _free(self, machine: int) -> list[int]:
        """Return the free amounts of a machine after the evictions in flight."""
        free = [int(room[machine]) for room in self.snapshot.room]
        for amounts in self.policy.in_flight.freed(machine):
            add(free, amounts, 1)
        return free

    def _room(self, machine: int) -> list[int]:
        """Return the free amounts of a machine after the planned evictions and placements."""
        if machine not in self.room:
            self.room[machine], self.planned[machine] = self._free(machine), [0] * len(self.need)
        return self.room[machine]

    def _occupy(self, machine: int, count: int = 1) -> None:
        add(self._room(machine), self.need, -count)
        add(self.planned[machine], self.need, count)

    def _carry_out(self, machine: int, chosen: Sequence[Victim]) -> None:
        """Count the victims of one task as gone, and the task as placed on the machine."""
        for resident, count in chosen:
            self._evict(machine, resident, count)
        self._occupy(machine)

    def _evict(self, machine: int, resident: Resident, count: int) -> None:
        self.pools[self._pool(resident)] = None
        self.evicted[resident.placement] = resident
        leaf = self._path(resident)[0]
        self.lost_tasks[leaf] = self.lost_tasks.get(leaf, 0) + count
        self.gone[resident.placement] = self.gone.get(resident.placement, 0) + count
        self.victims.setdefault(machine, []).append((resident.placement, count))
        unit = self._unit(resident)
        if unit is not None:
            times = 1 if resident.together else count
            amounts = tuple(amount * times for amount in unit)
            self.standings.move(self._path(resident), amounts, -1)
            self.lost.append((resident.pool or resident.user, amounts))
        if resident.together:
            self.strict.add(resident.job)
        self.freed.append((machine, tuple(amount * count for amount in resident.need)))
        add(self.room[machine], resident.need, count)

    def _with_victims(self, claims: Sequence[Claim]) -> list[Claim]:
        """Name the victims of each claim, which the snapshot counts as taken."""
        room = {machine: self._free(machine) for machine in self.victims}
        return with_victims(claims, self.victims, self.evicted, room, self.work)


class _Loss(IntEnum):
    """What a pool's stand admits of the loss of a unit (a task, a strict gang)."""

    FORBIDDEN = 0
    """The pool is not a sibling, its settings keep the unit, or it stood below its share a moment ago."""
    UNFAIR = 1
    """The pool would be below its share."""
    PART = 2
    """The unit lifts the pool above its share by a part of it."""
    FULL = 3
    """The pool keeps its whole share."""


class EvictionPlan(PlannedEvictions):
    """Victims of one job at one level of its path: siblings of the pool `own` and the pools below them."""

    last = False
    """Whether precedence within the pool is tried before it."""

    def __init__(
        self, policy: PlanningPolicy, work: Work, standings: Standings, own: str, status: Status = Status.STARVING
    ) -> None:
        super().__init__(policy, work, standings, own)
        self.status = status
        self.whole = True
        """Whether only pools lose tasks that keep their shares in full."""
        self.rested = False
        """Whether such pools have tasks on machines that rest: then no others lose tasks."""
        self.gaining = policy.in_flight.gaining()
        """Pools for which this scheduler evicts: part of their use in the snapshot is not committed yet."""
        self.retry = inf
        """When a task that time alone keeps may go (seconds): before, only a change of the cell helps the job."""
        self._losses: dict[tuple[str, Resources, int], _Loss] = {}
        """By leaf pool and unit, for the present standings."""

    @property
    def assertion(self) -> Assertion:
        """Return the assertion of the transaction."""
        standings = self.standings
        return Assertion(
            standings.threshold(self.own, standings.share(self.own)),
            tuple(standings.threshold(name, standings.shares.due(name)) for name in self.pools),
            standings.snapshot.lanes.complete_to,
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
                extra[d, machine] = max(0, amount + self.planned[machine][d] - free)
        relieved = self.snapshot.relieve(extra, np.zeros(self.snapshot.size))
        claims = claims_of(placement, placement.place(replace(self.work, left=left, admitted=None), relieved, rng))
        return self._with_victims(claims)

    def _quota(self) -> int:
        """Return how many tasks this scheduler plans: its part of the deficit, at most one transaction."""
        share, used = self.share(), self.used()
        deficit = min(
            (ceil((part - has) / amount) for part, has, amount in zip(share, used, self.need, strict=True) if amount),
            default=0,
        )
        deficit = ceil(deficit / self.planners())
        own = self.policy.jobs.lacking(self.standings.shares.epoch, self.work, self.need)
        return min(self.work.left[self.group], MOST_STARTS, max(1, deficit if own is None else min(deficit, own)))

    # The evictor

    def used(self) -> Resources:
        """Return the amounts held by the evictor's pool, planned tasks included."""
        return self.standings.used(self.own)

    def share(self) -> Sequence[float]:
        """The share that the evictor's pool may claim."""
        return self.standings.share(self.own)

    def planners(self) -> int:
        """Return the number of schedulers that plan for the evictor at the same time."""
        return self.policy.place_in(leaf_of(*self.work.whose))[1]

    def _choose(self) -> int:
        """Choose victims for as many tasks as are due; returns the number of tasks that get room."""
        if self.work.gang:
            self.whole = False
            return self._choose_for_gang()
        tasks = self._choose_tasks()
        if not tasks and self.whole and not self.rested and self._fits(self.need):
            self.whole = False
            tasks = self._choose_tasks()
        return tasks

    def _choose_tasks(self) -> int:
        quota, tasks, evictions = self._quota(), 0, 0
        for machine, resident in self._candidates():
            while (number := self._for_task(machine, resident)) is not None:
                tasks, evictions = tasks + 1, evictions + number
                if tasks >= quota or evictions >= MOST_EVICTIONS:
                    return tasks
        return tasks

    def _choose_for_gang(self) -> int:
        """All of a gang is one set: free room first, then victims for the tasks that are left, group by group."""
        room = np.maximum(np.stack(self.snapshot.room), 0)
        shut: Mask = np.any(np.stack(self.snapshot.room) < 0, axis=0)
        losses, taken = EvictedAmounts(), [0] * self.snapshot.dimensions
        groups = [group for group, left in enumerate(self.work.left) if left]
        for group in groups:
            self.group, self.need = group, self.work.need(group)
            missing = self._on_free_room(room, shut, self.work.left[group])
            taken = [has + need * self.work.left[group] for has, need in zip(taken, self.need, strict=True)]
            for machine, resident in self._candidates() if missing else ():
                while missing > 0 and (chosen := self._enough(machine, resident)) is not None:
                    self._count(chosen, losses)
                    self._carry_out(machine, chosen)
                    missing -= 1
                if missing <= 0:
                    break
            if missing > 0:
                return 0
        # Tasks of the gang are counted as held when it is placed, not here.
        return self.work.remaining if self.victims and self._legal(tuple(taken), losses) else 0

    def _on_free_room(self, room: NDArray[np.int64], shut: Mask, wanted: int) -> int:
        """Count tasks of the group on free room, which earlier groups share; return how many are left."""
        fits = np.minimum(np.where(shut, 0, fitting(room, self.need)), wanted)
        for machine in np.flatnonzero(fits).tolist():
            count = min(int(fits[machine]), wanted)
            wanted -= count
            room[:, machine] -= np.array(self.need, dtype=np.int64) * count
            self._occupy(machine, count)
            if not wanted:
                break
        return wanted

    def _count(self, chosen: Sequence[Victim], losses: EvictedAmounts) -> None:
        """Add victims to what pools lose, before they are carried out."""
        for resident, count in chosen:
            pool, unit = self._pool(resident), self._unit(resident)
            losses.held.setdefault(pool, self.standings.used(pool))
            if unit is not None:
                losses.units.setdefault(pool, []).extend([unit] * (1 if resident.together else count))

    def _legal(self, taken: Resources, losses: EvictedAmounts) -> bool:
        """Return whether a set is legal on the snapshot, given the evictions planned before."""
        sets = [
            PoolLoss(losses.held[name], self.standings.shares.due(name), units) for name, units in losses.units.items()
        ]
        return (
            bool(sets)
            and self._is_worth(taken, losses)
            and self._matters(taken, sets)
            and is_legal(self.used(), self.share(), taken, sets)
        )

    def _is_worth(self, taken: Resources, losses: EvictedAmounts) -> bool:
        """Return whether a set starts enough for its evictions, by the `eviction_cost` of the evictor's pool."""
        cost = self.standings.shares.preemption(self.path[0]).eviction_cost or 0.0
        return is_worth(cost, [unit for units in losses.units.values() for unit in units], taken, self.snapshot.total())

    def _matters(self, taken: Resources, losses: Sequence[PoolLoss]) -> bool:
        """Whether a set does more than move the odd task from one pool to another.

        Shares are seldom multiples of a task. When no further task fits under the evictor's share, its pool passes
        its share by a part of one; it does so only at the cost of pools that keep their shares in full, once it has
        been below its share for 5 s, and while no sibling lacks a whole task. Otherwise a task that was started for one
        pool would at once be evicted for the odd task of the next one.
        """
        return self._fits(taken) or (self._waited() and all(is_kept_in_full(loss) for loss in losses))

    def _fits(self, taken: Resources) -> bool:
        """Whether the evictor's pool does not pass its share by these amounts."""
        amounts = zip(self.used(), taken, self.share(), strict=True)
        return all(not more or has + more <= part for has, more, part in amounts)

    def is_due(self, unit: Sequence[float]) -> bool:
        """Whether the evictor's pool has lacked a unit for its timeout, or has waited for the odd task."""
        if not self.standings.has_room(self.own, unit):
            return self._waited()
        since = self.policy.watch.lacking_since(self.own, unit)
        return self._is_over(since + rules_of(self.own, self.standings).timeout)

    def _waited(self) -> bool:
        """Whether the pool has been below its share for long enough to pass it by a part of a task."""
        if self._yields:
            return False
        since = self.policy.starvation.since(self.own)
        return self._is_over((self.snapshot.now if since is None else since) + SETTLED_SECONDS)

    def _is_over(self, at: float) -> bool:
        """Whether a time has come at which something changes; the job is tried again by then."""
        if at > self.snapshot.now:
            self.retry = min(self.retry, at)
            return False
        return True

    @cached_property
    def _yields(self) -> bool:
        """Whether a sibling lacks a task like those of this job, or more, of its share."""
        return self.standings.lacks_beside(self.own, self.need)

    # Candidates

    def _candidates(self) -> Iterator[tuple[int, Resident]]:
        """Tasks of pools above their shares, on machines of one's own number first, the newest first.

        Machines on which a task of the job used up its restarts come last of their stage (semantics 26).
        """
        policy, snapshot = self.policy, self.snapshot
        rest = self.standings.shares.preemption(self.path[0]).backoff
        known = np.flatnonzero(might_hold(self.work, snapshot) & snapshot.residents.known(snapshot.number))
        (number, members), others = policy.place_in(leaf_of(*self.work.whose)), self.work.elsewhere(snapshot.size)
        candidates = []
        for machine in known[-policy.most :].tolist():
            here = [each for each in snapshot.residents.on(machine) if self._may_go(each)]
            if here and not self._is_over(policy.backoff.until(machine, rest)):
                self.rested = self.rested or any(self._most(each) for each in here)
                continue
            foreign = others is not None and not others[machine], machine % members != number
            candidates += [(self._stage(each), foreign, self._rank(each), machine, each) for each in here]
        candidates.sort(key=lambda each: each[:4])
        for _, _, _, machine, resident in candidates:
            if self._most(resident):
                yield machine, resident

    def _may_go(self, resident: Resident) -> bool:
        """Whether the pool of a task may lose it, as far as the pools decide: they are few, tasks are many."""
        return self._loss(resident) >= (_Loss.FULL if self.whole else _Loss.PART)

    def _rank(self, resident: Resident) -> int:
        """The place of a task among the victims, smallest first.

        Of pools that stand above their shares by a part of a task the oldest goes: the newest may have been started
        for such a pool a moment ago.
        """
        return self.policy.rank(resident) if self.whole else resident.placement

    def _stage(self, resident: Resident) -> int:
        """Return the order of a task before machines and age count, smallest first: jobs above their shares first."""
        return 1 if self.whole and resident.placement in self._within_shares else 0

    @cached_property
    def _within_shares(self) -> set[int]:
        """Runs that are within the shares of their jobs: the oldest, as far as the machines are known."""
        part = float(self.snapshot.residents.known(self.snapshot.number).mean()) if self.snapshot.size else 1.0
        epoch, jobs = self.standings.shares.epoch, self.policy.jobs
        runs = [run for each in self._runs.values() for run in each]
        return within_shares(runs, lambda run: jobs.tasks_due(epoch, run.job, run.need), part)

    @cached_property
    def _runs(self) -> dict[str, list[Resident]]:
        residents, runs = self.snapshot.residents, dict[str, list[Resident]]()
        for machine in np.flatnonzero(residents.known(self.snapshot.number)).tolist():
            for each in residents.on(machine):
                runs.setdefault(each.job, []).append(each)
        return runs

    def _most(self, resident: Resident) -> int:
        return resident.tasks - self.gone.get(resident.placement, 0) if self._eligible(resident) else 0

    def _eligible(self, resident: Resident) -> bool:
        """Return whether a task's pool is a sibling at this level, stands above its share, and may lose it."""
        if self.gone.get(resident.placement, 0) >= resident.tasks:
            return False
        loss, rest = self._loss(resident), resident.together and resident.job in self.strict
        if loss is _Loss.FORBIDDEN or not (rest or self._may_go(resident)):
            return False
        leaf = self._path(resident)[0]
        kept = self.policy.spared_until(resident, leaf, self.standings, self.lost_tasks.get(leaf, 0))
        if loss is _Loss.PART and not rest:
            # A task that lifts its pool above its share by a part of a task may have been started there a moment ago.
            kept = max(kept, self.policy.began(resident) + SETTLED_SECONDS)
        return self._is_over(kept)

    def _loss(self, resident: Resident) -> _Loss:
        """Return what the stand of a task's pool admits of its loss."""
        key = resident.pool or resident.user, resident.need, resident.together
        known = self._losses.get(key)
        if known is None:
            known = self._losses[key] = self._judge(resident)
        return known

    def _judge(self, resident: Resident) -> _Loss:
        path = self._path(resident)
        pair = self.standings.pair(self.path, path)
        if pair is None or pair[0] != self.own or pair[1] in self.gaining or not self.admits(path[0]):
            return _Loss.FORBIDDEN
        unit = tuple(amount * max(1, resident.together) for amount in resident.need)
        for name in path[: path.index(pair[1]) + 1]:
            if not self._is_over(self.policy.watch.settled_at(name, self.standings)):
                return _Loss.FORBIDDEN
        used, share = self.standings.used(pair[1]), self.standings.shares.due(pair[1])
        if is_kept_in_full(PoolLoss(used, share, [unit])):
            return _Loss.FULL
        above = any(amount > 0 and has > part for has, part, amount in zip(used, share, unit, strict=True))
        return _Loss.PART if above else _Loss.UNFAIR

    @override
    def _carry_out(self, machine: int, chosen: Sequence[Victim]) -> None:
        super()._carry_out(machine, chosen)
        self._losses.clear()

    def admits(self, leaf: str) -> bool:
        """Return whether a pool's settings admit evictions for this evictor (rule 11)."""
        rules = self.standings.shares.preemption(leaf)
        if self.status is Status.AGGRESSIVELY_STARVING and rules.allow_aggressive_preemption is not False:
            return True
        return rules.allow_regular_preemption is not False

    # Victims for one task

    def _enough(self, machine: int, first: Resident) -> list[Victim] | None:
        """Return the newest eligible tasks on a machine that free what one more task lacks; None: not enough."""
        room = self._room(machine)
        lacking = [amount - free for amount, free in zip(self.need, room, strict=True)]
        chosen: list[Victim] = []
        here = sorted(self.snapshot.residents.on(machine), key=lambda each: (self._stage(each), self._rank(each)))
        for resident in (first, *(each for each in here if each is not first)):
            if all(amount <= 0 for amount in lacking):
                break
            useful = [ceil(lack / need) for lack, need in zip(lacking, resident.need, strict=True) if lack > 0 and need]
            count = min(self._most(resident), max(useful)) if useful else 0
            if count > 0:
                chosen.append(Victim(resident, count))
                add(lacking, resident.need, -count)
        return without_needless(chosen, lacking) if all(amount <= 0 for amount in lacking) else None

    def _for_task(self, machine: int, first: Resident) -> int | None:
        """Add victims for one more task on a machine when the set is legal; returns their number."""
        chosen = self._enough(machine, first)
        if chosen is None:
            return None
        losses = EvictedAmounts()
        self._count(chosen, losses)
        if not self._legal(self.need, losses):
            return None
        self._carry_out(machine, chosen)
        self._start()
        return sum(count for _, count in chosen)

    def _start(self) -> None:
        self.standings.move(self.path, self.need)
