"""How the jobs of a pool stand: the shares of the published epoch, and what they hold since (docs/pool-rules.md).

Shares, demand and usage are parts of the tree's totals, by resource.

`PoolWatch` is what a scheduler saw of pools from decision to decision.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, inf
from typing import NamedTuple

import numpy as np

from omega.cellstate.fairness import is_below
from omega.cellstate.pools import Epoch, Leaf
from omega.cellstate.pools.records import Rows
from omega.cellstate.resources import Resources
from omega.cellstate.snapshot import Snapshot
from omega.schedulers.fairshare.curves import Floats
from omega.schedulers.fairshare.satisfaction import (
    EPSILON,
    Bounds,
    Stand,
    Starvation,
    StarvationRules,
    Status,
    is_below_fair_share,
)
from omega.schedulers.fairshare.standings import BOUNDLESS, EpochShares, Situation, Standings
from omega.schedulers.work import Work

SETTLED_SECONDS = 5.0
"""How long a pool that was below its share keeps its tasks, and a task runs, before another pool or job evicts it."""
_HELD = "held at the epoch"
"""Where a job's unplaced tasks at the first look at an epoch stand among its notes."""


class _Shortage(NamedTuple):
    """A pool below its share: its use of what it lacked (infinite: of the rest), the time, and whether it lasts."""

    held: tuple[float, ...]
    at: float
    lasts: bool = True


class _Search(NamedTuple):
    """A search for victims in vain: how pools stood, when time alone may help, its time, the machines' changes then."""

    situation: Situation
    retry: float
    at: float
    changes: int


@dataclass(slots=True)
class PoolWatch:
    """The stand of pools as one scheduler saw it; times in seconds."""

    _shortages: dict[str, _Shortage] = field(default_factory=dict)
    _lacking: dict[str, dict[tuple[float, ...], float]] = field(default_factory=dict)
    """By pool and unit (a task, a gang): since when it fits under the share of the pool; infinite when it does not."""
    _searches: dict[tuple[str, Hashable], _Search] = field(default_factory=dict)
    """The last search in vain for a pool, by the shape of the job."""

    def rest(self) -> None:
        """Record that no pool with jobs of this scheduler is below its share."""
        if self._lacking:
            self._lacking = {}

    def look(self, standings: Standings) -> None:
        """Record the pools that stand below their shares now, and those that no longer do."""
        now = standings.snapshot.now
        for name, units in list(self._lacking.items()):
            for unit in units:
                self.follow(name, unit, standings)
            if min(units.values()) == inf:
                del self._lacking[name]
        for name in standings.below:
            used, due = standings.used(name), standings.shares.due(name)
            # A resource without a total has no share to lack.
            lacks = any(has < part < BOUNDLESS for has, part in zip(used, due, strict=True))
            wants = standings.wanted(name) if lacks else ()
            # As for evictions: below its share is a pool that is below it in each resource that its tasks need.
            if any(wants) and is_below(used, due, wants):
                amounts = zip(used, due, wants, strict=True)
                held = tuple(has if want and has < part < BOUNDLESS else inf for has, part, want in amounts)
                if min(held) < inf:
                    self._shortages[name] = _Shortage(held, now)
                    continue
            known = self._shortages.get(name)
            if known is not None and known.lasts:
                self._shortages[name] = _Shortage(known.held, now, lasts=False)
            elif known is not None and known.at + SETTLED_SECONDS <= now:
                del self._shortages[name]

    def follow(self, name: str, unit: Sequence[float], standings: Standings) -> None:
        """Record whether a unit fits under the share of a pool now, and from now on at each look."""
        since = self._lacking.get(name, {}).get(tuple(unit), inf)
        fits = standings.has_room(name, unit)
        self._lacking.setdefault(name, {})[tuple(unit)] = min(since, standings.snapshot.now) if fits else inf

    def lacking_since(self, name: str, unit: Sequence[float]) -> float:
        """Return since when a pool has lacked a unit that it follows; infinite when none fits under its share."""
        return self._lacking.get(name, {}).get(tuple(unit), inf)

    def gained(self, name: str, now: float) -> None:
        """Record that this scheduler evicted tasks for a pool, and that others of its jobs may do the same."""
        known = self._shortages.get(name)
        if known is not None:
            self._shortages[name] = known._replace(at=now)
        self._searches = {key: each for key, each in self._searches.items() if key[0] != name}

    def settled_at(self, name: str, standings: Standings) -> float:
        """Return when a pool may lose tasks to others: some time after it stood below the share that it has now."""
        known, due = self._shortages.get(name), standings.shares.due(name)
        if known is None or all(has >= part for has, part in zip(known.held, due, strict=True)):
            return 0.0
        return known.at + SETTLED_SECONDS

    def searched(self, name: str, shape: Hashable, standings: Standings, retry: float = inf) -> None:
        """Record that jobs of a shape found no victims for a pool; `retry`: when time alone may help."""
        snapshot = standings.snapshot
        self._searches[name, shape] = _Search(standings.situation(name), retry, snapshot.now, snapshot.changes)

    def vain_until(self, name: str, shape: Hashable, standings: Standings) -> float:
        """Return until when another search finds no victims: nothing changed since the last one that could help.

        0 when it may find some. Changes of machines alone count some time after the last search.
        """
        known, snapshot = self._searches.get((name, shape)), standings.snapshot
        if known is None or snapshot.now >= known.retry:
            return 0.0
        if snapshot.changes != known.changes and snapshot.now >= known.at + SETTLED_SECONDS:
            return 0.0
        return 0.0 if standings.improved(name, known.situation) else known.retry

    def stirs(self, name: str, standings: Standings) -> bool:
        """Whether jobs of a pool that may evict are to be tried again, by what changed since this was true last."""
        if self.vain_until(name, None, standings):
            return False
        self.searched(name, None, standings)
        return standings.any_above(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStand:
    """A job: fair share, demand and usage as parts of the totals, and the totals in smallest units."""

    share: Floats
    demand: Floats
    usage: Floats
    totals: Floats

    def parts(self, amounts: Sequence[float]) -> Floats:
        """Return amounts as parts of the totals; 0 where there is nothing."""
        parts: Floats = np.array(amounts, dtype=float) / np.where(self.totals > 0, self.totals, np.inf)
        return parts

    def wanting(self, unit: Floats) -> Stand:
        """Return how the job stands for starvation, given the least unit that it wants next."""
        return Stand(share=self.share, demand=self.demand, usage=self.usage, unit=unit, job=True)

    def amounts(self, parts: Floats, otherwise: float = 0.0) -> tuple[float, ...]:
        """Return parts of the totals as amounts to 9 digits: infinite parts infinite, `otherwise` without a total."""
        return tuple(
            float("inf") if np.isinf(part) else float(f"{part * total:.9g}") if total else otherwise
            for part, total in zip(parts.tolist(), self.totals.tolist(), strict=True)
        )


@dataclass(slots=True)
class _Lost:
    """Tasks that this scheduler evicted of a job; `version` of the cell by which they were gone, None: not seen yet."""

    job: str
    amounts: Resources
    version: int | None = None


class _Index:
    """The places of the jobs of an epoch by id, and of its leaves by pool: a leaf itself is read when it is needed."""

    def __init__(self, epoch: Epoch) -> None:
        self.epoch = epoch
        self.of: dict[str, tuple[str, int]] = {}
        self._pools: dict[str, list[tuple[str, int]]] = {}
        self.contested: dict[tuple[str, float], bool] = {}
        pool, jobs = Leaf._fields.index("pool"), Leaf._fields.index("jobs")
        for tree, leaves in epoch.leaves.items():
            rows = leaves.rows if isinstance(leaves, Rows) else leaves
            for number, row in enumerate(rows):
                place = tree, number
                self._pools.setdefault(row[pool], []).append(place)
                self.of.update(dict.fromkeys(row[jobs], place))

    def leaf(self, place: tuple[str, int]) -> tuple[Leaf, Sequence[float], Resources]:
        """Return a leaf, its share, and the totals of its tree."""
        tree, number = place
        return self.epoch.leaves[tree][number], self.epoch.leaf_shares[tree][number], self.epoch.totals[tree]

    def leaves(self, pool: str) -> Iterator[tuple[Leaf, Sequence[float], Resources]]:
        """Yield the leaves of a pool."""
        return map(self.leaf, self._pools.get(pool, ()))


@dataclass(slots=True)
class JobStandings:
    """The standings of jobs, one object for each scheduler; starvation of jobs is followed from attempt to attempt."""

    starving: Starvation = field(default_factory=Starvation)
    _victims: Starvation = field(default_factory=Starvation)
    """Of jobs that may lose tasks, followed from plan to plan."""
    _rules: dict[str, StarvationRules] = field(default_factory=dict)
    _units: dict[str, Floats] = field(default_factory=dict)
    _lost: list[_Lost] = field(default_factory=list)
    _left: dict[str, tuple[int, float]] = field(default_factory=dict)
    """Unplaced tasks of jobs of this scheduler at the last look, and when they were more than at the one before."""
    _index: _Index | None = None

    def __post_init__(self) -> None:
        self.starving.rules = self._victims.rules = self._rules

    def index(self, epoch: Epoch) -> _Index:
        """Return the jobs of an epoch; kept until the next one."""
        if self._index is None or self._index.epoch is not epoch:
            self._index = _Index(epoch)
            for starving in (self.starving, self._victims):
                for name in [name for name in starving.followed() if name not in self._index.of]:
                    starving.forget(name)
            self._rules = {name: rules for name, rules in self._rules.items() if name in self._index.of}
            self._left = {name: left for name, left in self._left.items() if name in self._index.of}
            self.starving.rules = self._victims.rules = self._rules
        return self._index

    def of(self, epoch: Epoch, job: str) -> JobStand | None:
        """How a job stands, without what this scheduler evicted of it since the epoch; None for an unknown one."""
        place = self.index(epoch).of.get(job)
        if place is None:
            return None
        leaf, share, amounts = self.index(epoch).leaf(place)
        totals = np.array(amounts, dtype=float)
        stand = JobStand(
            share=np.array(share), demand=np.zeros(len(totals)), usage=np.zeros(len(totals)), totals=totals
        )
        lost = [each.amounts for each in self._lost if each.job == job]
        used = [max(0, has - sum(each[d] for each in lost)) for d, has in enumerate(leaf.usage)]
        return replace(stand, demand=stand.parts(leaf.demand), usage=stand.parts(used))

    def of_work(self, epoch: Epoch, work: Work) -> JobStand | None:
        """How a job of this scheduler stands, with the tasks that it started since the epoch."""
        stand = self.of(epoch, work.id)
        if stand is None:
            return None
        number, left = work.notes.get(_HELD, (0, ()))
        if number != epoch.number or len(left) != len(work.left):
            left = tuple(work.left)
            work.notes[_HELD] = epoch.number, left
        size = len(stand.totals)
        more = [0] * size
        for group, (was, now) in enumerate(zip(left, work.left, strict=True)):
            for d, amount in enumerate(work.need(group)):
                more[d] += amount * max(0, was - now)
        return replace(stand, usage=stand.usage + stand.parts(more))

    def status(self, work: Work, shares: EpochShares, rules: StarvationRules, now: float) -> Status:
        """Follow the state of a job; `rules`: those of its pool (`Starvation.rules`)."""
        stand = self.of_work(shares.epoch, work)
        if stand is None:
            return Status.NORMAL
        need = next((work.need(group) for group, left in enumerate(work.left) if left), ())
        self._rules[work.id] = rules
        self._units[work.id] = unit = stand.parts(need) if need else np.zeros(len(stand.totals))
        self.starving.update(now, work.id, stand.wanting(unit))
        left, lost_at = self._left.get(work.id, (work.remaining, -inf))
        self._left[work.id] = work.remaining, now if work.remaining > left else lost_at
        settled = self._settled_at(work.id, self.starving.since(work.id) or now) <= now
        return self.starving.status(work.id) if settled else Status.NORMAL

    def _settled_at(self, job: str, since: float) -> float:
        """When a job that is below its share since then may evict: no task that it lost starts again at once."""
        return max(since, self._left.get(job, (0, -inf))[1]) + SETTLED_SECONDS

    def due(self, job: str) -> float | None:
        """When a job that is below its share may evict within its pool (seconds); None when it is not, or may."""
        since, due = self.starving.since(job), self.starving.due(job)
        if since is None:
            return None
        return max(self._settled_at(job, since), since if due is None else due)

    def victim_starves(self, job: str, stand: JobStand, rules: StarvationRules, now: float) -> bool:
        """Follow the state of a job that may lose tasks; it loses none while it starves itself."""
        self._rules[job] = rules
        self._victims.update(now, job, stand.wanting(np.zeros(len(stand.share))))
        return self._victims.status(job) > Status.NORMAL

    def tasks_due(self, epoch: Epoch, job: str, need: Resources) -> float | None:
        """How many tasks of this need the share of a job holds; None for an unknown job."""
        place = self.index(epoch).of.get(job)
        if place is None:
            return None
        _, share, totals = self.index(epoch).leaf(place)
        of = zip(share, totals, need, strict=True)
        return min((part * total / amount for part, total, amount in of if amount), default=0.0)

    def lacking(self, epoch: Epoch, work: Work, need: Resources) -> int | None:
        """How many tasks a job of this scheduler lacks to its share; None for an unknown job."""
        stand = self.of_work(epoch, work)
        if stand is None:
            return None
        missing = ((stand.share - stand.usage) * stand.totals).tolist()
        return min(
            (ceil(amount / each - EPSILON) for amount, each in zip(missing, need, strict=True) if each), default=0
        )

    def lost(self, job: str, amounts: Resources) -> None:
        """Record tasks of a job that this scheduler evicted and that the published epoch still counts."""
        self._lost.append(_Lost(job, amounts))

    def observe(self, snapshot: Snapshot, now: float) -> None:
        """Drop the evictions that the epoch contains; jobs that reached their share by a new epoch begin anew."""
        epoch = snapshot.epoch
        if epoch is None:
            return
        if self._index is not None and self._index.epoch is not epoch and self.starving.followed():
            self.index(epoch)
            for job in self.starving.followed():
                stand = self.of(epoch, job)
                if stand is not None:
                    self.starving.update(now, job, stand.wanting(self._units[job]))
        for each in self._lost:
            if each.version is None:
                each.version = snapshot.position.version
        # One of a later version than the snapshot was lost with it (semantics 16).
        now = snapshot.position.version
        self._lost = [each for each in self._lost if each.version is None or epoch.version < each.version <= now]

    def contested(self, epoch: Epoch, pool: str, threshold: float) -> bool:
        """Whether some job of a pool holds more than a multiple of its share, by the epoch."""
        index = self.index(epoch)
        known = index.contested.get((pool, threshold))
        if known is None:
            known = any(
                total > 0 and has > part * total * threshold + EPSILON
                for leaf, share, totals in index.leaves(pool)
                for has, part, total in zip(leaf.usage, share, totals, strict=True)
            )
            index.contested[pool, threshold] = known
        return known

    def below_share(self, epoch: Epoch, pool: str, tolerance: float) -> Iterator[str]:
        """Yield the jobs of a pool that are below their shares by the epoch."""
        for leaf, _, _ in self.index(epoch).leaves(pool):
            stand = self.of(epoch, leaf.jobs[0])
            if stand is not None and is_below_fair_share(stand.share, stand.demand, stand.usage, tolerance, job=True):
                yield from leaf.jobs


def bounds_of(
    stand: JobStand, *, threshold: float, aggressive: float, protected: dict[str, int], names: Sequence[str]
) -> Bounds:
    """Return what a job keeps, by the settings of its pool; `names`: all resources.

    `protected`: amounts below which it is left alone; if there are any, a resource that is not named protects always.
    """
    guard = stand.parts([protected.get(name, 0) for name in names])
    if protected:
        guard[[name not in protected for name in names]] = inf
    return Bounds(stand.share, stand.demand, ordinary=threshold, aggressive=aggressive, guard=guard)
