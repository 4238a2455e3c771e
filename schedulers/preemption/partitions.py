"""A plan of evictions by the partition of jobs' tasks (docs/pool-rules.md, rules 10 and 11).

Within a pool it decides between its jobs: a starving job takes what other jobs hold beyond their thresholds. With the
option `partition_everywhere` of a tree it decides between all jobs of the tree, for starving jobs and pools.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, inf

import numpy as np

from omega.cellstate.fairness import Assertion, Floor, Threshold, is_below
from omega.cellstate.override import override
from omega.cellstate.resources import Resources
from omega.cellstate.snapshot import Resident
from omega.schedulers.fairshare.curves import Floats
from omega.schedulers.fairshare.job_standings import JobStand, bounds_of
from omega.schedulers.fairshare.partition import Bounds, Preemptible
from omega.schedulers.fairshare.standings import BOUNDLESS, Standings
from omega.schedulers.fairshare.starvation import Status
from omega.schedulers.fairshare.watch import SETTLED_SECONDS
from omega.schedulers.preemption.planning import AGAIN_SECONDS, PlanningPolicy, least_for
from omega.schedulers.preemption.plans import EvictionPlan
from omega.schedulers.preemption.sets import EvictedAmounts, leaf_of_work
from omega.schedulers.work import Work


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
