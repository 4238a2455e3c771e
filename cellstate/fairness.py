"""Evictions between pools: the predicate that planner, scripts and `MemoryCell` share (semantics 33, decision 22).

A claim that evicts tasks of another pool states a threshold for its own pool and for each victim's pool: the fair share
that the scheduler read. The predicate compares thresholds with the pools' use at the moment of the commit, so a
transaction is accepted although tasks ended or started meanwhile, and fails only when it would now be unfair.
`parts/shares.lua` mirrors these functions. Amounts are in the cell's smallest units.
"""

from collections.abc import Sequence
from math import inf
from typing import NamedTuple

from omega.cellstate.resources import Resources

Shares = Sequence[float]
"""A fair share as amounts by resource; rounded to 9 digits by `amounts_of` before it is sent."""
Ratio = tuple[float, float]
"""Usage ÷ share, and the amount that is held without any share; compared in this order."""


class Threshold(NamedTuple):
    """The fair share of a pool, and the leaf pools whose jobs count to it (itself when it has no pools below).

    `lanes` are the numbers of their lanes as far as the sender knows them: what the pool holds is the sum of these.
    With a `job`, by its id, it is the fair share of that job alone, and there are no leaves.
    """

    leaves: tuple[str, ...]
    share: tuple[float, ...]
    lanes: tuple[int, ...] = ()
    job: str = ""


class Floor(NamedTuple):
    """Amounts that a job keeps when some of its tasks are evicted (docs/pool-rules.md, rule 10).

    It keeps them in one resource at least, or with `every` in all. Infinite: no amount of that resource suffices alone.
    """

    job: str
    amounts: tuple[float, ...]
    every: bool = False

    def holds(self, amounts: Resources) -> bool:
        """Return whether a job that holds these amounts keeps its floor."""
        reached = [has >= least for has, least in zip(amounts, self.amounts, strict=True)]
        return all(reached) if self.every else any(reached)


class Assertion(NamedTuple):
    """What a transaction with evictions asserts: one threshold for the evicting pool, one for each victim's pool.

    It covers the tasks of leaf pools that are named for a victim and not for the evictor, and tasks of the jobs with a
    floor. Within a pool a floor covers no task of higher precedence than the evictor's.

    `serial`: every lane of this or a lower serial is among those of the thresholds, unless it is of another pool. Where
    the cell has newer lanes the store reads all of them; 0 always has it do so.
    """

    evictor: Threshold
    victims: tuple[Threshold, ...]
    serial: int = 0
    floors: tuple[Floor, ...] = ()


class PoolLoss(NamedTuple):
    """The loss of one pool in an eviction set: its usage before, its share, and each evicted unit (task or gang)."""

    used: Resources
    share: Shares
    units: Sequence[Resources]


def amounts_of(share: Shares, totals: Resources) -> tuple[float, ...]:
    """Return a share of the totals as amounts, to 9 digits, so that rounding of a division does not reduce it."""
    return tuple(float(f"{part * total:.9g}") for part, total in zip(share, totals, strict=True))


def is_below(used: Resources, share: Shares, need: Resources) -> bool:
    """Return whether a pool is below its share in every resource that the next task needs."""
    return all(has < part for has, part, amount in zip(used, share, need, strict=True) if amount > 0)


def ratio(used: Resources, share: Shares, exchanged: Resources) -> Ratio:
    """Return usage ÷ share over the resources that change hands (`exchanged` > 0): 0/0 = 0, x/0 = infinite.

    Of two infinite ratios the one of the pool that holds more without a share is larger.
    """
    worst, without = 0.0, 0.0
    for has, part, amount in zip(used, share, exchanged, strict=True):
        if amount <= 0 or has <= 0:
            continue
        if part > 0:
            worst = max(worst, has / part)
        else:
            worst, without = inf, max(without, float(has))
    return worst, without


def keeps_its_share(loss: PoolLoss) -> bool:
    """Return whether a pool ends less than one evicted unit below its share."""
    after = _after(loss)
    return all(
        any(amount > 0 and left + amount > part for left, amount, part in zip(after, unit, loss.share, strict=True))
        for unit in loss.units
    )


def is_kept_in_full(loss: PoolLoss) -> bool:
    """Return whether a pool still holds its whole share of a resource that it loses."""
    after = _after(loss)
    return any(
        amount > 0 and left >= part
        for unit in loss.units
        for left, amount, part in zip(after, unit, loss.share, strict=True)
    )


def leaf_of(pool: str, user: str) -> str:
    """The leaf pool of a job as thresholds name it: its pool, else its user's (`Pools.pool_of` names the rest)."""
    return pool or user


def is_legal(used: Resources, share: Shares, taken: Resources, losses: Sequence[PoolLoss]) -> bool:
    """Return whether an eviction set is legal as a whole.

    The evictor's pool (`used` before, `share`) stands below its share before it; each victim's pool ends less than one
    evicted unit below its own share; and of each pair of evictor and victim the larger usage ÷ share becomes smaller.
    `taken` is what the evictor's tasks take together.
    """
    if not is_below(used, share, taken):
        return False
    before = ratio(used, share, taken)
    after = ratio(tuple(has + more for has, more in zip(used, taken, strict=True)), share, taken)
    for loss in losses:
        if not keeps_its_share(loss):
            return False
        exchanged = _summed(loss.units, len(loss.used))
        held, left = ratio(loss.used, loss.share, exchanged), ratio(_after(loss), loss.share, exchanged)
        if not max(after, left) < max(before, held):
            return False
    return True


def _summed(units: Sequence[Resources], size: int) -> Resources:
    return tuple(sum(unit[d] for unit in units) for d in range(size))


def _after(loss: PoolLoss) -> Resources:
    return tuple(has - gone for has, gone in zip(loss.used, _summed(loss.units, len(loss.used)), strict=True))
