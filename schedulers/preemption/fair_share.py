"""Preemption for pools: a starving pool takes room from pools above their fair share (docs/pool-rules.md).

Victims are the newest tasks of pools that keep their share without them. Each set is tested with the predicate of the
commit (`omega.cellstate.fairness`) on the snapshot, and the transaction asserts the shares that it was planned with
(semantics 33). Within a pool precedence decides, then the partition of each job's tasks (`partitions.py`).
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil, inf
from random import Random
from typing import ClassVar

import numpy as np

from omega.cellstate.fairness import Assertion, leaf_of
from omega.cellstate.override import override
from omega.cellstate.pools import NOBODY
from omega.cellstate.residents import Resident
from omega.cellstate.resources import Resources
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Claim, Outcome, Transaction
from omega.schedulers.fairshare.job_standings import JobStand, JobStandings
from omega.schedulers.fairshare.standings import Path, Standings, StandingsOf
from omega.schedulers.fairshare.starvation import DEFAULTS, Starvation, StarvationRules, Status
from omega.schedulers.policies import Peers, Placement, Preemption
from omega.schedulers.preemption.partitions import PartitionPlan
from omega.schedulers.preemption.plans import EvictionPlan
from omega.schedulers.preemption.precedence import PrecedencePreemption, might_hold
from omega.schedulers.preemption.sets import UnsettledEvictions, leaf_of_work, unit_of
from omega.schedulers.preemption.stages import Backoff, Exchanges
from omega.schedulers.work import Work

AGAIN_SECONDS = 0.1
"""Minimum time in seconds before a job without a legal set is tried again."""
MOST_AGES = 256
"""Maximum number of times with the newest task that was known then."""
_SPREAD = 2_654_435_761
"""A multiplier that scatters consecutive numbers (Knuth, multiplicative hashing)."""
_PLAN = "evictions between pools"
"""Where a job's plan stands among its notes, until its transaction is made."""


@dataclass(slots=True)
class FairSharePreemption(Preemption):
    """Evict for pools that starve below their fair share; within a pool, by precedence.

    `within` evicts by precedence among the jobs of one pool, and everywhere while no pool is configured; None: never.
    `looks` machines are looked up for an attempt, `most` of those known are considered.
    """

    by: ClassVar[str] = "fair share"

    within: Preemption | None = field(default_factory=PrecedencePreemption)
    looks: int = 256
    most: int = 1024
    newest_first: bool = True
    """Whether victims are the newest tasks; else they are spread over all, in an order of their own."""
    members: tuple[int, int] = field(default=(0, 1), init=False)
    """Number of this scheduler among those of its kind, and their count: each begins with its own machines."""
    jobs: JobStandings = field(default_factory=JobStandings, repr=False)
    """How jobs stand within their pools."""
    _standings: StandingsOf = field(default_factory=StandingsOf, repr=False)
    _starving: Starvation = field(default_factory=Starvation, repr=False)
    _backoff: Backoff = field(default_factory=Backoff, repr=False)
    _exchanges: Exchanges = field(default_factory=Exchanges, repr=False)
    _rules: dict[str, StarvationRules] = field(default_factory=dict, repr=False)
    _units: dict[str, Sequence[float]] = field(default_factory=dict, repr=False)
    _unsettled: dict[str, UnsettledEvictions] = field(default_factory=dict, repr=False)
    """Evictions with an unknown outcome, by the evicting job."""
    _stirred: set[str] = field(default_factory=set, repr=False)
    _seen: int = field(default=0, repr=False)
    """Number of the epoch at the last look."""
    _newest: deque[int] = field(default_factory=deque, repr=False)
    _known_at: deque[float] = field(default_factory=deque, repr=False)
    """Placements in rising order, and the times (seconds) by which they and all earlier ones had begun."""
    _spent: dict[str, deque[float]] = field(default_factory=dict, repr=False)
    """Times of accepted evictions by the pool that lost tasks, in the last minute."""

    def __post_init__(self) -> None:
        self._starving.rules = self._rules

    def join(self, peers: Peers) -> None:
        """Record the number of the scheduler among those of its kind."""
        self.members = peers.number, peers.members

    @property
    def by_precedence(self) -> bool:
        """Whether precedence alone decides between jobs of different precedence of one pool."""
        return self.within is not None

    @override
    def suspects(self, work: Work, snapshot: Snapshot, rng: Random) -> Sequence[int] | None:
        found = self.opened(snapshot)
        within = None if self.within is None else self.within.suspects(work, snapshot, rng)
        if found is None or next(self._plans(work, found), None) is None:
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
        found, tried = self.opened(snapshot), False
        plans = [] if found is None else list(self._plans(work, found))
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
        if tried and found is not None and (work.entitled or not plans[0].last):
            leaf = leaf_of_work(work) or NOBODY
            work.again = snapshot.now + max(AGAIN_SECONDS, found.shares.preemption(leaf).backoff or 0.0)
        return ()

    def assertion(self, work: Work) -> Assertion | None:
        """Return the assertion of the transaction with the claims that `place` just returned for a job."""
        plan: EvictionPlan | None = work.notes.pop(_PLAN, None)
        if plan is None:
            return None
        self._unsettled[work.id] = plan.unsettled()
        return plan.assertion

    def settled(self, transaction: Transaction, outcome: Outcome, now: float) -> None:
        """Process the outcome of a transaction with an assertion."""
        evictions = self._unsettled.pop(transaction.job, None)
        for claim, (placed, _) in zip(transaction.claims, outcome.claims, strict=True):
            if not placed or not claim.evict:
                continue
            self._backoff.evicted(claim.machine, now)
            for placement, count in claim.evict:
                victim = evictions.victims.get(placement) if evictions is not None else None
                if victim is not None:
                    tasks = victim.together or ceil(count * placed / claim.count)
                    leaf = leaf_of(victim.pool, victim.user) or NOBODY
                    self._spent.setdefault(leaf, deque()).extend([now] * tasks)
                    self.jobs.lost(victim.job, tuple(amount * tasks for amount in victim.need))

    def _plans(self, work: Work, found: Standings) -> Iterator[EvictionPlan]:
        """Yield the plans that a job may try, in order: between pools, lowest level first, then within its pool.

        A job whose pool will starve unless something changes is tried again by then, and one that will itself if it
        is one of those that the queue tries for its pool.
        """
        need = next((work.need(group) for group, left in enumerate(work.left) if left), None)
        if need is None:
            return
        leaf = leaf_of_work(work) or NOBODY
        path, now, unit = found.shares.path(leaf), found.snapshot.now, unit_of(work, need)
        lowest, status = self._level(path, need, unit, found)
        own = self.jobs.status(work, found.shares, self._rules_of(leaf, found), now)
        if lowest is None and own is Status.NORMAL:
            due = [self._starving.due(name) for name in path]
            due += [self.jobs.due(work.id)] if work.entitled else []
            if times := [at for at in due if at is not None]:
                work.again = max(min(times), now) + 0.001
        elif found.shares.pools.tree_of(path[-1]).partition_everywhere:
            pool = "" if lowest is None or own >= status else path[lowest]
            yield PartitionPlan(self, work, found, max(own, status), pool, everywhere=True)
        else:
            for name in path[lowest:] if lowest is not None else ():
                yield EvictionPlan(self, work, found, name, status)
            if own > Status.NORMAL and self._contested(leaf, own, found):
                yield PartitionPlan(self, work, found, own)

    def _level(
        self, path: Path, need: Resources, unit: Sequence[float], found: Standings
    ) -> tuple[int | None, Status]:  # fmt: skip
        """The lowest level of a path that starves, with all below it under their shares, and the worst state above."""
        lowest, worst = None, Status.NORMAL
        for level, name in enumerate(path):
            status = self._status(name, unit, found, found.snapshot.now)
            if not found.stands_below(name, need):
                break
            worst = max(worst, status)
            lowest = level if status > Status.NORMAL and lowest is None else lowest
        return lowest, worst

    def _rules_of(self, name: str, found: Standings) -> StarvationRules:
        """Return when a pool starves."""
        rules = found.shares.preemption(name)
        aggressive = rules.aggressive_starvation_timeout if rules.aggressive_starvation else inf
        return StarvationRules(
            tolerance=DEFAULTS.tolerance if rules.starvation_tolerance is None else rules.starvation_tolerance,
            timeout=DEFAULTS.timeout if rules.starvation_timeout is None else rules.starvation_timeout,
            aggressive_timeout=inf if aggressive is None else aggressive,
        )

    def _status(self, name: str, unit: Sequence[float], found: Standings, now: float) -> Status:
        """Follow the state of a pool; `unit` is the least that one of its jobs wants next."""
        self._rules[name] = self._rules_of(name, found)
        self._units[name] = unit
        self._starving.update(now, name, found.stand(name, unit))
        return self._starving.status(name)

    def job_starves(self, job: str, stand: JobStand, leaf: str, found: Standings) -> bool:
        """Whether a job that may lose tasks starves itself."""
        return self.jobs.victim_starves(job, stand, self._rules_of(leaf, found), found.snapshot.now)

    def leaving(self, job: str, size: int) -> Resources:
        """Return the amounts that a job loses by the evictions in flight."""
        gone = [0] * size
        for evictions in self._unsettled.values():
            for placement, count in evictions.gone.items():
                victim = evictions.victims[placement]
                if victim.job == job:
                    for d, amount in enumerate(victim.need):
                        gone[d] += amount * (victim.together or count)
        return tuple(gone)

    def observe(self, snapshot: Snapshot, now: float) -> None:
        """Record how pools stand before jobs are chosen; the starvation of pools that reached their share restarts."""
        self.jobs.observe(snapshot, now)
        if self._starving.followed():
            for machine in self._exchanges.seen(snapshot.rows):
                self._backoff.evicted(machine, now)
        followed, epoch = self._starving.followed(), snapshot.epoch
        number = 0 if epoch is None else epoch.number
        if not followed and number == self._seen:
            return
        found = self._standings.of(snapshot)
        if found is None:
            return
        for name in followed:
            self._starving.update(now, name, found.stand(name, self._units[name]))
        if number != self._seen:
            self._seen = number
            for leaf, wanted in snapshot.usage.wanted_by_leaves().items():
                if any(wanted) and found.stands_below(leaf or NOBODY, wanted):
                    self._stirred.add(leaf)

    def starving(self) -> dict[str, str]:
        """Return the pools that may evict, ``starving`` or ``aggressively starving``; other threads may call it."""
        followed = [(name, self._starving.status(name)) for name in self._starving.followed()]
        words = {Status.STARVING: "starving", Status.AGGRESSIVELY_STARVING: "aggressively starving"}
        return {name: words[status] for name, status in followed if status in words}

    def stirred(self) -> set[str]:
        """Return, once, the leaf pools whose blocked jobs are to be tried again: new shares may entitle them."""
        found, self._stirred = self._stirred, set()
        return found

    def opened(self, snapshot: Snapshot) -> Standings | None:
        """Return the standings of pools after the evictions in evictions."""
        found = self._standings.of(snapshot)
        if found is not None:
            for evictions in self._unsettled.values():
                for leaf, amounts in evictions.lost:
                    found.move(found.shares.path(leaf), amounts, -1)
        return found

    def gone(self) -> dict[int, int]:
        """Return the number of tasks in the evictions in flight, by placement."""
        found: dict[int, int] = {}
        for evictions in self._unsettled.values():
            for placement, count in evictions.gone.items():
                found[placement] = found.get(placement, 0) + count
        return found

    def gaining(self) -> set[str]:
        """The pools that the evictions in flight are for."""
        return {name for evictions in self._unsettled.values() for name in evictions.gaining}

    def freed(self, machine: int) -> list[Resources]:
        """Return the amounts that the evictions in flight free on a machine."""
        return [amounts for evictions in self._unsettled.values() for at, amounts in evictions.freed if at == machine]

    def spares(self, resident: Resident, leaf: str, found: Standings, planned: int) -> bool:
        """Whether damping keeps a task where it is: it runs too short, or its pool lost too many in this minute.

        `planned`: tasks of the pool that are to go already. Each scheduler counts its own evictions.
        """
        rules, now = found.shares.preemption(leaf or NOBODY), found.snapshot.now
        least = max(rules.minimum_runtime or 0.0, 0.0)
        if least and now - self.began(resident) < least:
            return True
        if rules.evictions_per_minute is None:
            return False
        spent = self._spent.setdefault(leaf or NOBODY, deque())
        while spent and spent[0] <= now - 60.0:
            spent.popleft()
        return len(spent) + planned >= rules.evictions_per_minute

    def learn_ages(self, snapshot: Snapshot) -> None:
        """Record the newest known task: all older ones began before now."""
        residents, known = snapshot.residents, np.flatnonzero(snapshot.residents.known(snapshot.number)).tolist()
        newest = max((each.placement for machine in known for each in residents.on(machine)), default=0)
        if not self._newest or newest > self._newest[-1]:
            self._newest.append(newest)
            self._known_at.append(snapshot.now)
        while len(self._newest) > MOST_AGES:
            self._newest.popleft(), self._known_at.popleft()

    def began(self, resident: Resident) -> float:
        """The latest time at which a task may have begun (seconds)."""
        at = bisect_left(self._newest, resident.placement)
        return min(resident.started, self._known_at[at]) if at < len(self._newest) else resident.started

    def below_since(self, pool: str) -> float | None:
        """The time from which on a pool has been below its share; None while it is not."""
        return self._starving.since(pool)

    def rank(self, resident: Resident) -> int:
        """The place of a task among the victims, smallest first."""
        return -resident.placement if self.newest_first else resident.placement * _SPREAD % (1 << 32)

    def rests(self, machine: int, now: float, seconds: float | None) -> bool:
        """Return whether any scheduler evicted tasks there at most `seconds` ago."""
        return self._backoff.rests(machine, now, seconds)

    def entitled(self, leaf: str, snapshot: Snapshot) -> Iterable[str]:
        """Return the jobs of a leaf pool that new shares entitle to room which other jobs of the pool hold."""
        found = self._standings.of(snapshot)
        if found is None:
            return ()
        name = leaf or NOBODY
        rules = found.shares.preemption(name)
        worst = Status.AGGRESSIVELY_STARVING if rules.aggressive_starvation else Status.STARVING
        if not self._contested(name, worst, found):
            return ()
        return self.jobs.below_share(found.shares.epoch, name, self._rules_of(name, found).tolerance)

    def _contested(self, leaf: str, status: Status, found: Standings) -> bool:
        """Whether some job of a pool may have tasks that a job of this state takes."""
        rules = found.shares.preemption(leaf)
        factor = rules.aggressive_threshold if status is Status.AGGRESSIVELY_STARVING else rules.threshold
        return self.jobs.contested(found.shares.epoch, leaf, 1.0 if factor is None else factor)
