"""Preemption of Hadoop's Fair Scheduler: pools below their shares for a time take the room of the youngest tasks.

Source: Zaharia et al., EuroSys 2010, section 2 (docs/hadoop.md). Amounts are in the cell's smallest units.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from random import Random
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

import omega

from .hadoop import HadoopPools, leaf_pool

LOOK_SECONDS = 1.0
"""Time in seconds for which computed fair shares hold."""
_PLAN = "evictions of Hadoop's Fair Scheduler"
"""Where a job's plan stands among its notes, until its transaction is made."""


@dataclass(slots=True, kw_only=True)
class HadoopPreemption(omega.Preemption):
    """Evict the youngest tasks of pools above their fair share, for pools that stay below their own.

    A pool below its minimum share for `minimum_timeout` seconds may evict up to that. One below `fraction` of its fair
    share for `fair_timeout` seconds may evict up to its fair share. Strict gangs lose no tasks, and for gangs nothing
    is evicted: Hadoop has none. While the cell has no pools, victims also have a lower precedence (semantics 33).
    `looks` machines are fetched per attempt.
    """

    by: ClassVar[str] = "fair share"
    reads: ClassVar[tuple[str, ...]] = ()

    minimum_timeout: float = 60.0
    fair_timeout: float = 600.0
    fraction: float = 0.5
    looks: int = 256
    _pools: HadoopPools = field(default_factory=HadoopPools, repr=False)
    _shares: dict[str, tuple[float, ...]] = field(default_factory=dict, repr=False)
    """Fair shares of leaf pools, computed at `_at` (seconds)."""
    _at: float | None = field(default=None, repr=False)
    _below_minimum: dict[str, float] = field(default_factory=dict, repr=False)
    """Since when (seconds) leaf pools have been below their minimum shares."""
    _below_fair: dict[str, float] = field(default_factory=dict, repr=False)
    """Since when (seconds) leaf pools have been below `fraction` of their fair shares."""
    _starving: frozenset[str] = field(default=frozenset(), repr=False)
    _stirred: set[str] = field(default_factory=set, repr=False)
    _unsettled: dict[str, dict[int, int]] = field(default_factory=dict, repr=False)
    """Tasks by placement that are evicted by transactions without an outcome, by the evicting job."""

    def __post_init__(self) -> None:
        for name in ("minimum_timeout", "fair_timeout", "fraction"):
            if not getattr(self, name) >= 0:
                raise omega.BadInput(f"{name} of {getattr(self, name):g}; want 0 or more")
        if self.fraction > 1:
            raise omega.BadInput(f"fraction of {self.fraction:g}; want at most 1")

    # The stand of pools

    def observe(self, snapshot: omega.Snapshot, now: float) -> None:
        """Record which pools are below their shares, and since when."""
        if self._at is None or not self._at <= now < self._at + LOOK_SECONDS:
            self._look(snapshot, now)

    def _look(self, snapshot: omega.Snapshot, now: float) -> None:
        usage = snapshot.usage
        self._pools, self._at = self._pools.seen_by(snapshot), now
        self._shares = self._pools.fair_shares(usage)
        wanted = usage.wanted_by_leaves()
        for leaf in (self._below_minimum.keys() | self._below_fair.keys()) - wanted.keys():
            self._below_minimum.pop(leaf, None), self._below_fair.pop(leaf, None)
        for leaf, wants in wanted.items():
            held = usage.of_leaf(leaf)
            ratio = self._pools.minimum_ratio(leaf, held)
            _since(self._below_minimum, leaf, now, is_below=ratio is not None and ratio < 1.0)
            part = [share * self.fraction for share in self._share(leaf)]
            _since(self._below_fair, leaf, now, is_below=omega.is_below(held, part, wants))
        self._starving = frozenset(leaf for leaf in wanted if self._target(leaf, now) is not None)
        self._stirred |= self._starving

    def _share(self, leaf: str) -> tuple[float, ...]:
        return self._shares.get(leaf) or (0.0,) * len(self._pools.capacity)

    def _target(self, leaf: str, now: float) -> tuple[float, ...] | None:
        """Return the share up to which a pool may evict now; None while it may not."""
        share = self._share(leaf)
        if leaf in self._below_fair and now >= self._below_fair[leaf] + self.fair_timeout:
            return share
        if leaf in self._below_minimum and now >= self._below_minimum[leaf] + self.minimum_timeout:
            least = self._pools.minimum(leaf)
            return tuple(min(part, least.get(d, part)) for d, part in enumerate(share))
        return None

    def stirred(self) -> set[str]:
        """Return, once, the leaf pools whose blocked jobs are to be tried again: they may evict."""
        leaves, self._stirred = self._stirred, set()
        return leaves

    def starving(self) -> dict[str, str]:
        """Return the pools that may evict; other threads may call it."""
        return dict.fromkeys(sorted(self._starving), "starving")

    def entitled(self, leaf: str, snapshot: omega.Snapshot) -> Iterable[str]:
        """Return no job: within a pool nothing is evicted."""
        return ()

    # Decisions

    def suspects(self, work: omega.Work, snapshot: omega.Snapshot, rng: Random) -> list[int] | None:
        if self._plan(work, snapshot) is None:
            return None
        might = _might_hold(work, snapshot)
        if not might.any():
            return None
        unknown = np.flatnonzero(might & ~snapshot.residents.known(snapshot.number)).tolist()
        return unknown if len(unknown) <= self.looks else sorted(rng.sample(unknown, self.looks))

    def place(
        self, work: omega.Work, snapshot: omega.Snapshot, placement: omega.Placement, rng: Random
    ) -> Sequence[omega.Claim]:
        work.notes.pop(_PLAN, None)
        plan = self._plan(work, snapshot)
        claims = [] if plan is None else plan.place(placement, rng)
        if claims:
            work.notes[_PLAN] = plan
        return claims

    def _plan(self, work: omega.Work, snapshot: omega.Snapshot) -> "YoungestTasks | None":
        """Return a plan of evictions for a job; None while its pool may not evict."""
        below = None if snapshot.pools.configured else work.job.precedence
        if work.gang or work.least or not work.remaining or below == 0:
            return None
        self.observe(snapshot, snapshot.now)
        leaf = leaf_pool(work)
        target = self._target(leaf, snapshot.now)
        if target is None:
            return None
        gone: dict[int, int] = {}
        for tasks in self._unsettled.values():
            gone |= {placement: gone.get(placement, 0) + count for placement, count in tasks.items()}
        return YoungestTasks(work, snapshot, target, self._shares, below, gone)

    def assertion(self, work: omega.Work) -> omega.Assertion | None:
        """Return the assertion of the transaction with the claims that `place` just returned for a job."""
        plan: YoungestTasks | None = work.notes.pop(_PLAN, None)
        if plan is None or plan.below is not None:
            return None
        self._unsettled[work.id] = plan.evicted
        lanes = plan.snapshot.lanes.by_leaf()
        evictor, *victims = (
            omega.Threshold((leaf,), share, tuple(lanes.get(leaf, ())))
            for leaf, share in ((plan.leaf, plan.target), *((leaf, plan.shares[leaf]) for leaf in plan.losers))
        )
        return omega.Assertion(evictor, tuple(victims), plan.snapshot.lanes.complete_to)

    def settled(self, transaction: omega.Transaction, outcome: omega.Outcome, now: float) -> None:
        """Process the outcome of a transaction with an assertion."""
        self._unsettled.pop(transaction.job, None)


def _since(times: dict[str, float], leaf: str, now: float, *, is_below: bool) -> None:
    """Record since when a pool has been below a share; a clock that was set back does not lengthen that."""
    if is_below:
        times[leaf] = min(now, times.get(leaf, now))
    else:
        times.pop(leaf, None)


@dataclass(slots=True)
class YoungestTasks:
    """A plan: room for tasks of a job up to the `target` of its pool, by evictions that are legal by `shares`.

    `below`: the precedence below which victims are; None for any. `gone`: tasks by placement that other jobs evict.
    """

    work: omega.Work
    snapshot: omega.Snapshot
    target: tuple[float, ...]
    shares: Mapping[str, tuple[float, ...]]
    below: int | None
    gone: Mapping[int, int]
    leaf: str = ""
    evicted: dict[int, int] = field(default_factory=dict)
    """Tasks by placement."""
    losers: dict[str, None] = field(default_factory=dict)
    """The pools that lose tasks."""
    _of: dict[int, omega.Resident] = field(default_factory=dict)
    _held: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """What pools hold after the planned evictions and placements."""
    _room: dict[int, list[int]] = field(default_factory=dict)
    _group: int = 0

    def __post_init__(self) -> None:
        self.leaf = leaf_pool(self.work)
        self._group = next(group for group, left in enumerate(self.work.left) if left)

    @property
    def _need(self) -> tuple[int, ...]:
        return self.work.need(self._group)

    def place(self, placement: omega.Placement, rng: Random) -> list[omega.Claim]:
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
        claims = placement.place(replace(self.work, left=left, admitted=None), relieved, rng)
        room = {machine: self._free_now(machine) for machine in victims}
        return omega.with_victims(claims, victims, self._of, room, self.work)

    def _choose(self) -> int:
        """Choose victims for one task of the group after the other; return the number of tasks."""
        tasks, most = 0, self.work.left[self._group]
        for first in self._candidates():
            while tasks < most and (chosen := self._for_task(first)) is not None:
                self._carry_out(first.machine, chosen)
                tasks += 1
        return tasks

    def _candidates(self) -> Iterator[omega.Resident]:
        """Tasks on the known machines, the youngest first."""
        known = _might_hold(self.work, self.snapshot) & self.snapshot.residents.known(self.snapshot.number)
        residents = (each for machine in np.flatnonzero(known).tolist() for each in self.snapshot.residents.on(machine))
        yield from sorted(residents, key=lambda each: -each.placement)

    def _left(self, resident: omega.Resident) -> int:
        """Return how many tasks of a run may still go: those of other pools above their fair shares."""
        leaf = leaf_pool(resident)
        if leaf == self.leaf or resident.together or (self.below is not None and resident.precedence >= self.below):
            return 0
        share = self.shares.get(leaf)
        if share is None or not any(
            has > part for has, part, need in zip(self._holds(leaf), share, resident.need, strict=True) if need
        ):
            return 0
        gone = self.gone.get(resident.placement, 0) + self.evicted.get(resident.placement, 0)
        return max(0, resident.tasks - gone)

    def _holds(self, leaf: str) -> tuple[int, ...]:
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
            _add(freed, each.need, self.gone.get(each.placement, 0))
        return freed

    def _for_task(self, first: omega.Resident) -> list[omega.Victim] | None:
        """Return the youngest tasks that make room for one task on a machine; None if there is no such legal set."""
        if not self._left(first):
            return None
        lacking = [amount - free for amount, free in zip(self._need, self._free(first.machine), strict=True)]
        chosen = list[omega.Victim]()
        for resident in sorted(self.snapshot.residents.on(first.machine), key=lambda each: -each.placement):
            useful = [ceil(lack / need) for lack, need in zip(lacking, resident.need, strict=True) if lack > 0 and need]
            count = min(self._left(resident), max(useful, default=0))
            if count > 0:
                chosen.append(omega.Victim(resident, count))
                _add(lacking, resident.need, -count)
        if not chosen or any(amount > 0 for amount in lacking):
            return None
        chosen = omega.without_needless(chosen, lacking)
        return chosen if self._is_legal(chosen) else None

    def _is_legal(self, chosen: Sequence[omega.Victim]) -> bool:
        """Return whether the store accepts the set (semantics 33), after those that were chosen before."""
        units: dict[str, list[tuple[int, ...]]] = {}
        for resident, count in chosen:
            units.setdefault(leaf_pool(resident), []).extend([resident.need] * count)
        losses = [omega.PoolLoss(self._holds(leaf), self.shares[leaf], each) for leaf, each in units.items()]
        return bool(losses) and omega.is_legal(self._holds(self.leaf), self.target, self._need, losses)

    def _carry_out(self, machine: int, chosen: Sequence[omega.Victim]) -> None:
        """Count victims as gone and a task as placed."""
        for resident, count in chosen:
            leaf, free = leaf_pool(resident), self._free(machine)
            self.evicted[resident.placement] = self.evicted.get(resident.placement, 0) + count
            self._of[resident.placement], self.losers[leaf] = resident, None
            self._count(leaf, resident.need, -count)
            _add(free, resident.need, count)
        self._count(self.leaf, self._need, 1)
        _add(self._free(machine), self._need, -1)

    def _count(self, leaf: str, need: tuple[int, ...], tasks: int) -> None:
        held = list(self._holds(leaf))
        _add(held, need, tasks)
        self._held[leaf] = tuple(held)


def _might_hold(work: omega.Work, snapshot: omega.Snapshot) -> NDArray[np.bool_]:
    """Return the machines that take tasks, are not empty, and would hold a task of the job if they were."""
    needs = [work.need(group) for group, left in enumerate(work.left) if left]
    holds = [(snapshot.capacity >= np.array(need, dtype=np.int64)[:, None]).all(axis=0) for need in needs]
    takes = snapshot.up & (snapshot.base[0] >= 0) & snapshot.allocated.any(axis=0)
    might: NDArray[np.bool_] = np.logical_or.reduce(holds) & takes
    return might


def _add(amounts: list[int], need: tuple[int, ...], count: int) -> None:
    """Add the need of `count` tasks to amounts."""
    for d, amount in enumerate(need):
        amounts[d] += amount * count
