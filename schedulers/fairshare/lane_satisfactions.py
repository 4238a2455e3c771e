"""How the lanes of jobs stand: usage ÷ fair share of their pools by the epoch in force (docs/pool-rules.md, rule 8).

A lane is a leaf pool and the resources that the tasks of some of its jobs need.
"""

from collections.abc import Hashable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from omega.cellstate.fairness import leaf_of
from omega.cellstate.pools import NOBODY
from omega.cellstate.usage import Usage
from omega.schedulers.fairshare.standings import EpochShares

Parts = Sequence[tuple[int, float]]
"""Resources, and the share of a pool of each."""
PROMISED = 1e6
"""What pools below their promised share come before others by: more than any satisfaction with a share."""
MANY = 8
"""Number of lanes from which arrays of them cost less than one after the other."""
SMALL = 1e-9
UNNAMED = "<none>"
"""The pool of jobs that name none."""
_TWO = 2


def parts_of(lane: Hashable) -> tuple[str, str, tuple[bool, ...]]:
    """Return the parts of a lane, of which the name of a pool alone is one too."""
    return lane if isinstance(lane, tuple) else ("" if lane == UNNAMED else str(lane), "", ())


class LaneSatisfaction:
    """The satisfaction of one lane by the shares of one epoch, computed again only when its pool's use changed."""

    __slots__ = ("_known", "_last", "_other", "_promised", "_value", "at", "held", "is_plain", "open", "parts")

    def __init__(self, epoch: EpochShares, usage: Usage, leaf: str, needed: tuple[bool, ...]) -> None:
        name = leaf or NOBODY
        self._known = epoch.of(name) is not None
        self.at, share, open_ = epoch.measure(name, needed)
        self.parts = [(d, part) for d, part in zip(self.at, share, strict=True) if part > SMALL]
        """Resources of which the pool has a share, and the share."""
        promised = epoch.amounts(name, "promised")
        self._promised = [(d, promised[d]) for d, _ in self.parts if promised[d] > SMALL]
        self.open = [pair for pair in self.parts if open_[self.at.index(pair[0])]]
        """Those of them of which the pool wants more than its share."""
        self.is_plain = self._known and bool(self.parts) and not self._promised
        """Whether `satisfaction_of` alone gives its satisfaction."""
        self.held = usage.sum_of_leaf(leaf)
        """What the pool holds, always up to date."""
        self._last, self._value = list[int](), 0.0
        self._other = self.open[0][0] if len(self.open) == 1 else -1

    def satisfaction(self) -> float:
        """Return the satisfaction now; below what is promised, less than that of any pool that is not."""
        held = self.held
        if held == self._last:
            return self._value
        self._last = held[:]
        if self.is_plain and len(self.parts) == _TWO:  # as most lanes have, and once for each job
            (first, a), (second, b) = self.parts
            x, y = held[first] / a, held[second] / b
            less, most = (x, y) if x < y else (y, x)
            if most <= 1.0 + SMALL and len(self.open) < _TWO:
                most = (x if self._other == first else y) if self.open else less
            self._value = most
        elif self._known:
            self._value = satisfaction_of(held, self.at, self.parts, self.open)
            if self._promised and all(held[d] < part for d, part in self._promised):
                self._value -= PROMISED
        else:  # its first jobs came after the epoch: it is served until the next epoch has its share
            self._value = 1.0 if any(held) else 0.0
        return self._value


class LaneSatisfactions:
    """The satisfactions of lanes by the shares of one epoch."""

    def __init__(self, epoch: EpochShares, usage: Usage) -> None:
        """Know no lane yet."""
        self._epoch, self._usage = epoch, usage
        self.known: dict[Hashable, LaneSatisfaction] = {}
        self._lanes: Sequence[Hashable] = ()
        self._table: _Table | None = None

    def of(self, lane: Hashable) -> LaneSatisfaction:
        """Return that of a lane: its pool, the user of jobs without one, the resources that its tasks need."""
        found = self.known.get(lane)
        if found is None:
            pool, user, needed = parts_of(lane)
            found = self.known[lane] = LaneSatisfaction(self._epoch, self._usage, leaf_of(pool, user), needed)
        return found

    def several(self, lanes: Sequence[Hashable]) -> list[float]:
        """Return the satisfactions of several lanes."""
        if len(lanes) < MANY:
            return [self.of(lane).satisfaction() for lane in lanes]
        if self._table is None or self._lanes != lanes:
            self._lanes, self._table = lanes, _Table([self.of(lane) for lane in lanes])
        return self._table.satisfactions()


class _Table:
    """Shares of several lanes as arrays, (lanes, resources)."""

    def __init__(self, each: Sequence[LaneSatisfaction]) -> None:
        self.plain = [one for one in each if one.is_plain]
        self.each, self._all = each, len(self.plain) == len(each)
        size = len(each[0].held)
        none = np.full((len(self.plain), size), -np.inf)
        self._share = np.ones_like(none)
        self._most, self._open = none.copy(), none.copy()
        for line, one in enumerate(self.plain):
            for d, part in one.parts:
                self._share[line, d], self._most[line, d] = part, 0.0
            for d, _ in one.open:
                self._open[line, d] = 0.0
        self._least = -self._most
        self._alone = np.array([len(one.parts) == 1 for one in self.plain], dtype=np.bool_)
        self._wants = np.array([bool(one.open) for one in self.plain], dtype=np.bool_)

    def satisfactions(self) -> list[float]:
        """Return the present satisfactions, with the results of `satisfaction` of each."""
        plain = self.plain
        if not plain:
            return [one.satisfaction() for one in self.each]
        ratio: NDArray[np.float64] = np.array([one.held for one in plain], dtype=np.float64) / self._share
        most = (ratio + self._most).max(axis=1)
        value = np.where(self._wants, (ratio + self._open).max(axis=1), (ratio + self._least).min(axis=1))
        values: Iterator[float] = iter(np.where((most > 1.0 + SMALL) | self._alone, most, value).tolist())
        if self._all:
            return list(values)
        return [next(values) if one.is_plain else one.satisfaction() for one in self.each]


def satisfaction_of(held: Sequence[float], at: Sequence[int], parts: Parts, open_: Parts) -> float:
    """Usage ÷ fair share of one pool as a number; a pool without a share comes after all that have one.

    `parts`: resources, of those `at`, with a share, and the share; `open_`: those of them with a share below demand.
    """
    if not parts:
        return 1e9 + sum([held[d] for d in at])
    ratios = [held[d] / part for d, part in parts]
    most = max(ratios)
    if most > 1.0 + SMALL or len(parts) == 1:
        return most
    return max([held[d] / part for d, part in open_]) if open_ else min(ratios)
