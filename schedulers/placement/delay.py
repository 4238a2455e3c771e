"""Delay scheduling round any placement (Zaharia et al., EuroSys 2010): wait for machines with a job's data.

A job passes from one level to the next, the last of which is any machine, after a number of refused offers (Algorithm 2
of the paper, D) or after a time (the form of its Hadoop Fair Scheduler, W1 and W2).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from math import inf
from random import Random
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.constraints.evaluation import Mask
from omega.cellstate.errors import BadInput
from omega.cellstate.model import Gang
from omega.cellstate.override import override
from omega.cellstate.snapshot import Snapshot
from omega.cellstate.transaction import Claim
from omega.schedulers.constrained import within_constraints
from omega.schedulers.constraints.enforcing import permitted
from omega.schedulers.constraints.locality import FIELD, Locality, is_local, locality
from omega.schedulers.constraints.locality_levels import levels
from omega.schedulers.fitting import fitting
from omega.schedulers.placement.domains import places_of
from omega.schedulers.placement.first_fit import FirstFit
from omega.schedulers.policies import Placement, claims_of, declared, place_all_before, with_wrapped
from omega.schedulers.work import Work

NOTE = "omega.delay"
"""The key of its state in `Work.notes`."""


class DelayReset(Enum):
    """What a launch does to the waits that follow."""

    TASK = "task"
    """Nothing: each task waits from its first refused offer, and no wait is begun again."""
    JOB = "job"
    """The job is at the level of the launch again and waits anew, as in the paper."""


@dataclass(slots=True)
class Waiting:
    """How far a job or a task group has waited."""

    level: int = 0
    """The level of the last launch (`DelayReset.JOB`)."""
    since: float | None = None
    """Time of the first refused offer (seconds) since it began to wait; None before that."""
    skips: int = 0
    """Number of refused offers since then."""


@dataclass(frozen=True, slots=True)
class DelayRule:
    """When a job passes a level. `skips`: refused offers per level; None: it waits for the time of each level.

    It is pure arithmetic on a `Waiting`, so a simulation of slots can use it with levels of its own.
    """

    skips: tuple[int, ...] | None = None
    reset: DelayReset = DelayReset.TASK

    def reached(self, waiting: Waiting, waits: Sequence[float], now: float) -> tuple[int, float]:
        """Return the worst level that is allowed now, and when the next one will be (seconds; infinite if unknown).

        `waits` are the times of the levels but the last (seconds).
        """
        level, last, since = waiting.level, len(waits), waiting.since
        if self.skips is not None:
            passed = 0
            while level < last:
                passed += self.skips[level] if level < len(self.skips) else 0
                if waiting.skips < passed:
                    break
                level += 1
            return level, inf
        if since is None:
            while level < last and waits[level] <= 0:
                level += 1
            return level, inf
        until = since
        while level < last:
            until += waits[level]
            if now < until:
                break
            level += 1
        return level, until

    def takes(self, waiting: Waiting, level: int, waits: Sequence[float], now: float) -> bool:
        """Return whether one offer at a level is taken at a time (seconds), and record the launch or the refusal."""
        if level > waiting.level:
            if self.reset is DelayReset.TASK and level <= self.reached(waiting, waits, now)[0]:
                return True
            self.refused(waiting, now)  # a launch of the job makes up for it
            if level > self.reached(waiting, waits, now)[0]:
                return False
        self.launched(waiting, level)
        return True

    def refused(self, waiting: Waiting, now: float, offers: int = 1) -> None:
        """Record that a job refused so many offers of free room at a time (seconds)."""
        waiting.skips += offers
        if waiting.since is None:
            waiting.since = now

    def launched(self, waiting: Waiting, level: int) -> None:
        """Record that a task was placed at a level."""
        if self.reset is DelayReset.JOB:
            waiting.level, waiting.since, waiting.skips = level, None, 0


@dataclass(slots=True)
class _Waits:
    """The state of a job: by group, or for all of them under -1 (`DelayReset.JOB`)."""

    of: dict[int, Waiting] = field(default_factory=dict)
    claimed: tuple[int, int] | None = None
    """Tasks that were placed before the last claims, and the level of these claims."""
    offers: dict[int, tuple[float, frozenset[int]]] = field(default_factory=dict)
    """By group, the machines whose offers were counted since a time (seconds)."""

    def waiting(self, group: int, reset: DelayReset) -> Waiting:
        """Return how far a group has waited, or its whole job."""
        key = -1 if reset is DelayReset.JOB else group
        found = self.of.get(key)
        if found is None:
            found = self.of[key] = Waiting()
        return found


def _waits(work: Work) -> _Waits:
    """Return the state of a job."""
    state: _Waits | None = work.notes.get(NOTE)
    if state is None:
        state = work.notes[NOTE] = _Waits()
    return state


@dataclass(frozen=True, slots=True)
class Delay(Placement):
    """`inner` places each group on machines with its data, after a wait near them, after another one anywhere.

    The levels and waits are those of the field `locality`. A wait begins when a group leaves room that it could use at
    another level. With `skips`, a group passes a level after so many refused offers of such room instead. A machine
    with room offers it once in `again` seconds, as with a heartbeat of the paper's system.
    Every scheduler wraps its placement so, unless that names `locality` in `reads` (`within_locality`).
    """

    inner: Placement = field(default_factory=FirstFit)
    skips: tuple[int, ...] | None = None
    reset: DelayReset = DelayReset.TASK
    again: float = 3.0
    rule: DelayRule = field(init=False, repr=False, compare=False)
    """The rule by which levels are passed."""

    reads: ClassVar[tuple[str, ...]] = (FIELD,)

    def __post_init__(self) -> None:
        if self.skips is not None and any(each < 0 for each in self.skips):
            raise BadInput(f"skips: {list(self.skips)} is not allowed; want numbers of at least 0")
        if not self.again > 0:
            raise BadInput(f"again: {self.again} is not allowed; want more than 0 seconds")
        object.__setattr__(self, "rule", DelayRule(self.skips, self.reset))

    def wants(self, work: Work, group: int) -> Locality | None:
        """Return where the data of a group are and how long it waits; None when it has none."""
        return locality(work.job, group)

    def levels(self, wants: Locality, snapshot: Snapshot) -> Sequence[Mask]:
        """Return the machines of each level but the last, each with those of the levels before it."""
        return levels(wants, snapshot)

    @override
    def place(self, work: Work, snapshot: Snapshot, rng: Random) -> Sequence[Claim]:
        if not (work.job.spec and _has_locality(work)):
            return self.inner.place(work, snapshot, rng)
        wants = {group: wants for group, left in enumerate(work.left) if left and (wants := self.wants(work, group))}
        if not wants:
            return self.inner.place(work, snapshot, rng)
        return _Attempt(self, work, snapshot, rng, wants).claims()

    def waiting(self, work: Work, group: int) -> Waiting:
        """Return how far a group has waited, for `rule`: callers that offer single slots need no search of machines."""
        return _waits(work).waiting(group, self.reset)

    def place_all(
        self, works: Sequence[Work], snapshot: Snapshot, rng: Random, most: int
    ) -> tuple[list[Sequence[Claim]], int]:
        """Return the claims of the first jobs without locality, as far as the inner placement places jobs together."""
        return place_all_before(self.inner, _has_locality, works, snapshot, rng, most)


class _Attempt:
    """One attempt of a job with locality; groups and levels are numbers."""

    def __init__(self, delay: Delay, work: Work, snapshot: Snapshot, rng: Random, wants: dict[int, Locality]) -> None:
        self.delay, self.work, self.snapshot, self.rng, self.wants = delay, work, snapshot, rng, wants
        self.rule, self.left, self.places = delay.rule, list(work.left), dict(places_of(work, snapshot))
        self.masks = {group: delay.levels(each, snapshot) for group, each in wants.items()}
        self.waits = _waits(work)
        self._count_launch()
        self.allowed = {group: self._reached(group)[0] for group in wants}

    def claims(self) -> Sequence[Claim]:
        """Return the claims that the levels allow now; without any, the job's next time (`Work.until`) is set."""
        while not (claims := self._claims()):
            before = self.allowed
            self._wait()
            self.allowed = {group: self._reached(group)[0] for group in self.wants}
            if self.allowed == before:
                return []
            self.work.resume()  # the refused offers were the last ones of a level
        return claims

    def _claims(self) -> Sequence[Claim]:
        work, start, known = self.work, self.snapshot.mark(), self.snapshot.placed
        try:
            claims, level = self._at_levels()
            for group, left in enumerate(self.left):
                if left and group not in self.wants:
                    claims += self._placed(group, None)
        finally:
            self.snapshot.placed = known
        if work.remaining - sum(self.left) < work.least:
            self.snapshot.undo(start)
            claims, self.left = [], list(work.left)
        if claims:
            self.waits.claimed = work.placed, level
        return claims

    # Waits

    def _waiting(self, group: int) -> Waiting:
        return self.delay.waiting(self.work, group)

    def _reached(self, group: int) -> tuple[int, float]:
        return self.rule.reached(self._waiting(group), self.wants[group].waits, self.snapshot.now)

    def _count_launch(self) -> None:
        """Count the last claims as launched, if some of them were accepted."""
        claimed, self.waits.claimed = self.waits.claimed, None
        if claimed is not None and self.work.placed > claimed[0] and claimed[1] >= 0:
            for waiting in self.waits.of.values():
                self.rule.launched(waiting, claimed[1])

    def _wait(self) -> None:
        """Begin or go on with the waits of the groups that left room; set until when, where and at which level."""
        work, snapshot, untils = self.work, self.snapshot, list[float]()
        names, awaits = [""] * len(self.left), dict[int, NDArray[np.intp]]()
        for group, wants in self.wants.items():
            level = self.allowed[group]
            if not self.left[group] or level == len(wants.waits):
                continue
            mask, waiting = self.masks[group][level], self._waiting(group)
            others = self._with_room(group, mask)
            if len(others):
                self.rule.refused(waiting, snapshot.now, self._new_offers(group, others))
            if waiting.since is None:
                continue  # it has refused nothing: any room that it could use begins its wait
            if self.rule.skips is not None:
                untils.append(self._next_offers(group))
            else:
                untils.append(self._reached(group)[1])
                awaits[group] = np.flatnonzero(mask)
            names[group] = wants.name(level)
        if untils:
            work.until = min(untils)
            work.delayed_at(names, awaits, snapshot.attributes.version)

    def _with_room(self, group: int, mask: Mask) -> NDArray[np.intp]:
        """Return the other machines with room for a task of a group that may run there."""
        may = permitted(self.work, group, self.snapshot) if self.snapshot.attributes.used else None
        free = (fitting(self.snapshot.room, self.work.need(group), 1) > 0) & ~mask
        return np.flatnonzero(free if may is None else free & may)

    def _next_offers(self, group: int) -> float:
        """Return when idle machines offer their room again (seconds)."""
        since, now, again = self.waits.offers[group][0], self.snapshot.now, self.delay.again
        return since + again if since + again > now else now + again

    def _new_offers(self, group: int, machines: NDArray[np.intp]) -> int:
        """Count the offers of these machines; return how many were not counted in the last `again` seconds."""
        if self.rule.skips is None:
            return len(machines)
        now, offers = self.snapshot.now, self.waits.offers
        since, known = offers.get(group, (now, frozenset[int]()))
        if now >= since + self.delay.again:
            since, known = now, frozenset()
        offered = known.union(machines.tolist())
        offers[group] = since, offered
        return len(offered) - len(known)

    # Claims

    def _at_levels(self) -> tuple[list[Claim], int]:
        """Place the groups with locality, nearest machines first; return the claims and the worst level of them."""
        claims, worst = list[Claim](), -1
        for level in range(max(self.allowed.values()) + 1):
            for group, wants in self.wants.items():
                if not self.left[group] or self.allowed[group] < level:
                    continue
                placed = self._placed(group, self.masks[group][level] if level < len(wants.waits) else None)
                worst = level if placed else worst
                claims += placed
            if claims and self.delay.reset is DelayReset.JOB and not self.work.gang:
                break  # the job is at this level again
        return claims, worst

    def _placed(self, group: int, mask: Mask | None) -> Sequence[Claim]:
        """Place what is left of a group on the machines in a mask, None: on all; as many tasks as fit."""
        work, snapshot = self.work, self.snapshot
        if mask is not None and not fitting(snapshot.room, work.need(group), 1)[mask].any():
            return ()
        left = [count if other == group else 0 for other, count in enumerate(self.left)]
        job = replace(work.job, gang=Gang.NO, gang_min=0) if work.job.gang is not Gang.NO else work.job
        part = replace(work, job=job, left=left, places=dict(self.places), admitted=None)
        if work.id in snapshot.placed:
            snapshot.placed = {**snapshot.placed, work.id: dict(self.places)}
        inner = self.delay.inner
        placed = claims_of(inner, inner.place(part, snapshot if mask is None else snapshot.narrow(mask), self.rng))
        for claim in placed:
            self.left[group] -= claim.count
            self.places[claim.machine] = self.places.get(claim.machine, 0) + claim.count
        return placed


def _has_locality(work: Work) -> bool:
    return bool(work.job.spec) and is_local(work.job)


def within_locality(placement: Placement) -> Placement:
    """Return a placement that applies constraints and locality: the given one, wrapped unless it does so itself.

    A placement that names `locality` in `reads`, or wraps one that does, applies it itself.
    """
    if isinstance(placement, Delay):
        return replace(placement, inner=within_constraints(placement.inner))
    within = within_constraints(placement)
    if any(FIELD in (declared("reads", each) or ()) for each in with_wrapped(placement)):
        return within
    return Delay(within)
