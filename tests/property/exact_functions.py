"""Monotone, piecewise linear, left-continuous functions in exact arithmetic, as their definitions say. Slow.

A function is a list of points (x, left value, right value), linear in between; a point whose values differ is a jump.
M is built literally, by inverting each component.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, pairwise

Vector = tuple[Fraction, ...]
NOTHING, ONE = Fraction(0), Fraction(1)


def added(one: Vector, other: Vector) -> Vector:
    return tuple(a + b for a, b in zip(one, other, strict=True))


def scaled(one: Vector, factor: Fraction) -> Vector:
    return tuple(a * factor for a in one)


def least(one: Vector, other: Vector) -> Vector:
    return tuple(map(min, one, other))


def above(one: Vector, other: Vector) -> Vector:
    """Return one − other, at least 0."""
    return tuple(max(a - b, NOTHING) for a, b in zip(one, other, strict=True))


def within(one: Vector, bound: Vector) -> bool:
    return all(a <= b for a, b in zip(one, bound, strict=True))


@dataclass(frozen=True)
class Function:
    x: list[Fraction]
    left: list[Vector]
    right: list[Vector]

    def at(self, x: Fraction) -> Vector:
        return self._limit(x, self.left)

    def behind(self, x: Fraction) -> Vector:
        return self._limit(x, self.right)

    def _limit(self, x: Fraction, side: list[Vector]) -> Vector:
        if x >= self.x[-1]:
            return self.left[-1]
        place = bisect_left(self.x, x)
        if self.x[place] == x:
            return side[place]
        part = (x - self.x[place - 1]) / (self.x[place] - self.x[place - 1])
        low, high = self.right[place - 1], self.left[place]
        return tuple(a + part * (b - a) for a, b in zip(low, high, strict=True))


def sampled(places: set[Fraction], left: Callable[[Fraction], Vector], right: Callable[[Fraction], Vector]) -> Function:
    ordered = sorted(places)
    return Function(ordered, [left(x) for x in ordered], [right(x) for x in ordered])


def summed(functions: Sequence[Function], stretch: Sequence[Fraction], width: int) -> Function:
    """Σ f_i(min(1, x × stretch_i)) on [0, 1]."""
    places = {NOTHING, ONE} | {x / by for one, by in zip(functions, stretch, strict=True) for x in one.x if x / by <= 1}

    def total(side: str, x: Fraction) -> Vector:
        found = (NOTHING,) * width
        for one, by in zip(functions, stretch, strict=True):
            read = one.at if side == "left" or x * by >= 1 else one.behind
            found = added(found, read(min(ONE, x * by)))
        return found

    return sampled(places, lambda x: total("left", x), lambda x: total("right", x))


def last_within(function: Function, bound: Vector) -> Fraction:
    """The largest x at which no component passes the bound."""
    if within(function.left[-1], bound):
        return function.x[-1]
    found = function.x[0]
    for place, (low, high) in enumerate(pairwise(function.x)):
        start, end = function.right[place], function.left[place + 1]
        if not within(start, bound):
            return low
        if not within(end, bound):
            parts = [(b - s) / (e - s) for s, e, b in zip(start, end, bound, strict=True) if e > b]
            return low + min(parts) * (high - low)
        found = high
    return found


class Inverse:
    """M of one component: the fit factors at which it reaches guarantee + suggestion, cut by the limit."""

    def __init__(self, share: Function, component: int, guarantee: Fraction, limit: Fraction) -> None:
        self.share, self.r = share, component
        start, end = share.left[0][component], share.left[-1][component]
        self.top = max(start, min(end, limit))
        self.floor = max(start, min(guarantee, self.top))

    def at(self, s: Fraction) -> Fraction:
        value = self.floor + s
        if value > self.top or s == 0:
            return self.last_not_above(min(value, self.top))
        return self.first_reaching(value)

    def behind(self, s: Fraction) -> Fraction:
        return self.last_not_above(min(self.floor + s, self.top))

    def first_reaching(self, value: Fraction) -> Fraction:
        x, left, right, r = self.share.x, self.share.left, self.share.right, self.r
        for place in range(len(x)):
            if place and left[place][r] >= value:
                low, high = right[place - 1][r], left[place][r]
                part = (value - low) / (high - low) if low < value else NOTHING
                return x[place - 1] + part * (x[place] - x[place - 1])
            if right[place][r] >= value:
                return x[place]
        return x[-1]

    def last_not_above(self, value: Fraction) -> Fraction:
        for place, (x, onward) in enumerate(pairwise(self.share.x)):
            low, high = self.share.right[place][self.r], self.share.left[place + 1][self.r]
            if low > value:
                return x
            if high > value:
                return x + (value - low) / (high - low) * (onward - x)
        return self.share.x[-1]

    def corners(self) -> set[Fraction]:
        heights = {value[self.r] - self.floor for value in (*self.share.left, *self.share.right)}
        return {height for height in heights | {self.top - self.floor} if 0 <= height <= 1}


def by_suggestion(share: Function, guarantee: Vector, limit: Vector) -> tuple[Function, Function]:
    """S and M."""
    inverses = [Inverse(share, r, *both) for r, both in enumerate(zip(guarantee, limit, strict=True))]
    places = {NOTHING, ONE}.union(*(one.corners() for one in inverses))
    for low, high in pairwise(sorted(places)):
        lines = [(one.behind(low), one.at(high)) for one in inverses]
        for (a, b), (c, d) in combinations(lines, 2):
            if (a - c) * (b - d) < 0:
                places.add(low + (c - a) / ((b - a) - (d - c)) * (high - low))
    factor = sampled(
        places, lambda s: (min(one.at(s) for one in inverses),), lambda s: (min(one.behind(s) for one in inverses),)
    )
    more = set(factor.x)
    for place, (low, high) in enumerate(pairwise(factor.x)):
        a, b = factor.right[place][0], factor.left[place + 1][0]
        more |= {low + (x - a) / (b - a) * (high - low) for x in share.x if a < x < b}
    ordered = sorted(more)
    right = []
    for place, s in enumerate(ordered):
        here = factor.behind(s)[0]
        rises = place + 1 < len(ordered) and factor.at(ordered[place + 1])[0] > here
        right.append(share.behind(here) if rises else share.at(here))
    return Function(ordered, [share.at(factor.at(s)[0]) for s in ordered], right), factor
