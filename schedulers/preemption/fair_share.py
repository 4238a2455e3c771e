"""Preemption for pools: a starving pool takes room from pools above their fair share (docs/pool-rules.md).

Victims are the newest tasks of pools that keep their share without them. Each set is tested with the predicate of the
commit (`omega.cellstate.fairness`) on the snapshot, and the transaction asserts the shares that it was planned with
(semantics 33). Within a pool precedence decides, then the partition of each job's tasks.

With the option `partition_everywhere` of a tree the partition of tasks (rules 10 and 11) decides between all jobs of
the tree, for starving jobs and pools; else between the jobs of one pool, where a starving job takes what others hold
beyond their thresholds.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, inf
from random import Random
from typing import ClassVar

import numpy as np

from omega.cellstate.fairness import Assertion, Floor, Threshold, is_below
from omega.cellstate.override import override
from omega.cellstate.pools import NOBODY
from omega.cellstate.resources import Resources
from omega.cellstate.snapshot import Resident, Snapshot
from omega.cellstate.transaction import Claim
from omega.schedulers.fairshare.curves import Floats
from omega.schedulers.fairshare.job_standings import SETTLED_SECONDS, JobStand, bounds_of
from omega.schedulers.fairshare.satisfaction import Bounds, Preemptible, StarvationRules, Status
from omega.schedulers.fairshare.standings import BOUNDLESS, Path, Standings, StandingsOf
from omega.schedulers.policies import Placement
from omega.schedulers.preemption.planning import AGAIN_SECONDS, PlanningPolicy, least_for, rules_of
from omega.schedulers.preemption.plans import EvictionPlan
from omega.schedulers.preemption.precedence import might_hold
from omega.schedulers.preemption.victims import EvictedAmounts, leaf_of_work, unit_of
from omega.schedulers.work import Work

LOOK_SECONDS = 1.0
"""Interval in seconds of looks at all pools while none with jobs of this scheduler is below its share."""
_PLAN = "evictions between pools"
"""Where a job's plan stands among its notes, until its transaction is made."""


class _Victim:
    """A job that may lose tasks: its use, its bounds, and the least preemptible of its tasks that may be evicted."""

    def __init__(self, stand: JobStand, bounds: Bounds, least: Preemptible) -> None:
        self.stand, self.bounds, self.least = stand, bounds, least
        self.newer: dict[int, Floats] = {}
        """Use of newer tasks of the job on known machines, by placement."""

    def before(self, resident: Resident, count: int) -> Floats:
        """Return the use of the job before the last `count` tasks of a run began."""
        taken = self.stand.parts([amount * count for amount in resident.need])
        standings: Floats = self.stand.usage - self.newer.get(resident.placement, 0.0) - taken
        return standings


class PartitionPlan(EvictionPlan):
    """Victims of one starving element: the job itself (`pool` empty), or with `partition_everywhere` a pool above it.

    Of each job the newest tasks go first, and only those that its partition does not protect. `everywhere`: the victims
    are all jobs of the tree outside the element, else the other jobs of the job's pool of the same precedence at most.
    """

    def __init__(
        self, policy: PlanningPolicy, work: Work, standings: Standings, status: Status, pool: str = "", *,
        everywhere: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(policy, work, standings, pool or leaf_of_work(work), status)
        self.pool, self.everywhere, self.last = pool, everywhere, not everywhere
        self.losing_jobs: dict[str, _Victim | None] = {}
        stand = None if pool else policy.jobs.of_work(standings.shares.epoch, work)
        self._job = stand
        self._started = 0
        self.whole = False
        rest = standings.shares.preemption(self.path[0]).backoff or 0.0
        self.retry = standings.snapshot.now + max(AGAIN_SECONDS, rest)

    # The evictor

    @override
    def used(self) -> Resources:
        if self._job is None:
            return super().used()
        held = (self._job.usage * self._job.totals).round().astype(int).tolist()
        return tuple(has + need * self._started for has, need in zip(held, self.need, strict=True))

    @override
    def share(self) -> Sequence[float]:
        return super().share() if self._job is None else self._job.amounts(self._job.share, BOUNDLESS)

    @override
    def planners(self) -> int:
        # A job belongs to one scheduler.
        return super().planners() if self._job is None else 1

    def _start(self) -> None:
        super()._start()
        self._started += 1

    @property
    def assertion(self) -> Assertion:
        """Return the assertion of the transaction: the element's share, and the floor of each victim's job."""
        standings = self.standings
        threshold = Threshold((), tuple(self.share()), job=self.work.id)
        if self._job is None:
            threshold = standings.threshold(self.own, standings.share(self.own))
        floors = []
        for job in dict.fromkeys(each.job for each in self.evicted.values()):
            victim = self.losing_jobs.get(job)
            if victim is not None:
                kept = victim.bounds.kept(victim.least)
                # A resource without a total neither keeps a task nor has it go.
                floors += [
                    Floor(job, victim.stand.amounts(least, 0.0 if every else inf), every) for least, every in kept
                ]
        return Assertion(threshold, (), standings.snapshot.lanes.complete_to, tuple(floors))

    @override
    def _legal(self, taken: Resources, losses: EvictedAmounts) -> bool:
        # What victims keep was tested task by task.
        return self._is_worth(taken, losses) and is_below(self.used(), self.share(), taken)

    # Candidates

    @override
    def is_due(self, unit: Sequence[float]) -> bool:
        return True

    @override
    def _may_go(self, resident: Resident) -> bool:
        return resident.job != self.work.id and self._within_reach(resident)

    def _rank(self, resident: Resident) -> int:
        return self.policy.rank(resident)

    def _stage(self, resident: Resident) -> int:
        return -self._kind(resident)

    def _pool(self, resident: Resident) -> str:
        return self._path(resident)[-1]

    def _kind(self, resident: Resident) -> Preemptible:
        """What may happen to the newest task of a run."""
        if resident.job == self.work.id or not self._within_reach(resident):
            return Preemptible.NO
        victim = self._victim(resident)
        return Preemptible.YES if victim is None else victim.bounds.kind(victim.before(resident, 1))

    def _within_reach(self, resident: Resident) -> bool:
        """Whether a task's job is one of those that the evictor competes with."""
        path = self._path(resident)
        if path[0] == self.path[0] and resident.precedence > self.work.job.precedence:
            return False
        if not self.everywhere:
            return path[0] == self.path[0]
        shares = self.standings.shares
        same = shares.pools.tree_of(path[-1]).name == shares.pools.tree_of(self.path[-1]).name
        return same and not (self.pool and self.pool in path)

    def _victim(self, resident: Resident) -> _Victim | None:
        """Return the job of a task; None where precedence alone admits its eviction."""
        below = resident.precedence < self.work.job.precedence and self._path(resident)[0] == self.path[0]
        if below and self.policy.by_precedence:
            return None
        if resident.job not in self.losing_jobs:
            self.losing_jobs[resident.job] = self._new_victim(resident)
        return self.losing_jobs[resident.job]

    def _new_victim(self, resident: Resident) -> _Victim:
        shares, snapshot = self.standings.shares, self.snapshot
        rules = shares.preemption(self._path(resident)[0])
        stand = self.policy.jobs.of(shares.epoch, resident.job)
        size = snapshot.dimensions
        if stand is None:  # its first tasks came after the epoch: it is left alone until the next one
            stand = JobStand(share=np.ones(size), demand=np.ones(size), usage=np.zeros(size), totals=np.ones(size))
        stand = replace(stand, usage=stand.usage - stand.parts(self.policy.in_flight.leaving(resident.job, size)))
        protected = dict(rules.non_preemptible_usage or {})
        aggressive = 0.0 if rules.aggressive_threshold is None else rules.aggressive_threshold
        threshold = 1.0 if rules.threshold is None else rules.threshold
        least = least_for(self.status) if rules.allow_aggressive_preemption is not False else None
        bounds = bounds_of(
            stand, threshold=threshold, aggressive=aggressive, protected=protected, names=snapshot.resources
        )
        victim = _Victim(stand, bounds, least or Preemptible.YES)
        newer: Floats = np.zeros(size)
        for run in sorted(self._runs[resident.job], key=lambda each: -each.placement):
            victim.newer[run.placement] = newer
            newer = newer + stand.parts([amount * run.tasks for amount in run.need])
        return victim

    @override
    def _most(self, resident: Resident) -> int:
        # The newest tasks of the run, as far as the partition does not protect them.
        spare = resident.tasks - self.gone.get(resident.placement, 0)
        if spare <= 0 or resident.job == self.work.id or not self._within_reach(resident):
            return 0
        leaf = self._path(resident)[0]
        kept = self.policy.spared_until(resident, leaf, self.standings, self.lost_tasks.get(leaf, 0))
        if not (self.admits(leaf) and self._is_over(kept)):
            return 0
        victim = self._victim(resident)
        if victim is None:
            return spare
        if self.snapshot.now - self.policy.began(resident) < SETTLED_SECONDS:
            return 0
        if self.status is Status.AGGRESSIVELY_STARVING and self.policy.job_starves(
            resident.job, victim.stand, leaf, self.standings
        ):
            return 0
        gone = resident.tasks - spare
        if resident.together:
            whole = victim.stand.parts([amount * resident.together for amount in resident.need])
            return spare if victim.bounds.kind(victim.stand.usage - whole) >= victim.least else 0
        low, high = 0, spare
        while low < high:
            middle = ceil((low + high) / 2)
            if victim.bounds.kind(victim.before(resident, gone + middle)) >= victim.least:
                low = middle
            else:
                high = middle - 1
        return low


@dataclass(slots=True)
class FairSharePreemption(PlanningPolicy):
    """Evict for pools that starve below their fair share; within a pool, by precedence.

    Parameters: `PlanningPolicy`.
    """

    by: ClassVar[str] = "fair share"
    applies_constraints: ClassVar[bool] = True
    reads: ClassVar[tuple[str, ...]] = ()

    _standings: StandingsOf = field(default_factory=StandingsOf, repr=False)
    _rules: dict[str, StarvationRules] = field(default_factory=dict, repr=False)
    _units: dict[str, Sequence[float]] = field(default_factory=dict, repr=False)
    _stirred: set[str] = field(default_factory=set, repr=False)
    _seen: int = field(default=0, repr=False)
    """Number of the epoch at the last look."""
    _look_at: float = field(default=0.0, repr=False)

    def __post_init__(self) -> None:
        self.starvation.rules = self._rules

    @override
    def suspects(self, work: Work, snapshot: Snapshot, rng: Random) -> Sequence[int] | None:
        standings = self.opened(snapshot)
        within = None if self.within is None else self.within.suspects(work, snapshot, rng)
        if standings is None or next(self._plans(work, standings), None) is None:
            return within
        might = might_hold(work, snapshot)
        unknown = np.flatnonzero(might & ~snapshot.residents.known(snapshot.number))
        if len(unknown) > self.looks:
            dice = np.random.Generator(np.random.PCG64(rng.getrandbits(64)))
            unknown = np.sort(dice.choice(unknown, self.looks, replace=False))
        return sorted({*(int(machine) for machine in unknown), *(within or ())}) if might.any() else within

    @override
    def place(self, work: Work, snapshot: Snapshot, placement: Placement, rng: Random) -> Sequence[Claim]:
        work.notes.pop(_PLAN, None)
        standings, tried = self.opened(snapshot), False
        plans = [] if standings is None else list(self._plans(work, standings))
        if plans:
            self.learn_ages(snapshot)
        for plan in (*(each for each in plans if not each.last), None, *(each for each in plans if each.last)):
            if plan is None:
                claims = () if self.within is None else self.within.place(work, snapshot, placement, rng)
                if claims:
                    return claims
                continue
            mark, tried = snapshot.mark(), True
            if planned := plan.place(placement, rng):
                work.notes[_PLAN] = plan
                return planned
            snapshot.undo(mark)
            if not plan.last and standings is not None:
                self.watch.searched(plan.own, work.shape(), standings, plan.retry)
        if tried and standings is not None and (work.entitled or not plans[0].last):
            self._retry(work, min(plan.retry for plan in plans), snapshot.now)
        return ()

    @staticmethod
    def _retry(work: Work, at: float, now: float) -> None:
        """Have a job tried again at a time, if there is one, or before: as soon as something else helps it."""
        if at < inf:
            known = work.again
            work.again = max(at if known <= now else min(at, known), now + AGAIN_SECONDS)

    def assertion(self, work: Work) -> Assertion | None:
        """Return the assertion of the transaction with the claims that `place` just returned for a job."""
        plan: EvictionPlan | None = work.notes.pop(_PLAN, None)
        if plan is None:
            return None
        self.in_flight.of[work.id] = plan.unsettled()
        return plan.assertion

    def _plans(self, work: Work, standings: Standings) -> Iterator[EvictionPlan]:
        """Yield the plans that a job may try, in order: between pools, lowest level first, then within its pool.

        A job whose pool will starve unless something changes is tried again by then, and one that will itself if it
        is one of those that the queue tries for its pool.
        """
        need = next((work.need(group) for group, left in enumerate(work.left) if left), None)
        if need is None:
            return
        leaf = leaf_of_work(work) or NOBODY
        path, now, unit = standings.shares.path(leaf), standings.snapshot.now, unit_of(work, need)
        lowest, status = self._level(path, need, unit, standings)
        own = self.jobs.status(work, standings.shares, rules_of(leaf, standings), now)
        if lowest is None and own is Status.NORMAL:
            due = [self.starvation.due(name) for name in path]
            due += [self.jobs.due(work.id)] if work.entitled else []
            if times := [at for at in due if at is not None]:
                work.again = max(min(times), now) + 0.001
        elif standings.shares.pools.tree_of(path[-1]).partition_everywhere:
            pool = "" if lowest is None or own >= status else path[lowest]
            yield PartitionPlan(self, work, standings, max(own, status), pool, everywhere=True)
        else:
            retry = inf
            for name in path[lowest:] if lowest is not None else ():
                if not standings.any_above(name):
                    continue
                if until := self.watch.vain_until(name, work.shape(), standings):
                    retry = min(retry, until)
                    continue
                plan = EvictionPlan(self, work, standings, name, status)
                if plan.is_due(unit):
                    yield plan
                retry = min(retry, plan.retry)
            self._retry(work, retry, now)
            if own > Status.NORMAL and self._contested(leaf, own, standings):
                yield PartitionPlan(self, work, standings, own)

    def _level(
        self, path: Path, need: Resources, unit: Sequence[float], standings: Standings
    ) -> tuple[int | None, Status]:  # fmt: skip
        """The lowest level of a path that starves, with all below it under their shares, and the worst state above."""
        lowest, worst = None, Status.NORMAL
        for level, name in enumerate(path):
            status = self._status(name, unit, standings, standings.snapshot.now)
            if not standings.stands_below(name, need):
                break
            worst = max(worst, status)
            lowest = level if status > Status.NORMAL and lowest is None else lowest
        return lowest, worst

    def _status(self, name: str, unit: Sequence[float], standings: Standings, now: float) -> Status:
        """Follow the state of a pool; `unit` is the least that one of its jobs wants next."""
        self._rules[name] = rules_of(name, standings)
        self._units[name] = unit
        self.starvation.update(now, name, standings.stand(name, unit))
        self.watch.follow(name, unit, standings)
        return self.starvation.status(name)

    def observe(self, snapshot: Snapshot, now: float) -> None:
        """Record how pools stand before jobs are chosen; the starvation of pools that reached their share restarts."""
        self.jobs.observe(snapshot, now)
        followed, epoch = self.starvation.followed(), snapshot.epoch
        if followed:
            self.backoff.watch(snapshot.rows, now)
        else:
            self.watch.rest()
        number = 0 if epoch is None else epoch.number
        looks = bool(followed) or now >= self._look_at
        if not looks and number == self._seen:
            return
        standings = self._standings.of(snapshot)
        if standings is None:
            return
        for name in followed:
            self.starvation.update(now, name, standings.stand(name, self._units[name]))
        if looks:
            self._look_at = now + LOOK_SECONDS
            self.watch.look(standings)
        for name in followed:
            if self.starvation.status(name) > Status.NORMAL and self.watch.stirs(name, standings):
                self._stirred.update(standings.leaves(name))
        if number != self._seen:
            self._seen = number
            for leaf, wanted in snapshot.usage.wanted_by_leaves().items():
                if any(wanted) and standings.stands_below(leaf or NOBODY, wanted):
                    self._stirred.add(leaf)

    def starving(self) -> dict[str, str]:
        """Return the pools that may evict, ``starving`` or ``aggressively starving``; other threads may call it."""
        followed = [(name, self.starvation.status(name)) for name in self.starvation.followed()]
        names = {Status.STARVING: "starving", Status.AGGRESSIVELY_STARVING: "aggressively starving"}
        return {name: names[status] for name, status in followed if status in names}

    def stirred(self) -> set[str]:
        """Return, once, the leaf pools whose blocked jobs are to be tried again: new shares may entitle them."""
        leaves, self._stirred = self._stirred, set()
        return leaves

    def opened(self, snapshot: Snapshot) -> Standings | None:
        """Return the standings of pools after the evictions in flight."""
        standings = self._standings.of(snapshot)
        if standings is not None:
            for evictions in self.in_flight.of.values():
                for leaf, amounts in evictions.lost:
                    standings.move(standings.shares.path(leaf), amounts, -1)
        return standings

    def entitled(self, leaf: str, snapshot: Snapshot) -> Iterable[str]:
        """Return the jobs of a leaf pool that new shares entitle to room which other jobs of the pool hold."""
        standings = self._standings.of(snapshot)
        if standings is None:
            return ()
        name = leaf or NOBODY
        rules = standings.shares.preemption(name)
        worst = Status.AGGRESSIVELY_STARVING if rules.aggressive_starvation else Status.STARVING
        if not self._contested(name, worst, standings):
            return ()
        return self.jobs.below_share(standings.shares.epoch, name, rules_of(name, standings).tolerance)

    def _contested(self, leaf: str, status: Status, standings: Standings) -> bool:
        """Whether some job of a pool may have tasks that a job of this state takes."""
        rules = standings.shares.preemption(leaf)
        factor = rules.aggressive_threshold if status is Status.AGGRESSIVELY_STARVING else rules.threshold
        return self.jobs.contested(standings.shares.epoch, leaf, 1.0 if factor is None else factor)
