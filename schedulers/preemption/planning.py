"""What plans of evictions use of their policy: parameters, evictions in flight, damping, the order of victims.

Stages (§11): free room is used first. Then a task of an aggressively starving element may take the room of aggressively
preemptible and of preemptible tasks, one of a starving element that of preemptible tasks. Each stage evicts for one
task at a time, and a machine rests after an accepted eviction.
"""

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, field
from math import ceil, inf

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.fairness import leaf_of
from omega.cellstate.pools import NOBODY
from omega.cellstate.snapshot import Resident, Snapshot
from omega.cellstate.transaction import Outcome, Transaction
from omega.schedulers.fairshare.job_standings import JobStand, JobStandings, PoolWatch
from omega.schedulers.fairshare.satisfaction import DEFAULTS, Preemptible, Starvation, StarvationRules, Status
from omega.schedulers.fairshare.standings import Standings
from omega.schedulers.policies import Peers, PlaceIn, Preemption, only_one
from omega.schedulers.preemption.precedence import PrecedencePreemption
from omega.schedulers.preemption.victims import EvictionsInFlight

BACKOFF_SECONDS = 0.5
"""Time for which a machine rests where its pool sets no other."""
AGAIN_SECONDS = 0.1
"""Minimum time in seconds before a job without a legal set is tried again."""
MOST_AGES = 256
"""Maximum number of times with the newest task that was known then."""
_SPREAD = 2_654_435_761
"""A multiplier that scatters consecutive numbers (Knuth, multiplicative hashing)."""


def least_for(status: Status) -> Preemptible | None:
    """Return the least preemptible tasks that an element of this status may evict; None for none."""
    stages = {Status.AGGRESSIVELY_STARVING: Preemptible.AGGRESSIVELY, Status.STARVING: Preemptible.YES}
    return stages.get(status)


@dataclass(slots=True)
class Backoff:
    """The rest of machines after accepted evictions there by any scheduler."""

    _last: dict[int, float] = field(default_factory=dict)
    _rows: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 0), dtype=np.int64))

    def evicted(self, machine: int, at: float) -> None:
        """An eviction on a machine was accepted; an attempt that was refused does not count."""
        self._last[machine] = max(at, self._last.get(machine, at))

    def watch(self, rows: NDArray[np.int64], now: float) -> None:
        """Record evictions by other schedulers since the last call; `rows`: those of the snapshot.

        One transaction that leaves what is held on a machine as it was, and still raises the machine's number by one,
        let tasks go and started others.
        """
        before = self._rows
        if np.array_equal(before[1:2], rows[1:2]):
            return  # no machine has another number
        self._rows = rows.copy()
        if size := min(before.shape[1], rows.shape[1]):
            once = rows[1, :size] == before[1, :size] + 1
            same = (rows[2:, :size] == before[2:, :size]).all(axis=0)
            for machine in np.flatnonzero(once & same).tolist():
                self.evicted(machine, now)

    def until(self, machine: int, seconds: float | None = None) -> float:
        """Return when the rest of a machine is over, `seconds` after the last eviction there; 0 without one."""
        last = self._last.get(machine)
        return 0.0 if last is None else last + (BACKOFF_SECONDS if seconds is None else seconds)


@dataclass(slots=True)
class PlanningPolicy(Preemption):
    """The policy of a plan (plans.py); times in seconds, amounts in smallest units.

    `within` evicts by precedence among the jobs of one pool, and everywhere while no pool is configured; None: never.
    `looks` machines are looked up for an attempt, `most` of those known are considered.
    """

    within: Preemption | None = field(default_factory=PrecedencePreemption)
    looks: int = 256
    most: int = 1024
    newest_first: bool = True
    """Whether victims are the newest tasks; else they are spread over all, in an order of their own."""
    place_in: PlaceIn = field(default=only_one, init=False, repr=False)
    """Tells the number of this scheduler among the owners of a leaf pool: each begins with its own machines."""
    jobs: JobStandings = field(default_factory=JobStandings, repr=False)
    """How jobs stand within their pools."""
    starvation: Starvation = field(default_factory=Starvation, init=False, repr=False)
    """Of pools."""
    watch: PoolWatch = field(default_factory=PoolWatch, init=False, repr=False)
    backoff: Backoff = field(default_factory=Backoff, init=False, repr=False)
    in_flight: EvictionsInFlight = field(default_factory=EvictionsInFlight, init=False, repr=False)
    _newest: deque[int] = field(default_factory=deque, repr=False)
    _known_at: deque[float] = field(default_factory=deque, repr=False)
    """Placements in rising order, and the times (seconds) by which they and all earlier ones had begun."""
    _spent: dict[str, deque[float]] = field(default_factory=dict, repr=False)
    """Times of accepted evictions by the pool that lost tasks, in the last minute."""

    def join(self, peers: Peers) -> None:
        """Record which schedulers of this kind decide the jobs of which pools."""
        self.place_in = peers.place_in

    @property
    def by_precedence(self) -> bool:
        """Whether precedence alone decides between jobs of different precedence of one pool."""
        return self.within is not None

    def settled(self, transaction: Transaction, outcome: Outcome, now: float) -> None:
        """Process the outcome of a transaction with an assertion."""
        evictions = self.in_flight.of.pop(transaction.job, None)
        if evictions is not None and outcome.placed:
            for name in evictions.gaining:
                self.watch.gained(name, now)
        for claim, (placed, _) in zip(transaction.claims, outcome.claims, strict=True):
            if not placed or not claim.evict:
                continue
            self.backoff.evicted(claim.machine, now)
            for placement, count in claim.evict:
                victim = evictions.victims.get(placement) if evictions is not None else None
                if victim is not None:
                    tasks = victim.together or ceil(count * placed / claim.count)
                    leaf = leaf_of(victim.pool, victim.user) or NOBODY
                    self._spent.setdefault(leaf, deque()).extend([now] * tasks)
                    self.jobs.lost(victim.job, tuple(amount * tasks for amount in victim.need))

    def job_starves(self, job: str, stand: JobStand, leaf: str, standings: Standings) -> bool:
        """Whether a job that may lose tasks starves itself."""
        return self.jobs.victim_starves(job, stand, rules_of(leaf, standings), standings.snapshot.now)

    def spared_until(self, resident: Resident, leaf: str, standings: Standings, planned: int) -> float:
        """Return until when damping keeps a task: it runs too short, or its pool lost too many in this minute.

        `planned`: tasks of the pool that are to go already. Each scheduler counts its own evictions. 0: it is not kept.
        """
        rules, now = standings.shares.preemption(leaf or NOBODY), standings.snapshot.now
        least = rules.minimum_runtime or 0.0
        until = self.began(resident) + least if least > 0.0 else 0.0
        if rules.evictions_per_minute is None:
            return until
        spent = self._spent.setdefault(leaf or NOBODY, deque())
        while spent and spent[0] <= now - 60.0:
            spent.popleft()
        if len(spent) + planned < rules.evictions_per_minute:
            return until
        return max(until, (spent[0] if spent else now) + 60.0)

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

    def rank(self, resident: Resident) -> int:
        """The place of a task among the victims, smallest first."""
        return -resident.placement if self.newest_first else resident.placement * _SPREAD % (1 << 32)


def rules_of(name: str, standings: Standings) -> StarvationRules:
    """Return when a pool starves."""
    rules = standings.shares.preemption(name)
    aggressive = rules.aggressive_starvation_timeout if rules.aggressive_starvation else inf
    return StarvationRules(
        tolerance=DEFAULTS.tolerance if rules.starvation_tolerance is None else rules.starvation_tolerance,
        timeout=DEFAULTS.timeout if rules.starvation_timeout is None else rules.starvation_timeout,
        aggressive_timeout=inf if aggressive is None else aggressive,
    )
