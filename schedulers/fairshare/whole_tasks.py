"""The shares of the jobs of a pool as whole tasks: what each may hold, so that together they hold the pool's share.

Every reader of an epoch derives the same numbers from it (docs/shares-of-jobs.md). Amounts are in the
cell's smallest units.
"""

from collections.abc import Sequence
from itertools import groupby
from math import ceil, floor
from operator import attrgetter, sub
from typing import NamedTuple

from omega.cellstate.pools import Leaf
from omega.schedulers.fairshare.standings import EpochShares

PRECEDENCE_SPAN = 1 << 33
"""Factor of `Leaf.start`, which orders jobs by precedence, then by submission."""
Amounts = tuple[float, ...]
_SMALL = 1e-6
_HALVINGS = 40
"""Steps of the search for the part that the jobs of one precedence get of their shares."""


class JobShare(NamedTuple):
    """What a job may hold: its fair share as whole tasks, or what it holds while it wants no more."""

    amounts: Amounts
    ahead: int
    """Number of jobs, in a fair-share pool of precedences, that come first and want more."""
    rivals: bool
    """Whether another job comes at the same time that starts a task for each of its tasks that ends."""
    starting: Amounts
    """What the jobs that come first or at the same time lack to their shares."""


class _Group:
    """The equal jobs of a leaf: what each holds and wants, what is due to it, and the tasks that it may start."""

    def __init__(self, leaf: Leaf, due: Amounts) -> None:
        self.leaf, self.due, self.number, self.start = leaf, due, len(leaf.jobs), leaf.start
        self.demand = leaf.most or leaf.demand
        self.precedence = -(leaf.start // PRECEDENCE_SPAN)
        self.pending = 1 if leaf.gang and leaf.pending else leaf.pending
        """Tasks that it wants; a gang wants all as one, or what its minimum lacks."""
        more = zip(leaf.demand, leaf.usage, strict=True)
        self.unit = [(want - has) / self.pending if self.pending else 0.0 for want, has in more]
        """A task that it wants, on average."""
        self.whole = self.extra = 0
        """Tasks that each may start (negative: that it holds above its share); jobs that may start one more."""
        self.rest = 0.0

    def count(self) -> None:
        """Compute the whole tasks that are due, and what remains of the share."""
        parts = zip(self.due, self.leaf.usage, self.unit, strict=True)
        tasks = min((part - has) / unit for part, has, unit in parts if unit) if any(self.unit) else 0.0
        if self.leaf.least and 0 <= tasks < (lacks := self._lacks()):  # what its minimum lacks it wants as one
            self.pending, self.unit, tasks = 1, [lacks * one for one in self.unit], tasks / lacks
        tasks = min(tasks, self.pending)
        self.whole = floor(tasks + _SMALL)
        self.rest = round(max(0.0, tasks - self.whole), 9)

    def _lacks(self) -> int:
        """Return how many tasks the minimum of a gang lacks."""
        least, parts = self.leaf.least, zip(self.leaf.demand, self.leaf.usage, self.unit, strict=True)
        return ceil(max(((least * want - has) / one for want, has, one in parts if one), default=0.0) - _SMALL)

    def share(self, more: int) -> Amounts:
        """Return what a job holds that starts so many tasks more than the whole ones."""
        tasks = self.whole + more
        return tuple(has + tasks * unit for has, unit in zip(self.leaf.usage, self.unit, strict=True))

    def lasting(self) -> int:
        """Return the number of jobs that want more than their shares, and may start a task for each that ends."""
        number = self.extra if self.pending > self.whole + 1 else 0
        if self.pending > max(0, self.whole) and max(self.share(0), default=0.0) > _SMALL:
            number += self.number - self.extra
        return number

    def lacking(self, jobs: int, more: int) -> Amounts:
        """Return what some of the jobs lack that may start so many tasks more than the whole ones of each."""
        return tuple((jobs * max(0, self.whole) + more * (self.whole >= 0)) * unit for unit in self.unit)


def shares_of_jobs(shares: EpochShares, pool: str) -> dict[str, JobShare]:
    """Return what each job of a leaf pool may hold by the epoch, by job id; `pool` as `Leaf.pool` names it."""
    settings = shares.pools.by_name.get(pool)
    fifo = settings is not None and settings.fifo
    leaves = shares.leaves_of(pool)
    groups = [_Group(leaf, due) for leaf, due in leaves]
    groups.sort(key=lambda group: (-group.precedence, -group.leaf.weight if fifo else 0.0, group.start))
    if not fifo and len({group.precedence for group in groups}) > 1:
        _divide_by_precedence(groups)
    _divide_rests(groups)
    jobs: dict[str, JobShare] = {}
    ahead, lacking = 0, (0.0,) * len(groups[0].due) if groups else ()
    for _, level in groupby(groups, attrgetter("start" if fifo else "precedence")):
        together = list(level)
        lasting = sum(group.lasting() for group in together)
        of_each = (group.lacking(group.number, group.extra) for group in together)
        lacking = tuple(map(sum, zip(lacking, *of_each, strict=True)))
        for group in together:
            rivals = lasting - bool(group.lasting()) > 0
            with_more, without = (
                JobShare(group.share(more), ahead, rivals, tuple(map(sub, lacking, group.lacking(1, more))))
                for more in (1, 0)
            )
            jobs.update(dict.fromkeys(group.leaf.jobs[: group.extra], with_more))
            jobs.update(dict.fromkeys(group.leaf.jobs[group.extra :], without))
        ahead += any(group.pending for group in together)
    return jobs


def _divide_by_precedence(groups: Sequence[_Group]) -> None:
    """Give the share of the pool to the jobs of the highest precedence first, in proportion to their own shares."""
    left = [sum(group.number * group.due[d] for group in groups) for d in range(len(groups[0].due))]
    for _, level in groupby(groups, attrgetter("precedence")):
        together = list(level)
        low, high = 0.0, 1.0
        if _fits(wanted := [group.demand for group in together], together, left):
            parts: Sequence[Sequence[float]] = wanted
        else:
            while _fits(_parts(together, high), together, left) and high < 1 << _HALVINGS:
                low, high = high, 2 * high
            for _ in range(_HALVINGS):
                middle = (low + high) / 2
                low, high = (middle, high) if _fits(_parts(together, middle), together, left) else (low, middle)
            parts = _parts(together, low)
        for group, part in zip(together, parts, strict=True):
            group.due = tuple(part)
            left = [has - group.number * amount for has, amount in zip(left, part, strict=True)]


def _parts(groups: Sequence[_Group], factor: float) -> list[list[float]]:
    """Return a multiple of the shares of jobs, as far as they want it."""
    return [[min(want, factor * part) for want, part in zip(g.demand, g.due, strict=True)] for g in groups]


def _fits(parts: Sequence[Sequence[float]], groups: Sequence[_Group], left: Sequence[float]) -> bool:
    return all(
        sum(group.number * part[d] for group, part in zip(groups, parts, strict=True)) <= has * (1 + 1e-9)
        for d, has in enumerate(left)
    )


def _divide_rests(groups: Sequence[_Group]) -> None:
    """Make whole tasks of shares: the largest rest first, then the oldest job, until the pool's share is used up.

    A pool that holds nothing gets one task of a smaller share, too; a gang would be far above it.
    """
    wanting = [group for group in groups if group.pending]
    for group in wanting:
        group.count()
    if not any(group.rest for group in wanting):
        return
    left = [
        sum(g.number * max(0.0, g.due[d] - g.leaf.usage[d] - g.whole * g.unit[d]) for g in wanting)
        for d in range(len(wanting[0].due))
    ]
    rests = sorted((each for each in wanting if each.rest), key=lambda each: (-each.rest, each.start))
    for group in rests:
        tasks = (floor(has / unit + 0.5 + _SMALL) for has, unit in zip(left, group.unit, strict=True) if unit)
        group.extra = max(0, min(group.number, *tasks))
        left = [has - group.extra * unit for has, unit in zip(left, group.unit, strict=True)]
    first = next((group for group in rests if not (group.leaf.gang or group.leaf.least)), None)
    if first and not any(group.whole > 0 or group.extra or any(group.leaf.usage) for group in groups):
        first.extra = 1
