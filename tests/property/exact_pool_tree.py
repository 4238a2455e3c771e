"""The pool tree in exact arithmetic, from its definitions alone: the oracle of fair shares. Slow.

Nothing here comes from `schedulers` or `omega`. Numbers in parentheses are those of the rules in docs/pool-rules.md.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

from tests.property.exact_elements import Element, Given
from tests.property.exact_functions import (
    NOTHING,
    ONE,
    Function,
    Vector,
    above,
    added,
    by_suggestion,
    last_within,
    least,
    sampled,
    summed,
    within,
)


class Calculation(Given):
    """One update of one document."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        super().__init__(document)
        for pool in self.pools:
            if pool.fifo:
                self.sort(pool)
        self.integrals()
        self.hand_down(self.root, ONE, "share")
        self.root.share = self.sum_of(self.root.children, "share")
        for pool in self.pools[1:]:
            asked = [one for one in pool.path() if one.fields.get("compute_promised_guarantee")]
            if asked == [pool]:
                self.hand_down(pool, NOTHING, "promised")

    # Functions (4).

    def has_steps(self, pool: Element) -> bool:
        return bool(self.option("step_function_for_gang") and pool.fields.get("step_function_for_gang", True))

    def sort(self, pool: Element) -> None:
        def key(job: Element) -> list[Fraction]:
            values = {
                "weight": -job.weight,
                "start_time": Fraction(job.fields.get("start_time", 0)),
                "pending_job_count": Fraction(job.fields.get("pending_job_count", 1)),
            }
            return [values[name] for name in pool.fields.get("fifo_sort_parameters", ("weight", "start_time"))]

        pool.children.sort(key=key)
        reorders = pool.fields.get("fifo_reordering_for_guarantee") and self.option("fifo_reordering_for_guarantee")
        if not (reorders and self.has_steps(pool) and any(pool.strong)):
            return
        held, first, later = (NOTHING,) * self.width, list[Element](), list[Element]()
        for place, job in enumerate(pool.children):
            gang = bool(job.fields.get("gang"))
            cost = least(job.demand, job.limits)
            if gang and not within(job.demand, job.limits):
                cost = (NOTHING,) * self.width
            fits = all(h + c <= g + Fraction(1, 10**9) for h, c, g in zip(held, cost, pool.strong, strict=True))
            if not fits and not gang:
                pool.children = [*first, job, *later, *pool.children[place + 1 :]]
                return
            if not fits and not any(job.usage):
                later.append(job)
            else:
                first.append(job)
                held = added(held, cost)
        pool.children = first + later

    def share_function(self, one: Element) -> Function:
        if one.factor_function is None:
            one.factor_function = self._job(one) if one.is_job else self._pool(one)
        return one.factor_function

    def _job(self, job: Element) -> Function:
        none, peak = (NOTHING,) * self.width, max(job.usage)
        assert job.above is not None
        if self.has_steps(job.above) and job.fields.get("gang"):
            return Function([NOTHING, ONE, Fraction(2)], [none, none, job.demand], [none, job.demand, job.demand])
        places = {NOTHING, ONE, Fraction(2)} | ({u / peak for u in job.usage} if peak else set())

        def value(f: Fraction) -> Vector:
            if f <= 1:
                return tuple(min(u, f * peak) for u in job.usage)
            return tuple(u + (f - 1) * (d - u) for u, d in zip(job.usage, job.demand, strict=True))

        return sampled(places, value, value)

    def _pool(self, pool: Element) -> Function:
        none = (NOTHING,) * self.width
        functions = [self.curve(child)[0] for child in pool.children]
        if not functions:
            return Function([NOTHING, ONE], [none, none], [none, none])
        if pool.fifo:
            x, left, right, before = list[Fraction](), list[Vector](), list[Vector](), none
            for place, one in enumerate(functions):
                for at, low, high in zip(one.x, one.left, one.right, strict=True):
                    here = (at + place, added(before, low), added(before, high))
                    if x and x[-1] == here[0]:
                        right[-1] = here[2]
                    else:
                        x, left, right = [*x, here[0]], [*left, here[1]], [*right, here[2]]
                before = added(before, one.left[-1])
            return Function(x, left, right)
        stretch = self.stretch(pool)
        if self.option("improved_fit_factor"):
            return self._one_by_one(pool, functions, stretch)
        return summed(functions, stretch, self.width)

    def stretch(self, pool: Element) -> list[Fraction]:
        lightest = min(child.weight for child in pool.children)
        return [child.weight / lightest for child in pool.children]

    def _one_by_one(self, pool: Element, functions: Sequence[Function], stretch: Sequence[Fraction]) -> Function:
        own = [summed([one], [by], self.width) for one, by in zip(functions, stretch, strict=True)]
        events = sorted({(x, index) for index, one in enumerate(own) for x in one.x})
        rows = [
            (
                [one.behind(x) if index < child else one.at(x) for index, one in enumerate(own)],
                [one.behind(x) if index <= child else one.at(x) for index, one in enumerate(own)],
            )
            for x, child in events
        ]
        x = [Fraction(place) for place in range(len(events))]
        pool.child_functions = [
            Function(x, [low[index] for low, _ in rows], [high[index] for _, high in rows]) for index in range(len(own))
        ]
        none = (NOTHING,) * self.width
        totals = [tuple(sum((one[r] for one in low), none[r]) for r in range(self.width)) for low, _ in rows]
        behind = [tuple(sum((one[r] for one in high), none[r]) for r in range(self.width)) for _, high in rows]
        return Function(x, totals, behind)

    def curve(self, one: Element) -> tuple[Function, Function]:
        if one.own is None:
            one.own = by_suggestion(self.share_function(one), added(one.strong, one.integral), one.limits)
        return one.own

    # Integral shares (5).

    def rate(self, pool: Element) -> Fraction:
        ratios = [v / t for v, t in zip(pool.volume, self.totals, strict=True) if t]
        return min(ratios) / Fraction(self.option("integral_smooth_period", 60)) if ratios else NOTHING

    def available(self, pool: Element) -> Vector:
        found = (ONE,) * self.width
        for one in pool.path():
            found = least(found, above(above(one.limits, one.strong), one.integral))
        return found

    def grant(self, pool: Element, share: Vector) -> None:
        for one in pool.path():
            one.integral = least(added(one.integral, share), above(one.limits, one.strong))
            one.own = None
            if one is not pool:
                one.factor_function = None
        self.root.integral = added(self.root.integral, share)

    def integrals(self) -> None:
        for pool in self.pools:
            if pool.kind == "burst":
                peak = min(pool.burst, self.rate(pool))
                proposed = least((peak,) * self.width, self.available(pool))
                taken = by_suggestion(self.share_function(pool), added(pool.strong, proposed), pool.limits)[0].left[0]
                self.grant(pool, above(taken, pool.strong))
        relaxed = [pool for pool in self.pools if pool.kind == "relaxed" and self.rate(pool) > 0]
        if not relaxed:
            return
        room = (ONE,) * self.width
        for child in self.root.children:
            held = least(added(child.strong, child.integral), child.demand)
            room = tuple(a - b for a, b in zip(room, held, strict=True))
        room = tuple(max(a, NOTHING) for a in room)
        lightest = min(self.rate(pool) for pool in relaxed)
        curves, stretch = list[Function](), list[Fraction]()
        for pool in relaxed:
            multiplier = pool.setting("relaxed_share_multiplier_limit")
            if multiplier is None:
                multiplier = self.option("relaxed_share_multiplier_limit", 3)
            most = min(self.rate(pool), Fraction(multiplier) * pool.flow)
            limits = least(pool.limits, tuple(g + most for g in pool.strong))
            own = by_suggestion(self.share_function(pool), added(pool.strong, pool.integral), limits)[0]
            curves.append(self.beyond(own, pool.strong))
            stretch.append(self.rate(pool) / lightest)
        factor = last_within(summed(curves, stretch, self.width), room)
        shares = [one.at(min(ONE, factor * by)) for one, by in zip(curves, stretch, strict=True)]
        for pool, share in zip(relaxed, shares, strict=True):
            self.grant(pool, least(share, self.available(pool)))

    def beyond(self, one: Function, strong: Vector) -> Function:
        """max(one − strong, 0)."""
        places = set(one.x)
        for place, (low, high) in enumerate(pairwise(one.x)):
            for a, b, g in zip(one.right[place], one.left[place + 1], strong, strict=True):
                if a < g < b:
                    places.add(low + (g - a) / (b - a) * (high - low))
        return sampled(places, lambda x: above(one.at(x), strong), lambda x: above(one.behind(x), strong))

    # Distribution (6).

    def hand_down(self, top: Element, suggestion: Fraction, name: str) -> None:
        vectors = bool(self.option("improved_fit_factor"))
        share, factor = self.curve(top)[0].at(suggestion), self.curve(top)[1].at(suggestion)[0]
        waiting = [(top, share, factor)]
        while waiting:
            one, share, factor = waiting.pop()
            setattr(one, name, share)
            if not one.children:
                continue
            if vectors:
                factor = last_within(self.share_function(one), share)
            if one.fifo:
                parts = [max(NOTHING, min(ONE, factor - place)) for place in range(len(one.children))]
            else:
                parts = [min(ONE, factor * by) for by in self.stretch(one)]
            for place, (child, part) in enumerate(zip(one.children, parts, strict=True)):
                own = self.curve(child)
                value = own[0].at(part)
                if vectors and not one.fifo:
                    value = one.child_functions[place].at(factor)
                waiting.append((child, value, own[1].at(part)[0]))

    # Results.

    def parts(self, one: Element) -> tuple[Vector, Vector, Vector]:
        """Strong, integral and weight-proportional part of the share."""
        promised = self.used_guarantees() if one is self.root else one.strong
        strong = least(one.share, promised)
        integral = least(above(one.share, strong), one.integral)
        return strong, integral, above(above(one.share, strong), integral)

    def used_guarantees(self) -> Vector:
        found = (NOTHING,) * self.width
        for child in self.root.children:
            found = added(found, least(child.share, child.strong))
        return found

    def local_satisfaction(self, one: Element) -> float:
        small = Fraction(1, 10**9)
        if all(share <= small for share in one.share):
            return float("inf")
        if any(used > share for used, share in zip(one.usage, one.share, strict=True)):
            if any(used > 0 and share == 0 for used, share in zip(one.usage, one.share, strict=True)):
                return float("inf")
            return float(max(u / f for u, f in zip(one.usage, one.share, strict=True) if f))
        open_ = [r for r in range(self.width) if one.share[r] < one.demand[r]]
        if open_:
            return float(max((one.usage[r] / one.share[r] for r in open_ if one.share[r]), default=NOTHING))
        return float(min(u / f for u, f in zip(one.usage, one.share, strict=True) if f))

    def satisfaction(self, one: Element) -> float:
        if one.is_job:
            return self.local_satisfaction(one)
        return min((self.satisfaction(child) for child in one.children), default=float("inf"))
