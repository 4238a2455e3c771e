"""Evictions between pools in the twin: ``lua/parts/shares.lua``, function by function (semantics 33)."""

from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from math import isinf
from urllib.parse import quote

from omega.cellstate.fairness import Assertion, Floor, PoolLoss, Threshold, is_below, is_legal, leaf_of
from omega.cellstate.memory.ledger import Ledger
from omega.cellstate.memory.records import GroupRow, JobRow
from omega.cellstate.model import Gang
from omega.cellstate.resources import Resources


class Stock:
    """Use of the pool of one threshold: when the transaction began, before the open set, and now."""

    __slots__ = ("before", "first", "job", "leaves", "names", "now", "share", "units")

    def __init__(self, threshold: Threshold, held: Resources) -> None:
        """Create before the first set."""
        self.names, self.leaves, self.share = threshold.leaves, frozenset(threshold.leaves), threshold.share
        self.job = threshold.job
        self.first = self.before = self.now = held
        self.units: list[Resources] = []

    def add(self, amounts: Resources, sign: int = 1) -> None:
        """Add or subtract use."""
        self.now = tuple(has + sign * amount for has, amount in zip(self.now, amounts, strict=True))


class FloorStock:
    """Use of a job with a floor: when the transaction began, and now."""

    __slots__ = ("first", "floor", "now")

    def __init__(self, floor: Floor, held: Resources) -> None:
        """Create before the first set."""
        self.floor, self.first, self.now = floor, held, held

    def lose(self, amounts: Resources) -> None:
        """Subtract use."""
        self.now = tuple(has - amount for has, amount in zip(self.now, amounts, strict=True))

    def keeps(self) -> bool:
        """Return whether the job lost nothing, or keeps its floor."""
        return self.now == self.first or self.floor.holds(self.now)


class Stocks:
    """The assertion of one transaction during its validation; `own`: the job belongs to the evictor's pool."""

    def __init__(self, assertion: Assertion, ledger: Ledger, job: JobRow) -> None:
        """Read the use of every named pool."""
        evictor, self.job = assertion.evictor, job
        if evictor.job:
            self.evictor, self.own = Stock(evictor, _held_by(ledger, evictor.job)), job.id == evictor.job
        else:
            self.evictor = Stock(evictor, _held(ledger, evictor.leaves))
            self.own = leaf(job) in self.evictor.leaves
        self.victims = [Stock(each, _held(ledger, each.leaves)) for each in assertion.victims]
        self.floors = [FloorStock(each, _held_by(ledger, each.job)) for each in assertion.floors]
        self.gone = set[str]()
        self.away: dict[str, list[GroupRow]] = {}
        """The tasks counted of each strict gang, by their group."""

    def covers(self, victim: JobRow, rank: int) -> bool:
        """Return whether there is a floor for the victim's job, or a threshold for its pool.

        Within a pool a floor covers no task of a higher precedence (`rank`); a pool that is part of the evictor's is
        not covered.
        """
        name = leaf(victim)
        within = name == leaf(self.job)
        protected = victim is self.job or (within and rank > self.job.precedence)
        if not protected and any(each.floor.job == victim.id for each in self.floors):
            return True
        return name not in self.evictor.leaves and any(name in each.leaves for each in self.victims)

    def below(self, g: GroupRow) -> bool:
        """Return whether the evictor's pool is below its share in every resource that a task of the group needs."""
        return self.own and is_below(self.evictor.before, self.evictor.share, g.amounts)

    def legal(self) -> bool:
        """Return whether the use counted since the last set is legal as one set."""
        e = self.evictor
        taken = tuple(now - before for now, before in zip(e.now, e.before, strict=True))
        losses = [PoolLoss(each.before, each.share, each.units) for each in self.victims if each.units]
        kept = all(each.keeps() for each in self.floors)
        return self.own and kept and is_legal(e.before, e.share, taken, losses)

    def close(self) -> None:
        """Close the set; the next one begins."""
        for each in (self.evictor, *self.victims):
            each.before, each.units = each.now, []

    def count(self, g: GroupRow, groups: Iterable[GroupRow]) -> Callable[[], None]:
        """Count a task of the evictor and its victims; return a function that undoes it.

        What goes with a task of a strict gang is one unit with it.
        """
        gone, away = set(self.gone), {job: list(groups) for job, groups in self.away.items()}
        was = [(each, each.now, len(each.units)) for each in (self.evictor, *self.victims)]
        floors = [(each, each.now) for each in self.floors]

        def undo() -> None:
            self.gone, self.away = gone, away
            for each_floor, amounts in floors:
                each_floor.now = amounts
            for each, now, units in was:
                each.now = now
                del each.units[units:]

        self.evictor.add(g.amounts)
        for group in groups:
            job = group.job
            if job.id in self.gone:
                continue
            unit = self._unit(group)
            if leaf(job) in self.evictor.leaves:
                self.evictor.add(unit, -1)
            for each in self.victims:
                if leaf(job) in each.leaves:
                    each.add(unit, -1)
                    each.units.append(unit)
            for each_floor in self.floors:
                if each_floor.floor.job == job.id:
                    each_floor.lose(unit)
        return undo

    def _unit(self, group: GroupRow) -> Resources:
        """Return what the eviction of a task counts: of a strict gang that it leaves with too few, all the rest."""
        job = group.job
        if job.gang is not Gang.STRICT:
            return group.amounts
        before = self.away.setdefault(job.id, [])
        before.append(group)
        if not job.breaks(job.placed - len(before)):
            return group.amounts
        self.gone.add(job.id)
        lost = (sum(column) for column in zip(*(each.amounts for each in before[:-1]), strict=True))
        parts = zip_longest(_whole(job), lost, fillvalue=0)
        return tuple(whole - gone for whole, gone in parts)

    def fact(self, job_id: str) -> tuple[str, ...]:
        """Return the fact for the audit: for each pool its leaves, its use before and after, its share; so for jobs."""
        pools = (_words(each) for each in (self.evictor, *self.victims))
        return "assert", job_id, *pools, *(_floor_words(each) for each in self.floors if each.now != each.first)


def leaf(job: JobRow) -> str:
    """Return the leaf pool of a job, by the name of its lane."""
    return leaf_of(job.lane.lane.pool, job.lane.lane.user)


def _held(ledger: Ledger, leaves: Sequence[str]) -> Resources:
    """Return the pools' use: their lanes before this call, and its changes."""
    names, sums = frozenset(leaves), [0] * len(ledger.dimensions)
    for lane in ledger.L.values():
        if leaf_of(lane.lane.pool, lane.lane.user) in names:
            for d, amount in enumerate(ledger.spread(lane.held)):
                sums[d] += amount
    for job in ledger.changed_jobs:
        if leaf(job) in names:
            for group in job.groups:
                for d, need in enumerate(group.amounts):
                    sums[d] += need * (group.placed - group.held)
    return tuple(sums)


def _held_by(ledger: Ledger, name: str) -> Resources:
    """Return what a job holds now; nothing for an unknown one."""
    job = ledger.J.get(name)
    return (0,) * len(ledger.dimensions) if job is None else _whole(job)


def _whole(job: JobRow) -> Resources:
    size = len(job.groups[0].amounts)
    return tuple(sum(group.amounts[d] * group.placed for group in job.groups) for d in range(size))


def _words(stock: Stock) -> str:
    leaves = f"={stock.job}" if stock.job else "".join(f"{quote(name, safe='')}," for name in stock.names)
    return ";".join((leaves, *_amounts(stock.first, stock.now), ",".join(f"{amount:.17g}" for amount in stock.share)))


def _floor_words(stock: FloorStock) -> str:
    floor = stock.floor
    least = ",".join("-" if isinf(amount) else f"{amount:.17g}" for amount in floor.amounts)
    return ";".join((f"{'+' if floor.every else '='}{floor.job}", *_amounts(stock.first, stock.now), least))


def _amounts(*vectors: Resources) -> list[str]:
    return [",".join(map(str, vector)) for vector in vectors]
