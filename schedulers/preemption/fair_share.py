"""Preemption between pools: a starving pool takes room from pools above their fair share (docs/pools.md, Preemption).

Victims are the newest tasks of pools that keep their share without them. Each set is tested with the predicate of the
commit (`cellstate.fairness`) on the snapshot, and the transaction asserts the shares that it was planned with
(semantics 33). Within a pool precedence decides.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from random import Random
from typing import ClassVar

import numpy as np

from cellstate.fairness import Assertion
from cellstate.pools import NOBODY
from cellstate.residents import Resident
from cellstate.resources import Resources
from cellstate.snapshot import Snapshot
from cellstate.transaction import Claim, Outcome, Transaction
from schedulers.fairshare.standings import Standings, StandingsOf
from schedulers.fairshare.starvation import DEFAULTS, Starvation, Status
from schedulers.policies import Placement, Preemption
from schedulers.preemption.plans import Flight, Plan, leaf_of_work, unit_of
from schedulers.preemption.precedence import Precedence, might_hold
from schedulers.preemption.stages import Backoff
from schedulers.work import Work

AGAIN_SECONDS = 0.1
"""After which a job is tried again for which no legal set was found, at least."""
_SPREAD = 2_654_435_761
"""A multiplier that scatters consecutive numbers (Knuth, multiplicative hashing)."""
_PLAN = "evictions between pools"
"""Where a job's plan stands among its notes, until its transaction is made."""


@dataclass(slots=True)
class FairShare(Preemption):
    """Evict for pools that starve below their fair share; within a pool, by precedence.

    `within` evicts by precedence among the jobs of one pool, and everywhere while no pool is configured; None: never.
    `looks` machines are looked up for an attempt, `most` of those known are considered.
    """

    by: ClassVar[str] = "fair share"

    within: Precedence | None = field(default_factory=Precedence)
    looks: int = 256
    most: int = 1024
    newest_first: bool = True
    """Whether victims are the newest tasks; else they are spread over all, in an order of their own."""
    members: tuple[int, int] = (0, 1)
    """This scheduler's number among those of its kind, and how many they are: each begins with machines of its own."""
    _standings: StandingsOf = field(default_factory=StandingsOf, repr=False)
    _starving: Starvation = field(default_factory=Starvation, repr=False)
    _backoff: Backoff = field(default_factory=Backoff, repr=False)
    _rules: dict[str, tuple[float, float, float]] = field(default_factory=dict, repr=False)
    _units: dict[str, Sequence[float]] = field(default_factory=dict, repr=False)
    _flights: dict[str, Flight] = field(default_factory=dict, repr=False)
    """Evictions whose outcome is not known, by the job that evicts."""
    _stirred: set[str] = field(default_factory=set, repr=False)
    _seen: int = field(default=0, repr=False)
    """Number of the epoch at the last look."""
    _spent: dict[str, deque[float]] = field(default_factory=dict, repr=False)
    """Times of accepted evictions by the pool that lost tasks, in the last minute."""

    def __post_init__(self) -> None:
        self._starving.rules = self._rules

    def suspects(self, work: Work, snapshot: Snapshot, rng: Random) -> Sequence[int] | None:
        """See Preemption.suspects."""
        found = self.opened(snapshot)
        within = None if self.within is None else self.within.suspects(work, snapshot, rng)
        if found is None or self._level(work, found) is None:
            return within
        might = might_hold(work, snapshot)
        unknown = np.flatnonzero(might & ~snapshot.residents.known(snapshot.number))
        if len(unknown) > self.looks:
            dice = np.random.Generator(np.random.PCG64(rng.getrandbits(64)))
            unknown = np.sort(dice.choice(unknown, self.looks, replace=False))
        return sorted({*(int(machine) for machine in unknown), *(within or ())}) if might.any() else within

    def place(self, work: Work, snapshot: Snapshot, placement: Placement, rng: Random) -> Sequence[Claim]:
        """See Preemption.place."""
        work.notes.pop(_PLAN, None)
        found = self.opened(snapshot)
        lowest = None if found is None else self._level(work, found)
        if found is not None and lowest is not None:
            path = found.shares.path(leaf_of_work(work))
            for level in range(lowest, len(path)):
                plan = Plan(self, work, found, path, level)
                mark = snapshot.mark()
                if claims := plan.place(placement, rng):
                    work.notes[_PLAN] = plan
                    return claims
                snapshot.undo(mark)
            work.again = snapshot.now + max(AGAIN_SECONDS, self._backoff.seconds)
        return () if self.within is None else self.within.place(work, snapshot, placement, rng)

    def assertion(self, work: Work) -> Assertion | None:
        """See Asserting.assertion."""
        plan: Plan | None = work.notes.pop(_PLAN, None)
        if plan is None:
            return None
        self._flights[work.id] = plan.flight()
        return plan.assertion

    def settled(self, transaction: Transaction, outcome: Outcome, now: float) -> None:
        """See Asserting.settled."""
        self._flights.pop(transaction.job, None)
        for claim, (placed, _) in zip(transaction.claims, outcome.claims, strict=True):
            if placed and claim.evict:
                self._backoff.evicted(claim.machine, now)
        if outcome.placed and transaction.assertion is not None:
            evicted = sum(count for claim in transaction.claims for _, count in claim.evict)
            for victim in transaction.assertion.victims:
                for leaf in victim.leaves:
                    self._spent.setdefault(leaf, deque()).extend([now] * evicted)

    def _level(self, work: Work, found: Standings) -> int | None:
        """The lowest level of a job's path that starves, with all below it under their shares; None when none does.

        A job whose pool will starve unless something changes is tried again by then.
        """
        need = next((work.need(group) for group, left in enumerate(work.left) if left), None)
        if need is None:
            return None
        path, now, unit = found.shares.path(leaf_of_work(work)), found.snapshot.now, unit_of(work, need)
        lowest = None
        for level, name in enumerate(path):
            starving = self._status(name, unit, found, now) > Status.NORMAL
            if not found.stands_below(name, need):
                break
            lowest = level if starving and lowest is None else lowest
        if lowest is None:
            due = [at for name in path if (at := self._starving.due(name)) is not None]
            if due:
                work.again = max(min(due), now) + 0.001
        return lowest

    def _status(self, name: str, unit: Sequence[float], found: Standings, now: float) -> Status:
        """Follow the state of a pool; `unit` is the least that one of its jobs wants next."""
        rules = found.shares.pools.preemption(name)
        aggressive = rules.aggressive_starvation_timeout if rules.aggressive_starvation else inf
        tolerance, timeout, _ = DEFAULTS
        self._rules[name] = (
            tolerance if rules.starvation_tolerance is None else rules.starvation_tolerance,
            timeout if rules.starvation_timeout is None else rules.starvation_timeout,
            inf if aggressive is None else aggressive,
        )
        self._units[name] = unit
        self._backoff.seconds = self._backoff.seconds if rules.backoff is None else rules.backoff
        self._starving.update_one(now, name, found.stand(name, unit))
        return self._starving.status(name)

    def observe(self, snapshot: Snapshot, now: float) -> None:
        """See Asserting.observe: pools that reached their share meanwhile begin anew."""
        followed, epoch = self._starving.followed(), snapshot.epoch
        number = 0 if epoch is None else epoch.number
        if not followed and number == self._seen:
            return
        found = self._standings.of(snapshot)
        if found is None:
            return
        for name in followed:
            self._starving.update_one(now, name, found.stand(name, self._units[name]))
        if number != self._seen:
            self._seen = number
            for leaf, wanted in snapshot.usage.wanted_by_leaves().items():
                if any(wanted) and found.stands_below(leaf or NOBODY, wanted):
                    self._stirred.add(leaf)

    def stirred(self) -> set[str]:
        """See Asserting.stirred."""
        found, self._stirred = self._stirred, set()
        return found

    def opened(self, snapshot: Snapshot) -> Standings | None:
        """How pools stand when the evictions in flight are carried out."""
        found = self._standings.of(snapshot)
        if found is not None:
            for flight in self._flights.values():
                for leaf, amounts in flight.lost:
                    found.move(found.shares.path(leaf), amounts, -1)
        return found

    def gone(self) -> dict[int, int]:
        """Tasks that go with the evictions in flight, by placement."""
        found: dict[int, int] = {}
        for flight in self._flights.values():
            for placement, count in flight.gone.items():
                found[placement] = found.get(placement, 0) + count
        return found

    def gaining(self) -> set[str]:
        """The pools that the evictions in flight are for."""
        return {name for flight in self._flights.values() for name in flight.gaining}

    def freed(self, machine: int) -> list[Resources]:
        """Room that the evictions in flight make on a machine."""
        return [amounts for flight in self._flights.values() for at, amounts in flight.freed if at == machine]

    def spares(self, resident: Resident, leaf: str, found: Standings, planned: int) -> bool:
        """Whether damping keeps a task where it is: it runs too short, or its pool lost too many in this minute.

        `planned`: tasks of the pool that are to go already. Each scheduler counts its own evictions.
        """
        rules, now = found.shares.pools.preemption(leaf or NOBODY), found.snapshot.now
        least = max(rules.minimum_runtime or 0.0, 0.0)
        if least and now - resident.started < least:
            return True
        if rules.evictions_per_minute is None:
            return False
        spent = self._spent.setdefault(leaf, deque())
        while spent and spent[0] <= now - 60.0:
            spent.popleft()
        return len(spent) + planned >= rules.evictions_per_minute

    def rank(self, resident: Resident) -> int:
        """The place of a task among the victims, smallest first."""
        return -resident.placement if self.newest_first else resident.placement * _SPREAD % (1 << 32)

    def rests(self, machine: int, now: float) -> bool:
        """Whether no task is evicted from a machine now, because somebody evicted there a moment ago."""
        return self._backoff.rests(machine, now)
