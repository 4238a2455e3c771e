"""One update of a pool tree: the fair share of every pool and job, as YTsaurus computes it.

Every element has a curve S(s): the share it takes at suggestion s, on top of its guarantee. A pool's share by fit
factor is the sum of its children's curves (FIFO: one behind the other); its own curve by suggestion follows from
that. The root takes suggestion 1 and hands suggestions down. Not Pareto efficient: a pool stops at its first
saturated component. At a jump the lower value holds.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from schedulers.fairshare.curves import (
    SLACK,
    TOLERANCE,
    Curve,
    Curves,
    Floats,
    Integers,
    append,
    by_suggestion,
    chain,
    cut,
    join,
    sides,
    total,
)
from schedulers.fairshare.guarantees import Guarantees, guarantees, weights
from schedulers.fairshare.leaves import job_curves
from schedulers.fairshare.satisfaction import satisfactions
from schedulers.fairshare.tree import Tree
from schedulers.fairshare.volumes import volumes

_HALVINGS = 100
_LEAST_WEIGHT = 1e-9


@dataclass(frozen=True)
class Shares:
    """The result of an update. Arrays by pool number (pools, resources) and by job (jobs, resources), in shares.

    `volume` is in amount·seconds; `fifo` and `fifo_effective` are places in a job's FIFO pool, −1 elsewhere.
    """

    tree: Tree
    pools: Floats
    jobs: Floats
    pool_demand: Floats
    job_demand: Floats
    pool_usage: Floats
    job_usage: Floats
    limits: Floats
    strong: Floats
    integral: Floats
    promised_pools: Floats
    promised_jobs: Floats
    estimated: Floats
    volume: Floats
    weights: Floats
    fifo: Integers
    fifo_effective: Integers
    errors: tuple[str, ...]

    @cached_property
    def satisfaction(self) -> tuple[Floats, Floats, Floats]:
        """Satisfaction of pools, local satisfaction of pools, satisfaction of jobs; infinite without a share."""
        return satisfactions(
            self.tree, (self.pools, self.pool_demand, self.pool_usage), (self.jobs, self.job_demand, self.job_usage)
        )


def fair_shares(tree: Tree, seconds: float | None = None) -> Shares:
    """Compute the shares of a tree, `seconds` after the update before (None: there was none)."""
    return _Update(tree, seconds).run()


def summed(tree: Tree, jobs: Floats) -> Floats:
    """Add amounts of jobs (jobs, resources) up the tree: (pools, resources)."""
    pools = np.zeros((len(tree.numbers), len(tree.resources)))
    np.add.at(pools, tree.pool_of, jobs)
    for number in reversed(tree.downward[1:]):
        pools[tree.parents[number]] += pools[number]
    return pools


class _Update:
    """State of one update: shares of the inputs, curves that were built, integral shares so far."""

    def __init__(self, tree: Tree, seconds: float | None) -> None:
        self.tree = tree
        self.demand = tree.share(tree.table([job.demand for job in tree.jobs]))
        self.usage = tree.share(tree.table([job.usage for job in tree.jobs]))
        self.pool_demand, self.pool_usage = summed(tree, self.demand), summed(tree, self.usage)
        self.limits = self._limits([tree.pool(number).limits for number in range(len(tree.numbers))])
        self.job_limits = self._limits([job.limits for job in tree.jobs])
        self.given: Guarantees = guarantees(tree, self.limits)
        self.weights, self.job_weights = weights(tree, self.given.strong, self.given.flow)
        self.volume = volumes(tree, self.given, seconds)
        self.integral = np.zeros_like(self.given.strong)
        self.members = self._members()
        self.fifo, self.fifo_effective = self._fifo_order()
        self.leaves = self._leaves()
        self.by_factor: dict[int, Curve] = {}
        self.children: dict[int, Curves] = {}
        self.own: dict[int, Curve] = {}

    def _limits(self, rows: list) -> Floats:
        amounts = self.tree.table(rows, missing=np.inf)
        return self.tree.share(np.minimum(amounts, self.tree.capacity))

    def _members(self) -> list[Integers]:
        """Jobs of each pool, in the order given."""
        order = np.argsort(self.tree.pool_of, kind="stable")
        bounds = np.searchsorted(self.tree.pool_of[order], np.arange(len(self.tree.numbers) + 1))
        return [order[low:high] for low, high in zip(bounds[:-1], bounds[1:], strict=True)]

    def _fifo_order(self) -> tuple[Integers, Integers]:
        """Sort the members of FIFO pools; return places before and after reordering for guarantees."""
        place = np.full(len(self.tree.jobs), -1)
        effective = place.copy()
        for number in range(1, len(self.members)):
            pool = self.tree.pool(number)
            if not pool.fifo:
                continue
            keys = {
                "weight": lambda index: -self.job_weights[index],
                "start_time": lambda index: self.tree.jobs[index].start_time,
                "pending_job_count": lambda index: self.tree.jobs[index].pending,
            }
            order = sorted(self.members[number].tolist(), key=lambda index: [keys[key](index) for key in pool.sort_keys])  # noqa: B023 - used at once
            place[order] = np.arange(len(order))
            if pool.reorders_for_guarantee and self.tree.options.reorder_for_guarantee and self._has_steps(number):
                order = self._reordered(number, order)
            effective[order] = np.arange(len(order))
            self.members[number] = np.array(order, np.int64)
        return place, effective

    def _has_steps(self, number: int) -> bool:
        return self.tree.options.gang_steps and self.tree.pool(number).gang_steps

    def _reordered(self, number: int, order: list[int]) -> list[int]:
        """Defer gangs without usage that do not fit into what the guarantee leaves (§7)."""
        bound = self.given.strong[number] + 1e-9
        if not self.given.strong[number].any():
            return order
        acc = np.zeros(len(bound))
        first: list[int] = []
        deferred: list[int] = []
        for at, index in enumerate(order):
            gang = self.tree.jobs[index].gang
            whole = not gang or bool((self.demand[index] <= self.job_limits[index] + SLACK).all())
            cost = np.minimum(self.demand[index], self.job_limits[index]) if whole else np.zeros(len(bound))
            fits = bool((acc + cost <= bound).all())
            if not fits and not gang:
                return first + order[at:] if not deferred else first + order[at:] + deferred
            if not fits and not self.usage[index].any():
                deferred.append(index)
                continue
            first.append(index)
            acc += cost
        return first + deferred

    def _leaves(self) -> Curves:
        """Curves of all jobs, ordered by pool, within a pool as its members are."""
        order = np.concatenate(self.members) if self.tree.jobs else np.zeros(0, np.int64)
        self.leaf_starts = np.concatenate(([0], np.cumsum([len(part) for part in self.members])))
        steps = np.array([job.gang and self._has_steps(at) for job, at in zip(self.tree.jobs, self.tree.pool_of, strict=True)], bool)
        if not len(order):
            return Curves(np.zeros(0), np.zeros((0, len(self.tree.resources))), np.zeros(1, np.int64))
        return job_curves(self.demand[order], self.usage[order], self.job_limits[order], steps[order])

    # Curves, bottom-up.

    def children_of(self, number: int) -> Curves:
        """Curves by suggestion of a pool's children: its pools, then its jobs."""
        if number not in self.children:
            pools = [self.curve(child) for child in self.tree.subpools[number]]
            columns = len(self.tree.resources)
            jobs = self.leaves.between(self.leaf_starts[number], self.leaf_starts[number + 1])
            inner = join([Curve(curve.x, curve.y[:, :columns]) for curve in pools]) if pools else jobs
            self.children[number] = append(inner, jobs) if pools else jobs
        return self.children[number]

    def squeeze(self, number: int) -> Floats:
        """Least weight among a pool's children ÷ the weight of each, at most 1."""
        heavy = np.concatenate((self.weights[self.tree.subpools[number]], self.job_weights[self.members[number]]))
        least = heavy[heavy > _LEAST_WEIGHT].min(initial=np.inf)
        found: Floats = np.minimum(least / np.maximum(heavy, _LEAST_WEIGHT), 1.0)
        return found

    def factor_curve(self, number: int) -> Curve:
        """F of a pool: its share by fit factor."""
        if number not in self.by_factor:
            children = self.children_of(number)
            if not len(children):
                curve = Curve(np.zeros(1), np.zeros((1, len(self.tree.resources))))
            elif self.tree.pool(number).fifo:
                curve = chain(children)
            elif self.tree.options.improved_fit_factor:
                curve = _staggered(children, self.squeeze(number))
            else:
                curve = total(children, self.squeeze(number))
            self.by_factor[number] = curve
        return self.by_factor[number]

    def curve(self, number: int) -> Curve:
        """S and, in the last column, M of a pool."""
        if number not in self.own:
            bound = self.given.strong[number] + self.integral[number]
            self.own[number] = by_suggestion(self.factor_curve(number), bound, self.limits[number])
        return self.own[number]

    # Integral shares (§5).

    def available(self, number: int) -> Floats:
        """How much integral share a pool and its ancestors below the root can still take."""
        path = self.tree.path(number)[:-1]
        found: Floats = np.maximum((self.limits - self.given.strong - self.integral)[path].min(0), 0.0)
        return found

    def grant(self, number: int, share: Floats) -> None:
        """Add integral share to a pool and all its ancestors; what was built from the old one is dropped."""
        for at in self.tree.path(number):
            self.integral[at] += share
            if at:
                self.integral[at] = np.minimum(self.integral[at], self.limits[at] - self.given.strong[at])
            self.own.pop(at, None)
            if at != number:
                self.by_factor.pop(at, None)
                self.children.pop(at, None)

    def accumulated(self, number: int) -> float:
        """Share that a pool's volume allows for one smoothing period."""
        known = self.tree.capacity > 0
        if not known.any():
            return 0.0
        ratio = self.volume[number][known] / self.tree.capacity[known]
        return float(ratio.min()) / self.tree.options.smooth_period

    def spend_volumes(self) -> None:
        """Give burst pools their share depth first, then relaxed pools what is left."""
        kinds = [self.tree.pool(number).integral.kind for number in range(len(self.tree.numbers))]
        for number in self.tree.downward:
            if kinds[number] == "burst":
                peak = min(float(self.given.burst[number]), self.accumulated(number))
                self._burst(number, np.minimum(peak, self.available(number)))
        relaxed = [number for number in self.tree.downward if kinds[number] == "relaxed" and self.accumulated(number) > 0]
        if relaxed:
            self._relax(relaxed)

    def _burst(self, number: int, peak: Floats) -> None:
        strong = self.given.strong[number]
        taken = by_suggestion(self.factor_curve(number), strong + peak, self.limits[number]).y[0][:-1]
        self.grant(number, np.maximum(taken - strong, 0.0))

    def _relax(self, relaxed: list[int]) -> None:
        """Spend what no pool is guaranteed on relaxed pools, by volume, as far as it goes for all of them."""
        held = np.minimum(self.given.strong + self.integral, self.pool_demand)
        room = np.maximum(1.0 - held[self.tree.subpools[0]].sum(0), 0.0)
        rates = np.array([self.accumulated(number) for number in relaxed])
        curves = []
        for number, rate in zip(relaxed, rates, strict=True):
            own = self.tree.pool(number).integral.relaxed_multiplier
            most = min(rate, (self.tree.options.relaxed_multiplier if own is None else own) * float(self.given.flow[number]))
            strong = self.given.strong[number]
            curves.append(by_suggestion(self.factor_curve(number), strong, np.minimum(self.limits[number], strong + most)))

        def taken(factor: float) -> Floats:
            parts = [curve.at(min(1.0, factor * rate / rates.min()))[:-1] for curve, rate in zip(curves, rates, strict=True)]
            found: Floats = np.maximum(np.array(parts) - self.given.strong[relaxed], 0.0)
            return found

        low, high = 0.0, 1.0
        if (taken(1.0).sum(0) <= room + SLACK).all():
            low = 1.0
        for _ in range(_HALVINGS if low < 1.0 else 0):
            middle = (low + high) / 2
            low, high = (middle, high) if (taken(middle).sum(0) <= room + SLACK).all() else (low, middle)
        for number, share in zip(relaxed, taken(low), strict=True):
            self.grant(number, np.minimum(share, self.available(number)))

    # Distribution, top-down (§6).

    def distribute(self, top: int, suggestion: float) -> tuple[Floats, Floats]:
        """Hand `suggestion` to a pool and everything below: shares of pools and of jobs, zero elsewhere."""
        pools = np.zeros_like(self.given.strong)
        jobs = np.zeros_like(self.demand)
        columns = len(self.tree.resources)
        own = self.curve(top).at(suggestion)
        waiting = [(top, own[:columns], float(own[columns]))]
        while waiting:
            number, share, factor = waiting.pop()
            pools[number] = share
            children = self.children_of(number)
            if not len(children):
                continue
            if self.tree.options.improved_fit_factor:
                shares = self._split_vector(number, children, share)
                inner = [(child, part, 0.0) for child, part in zip(self.tree.subpools[number], shares, strict=False)]
            else:
                parts = self._suggestions(number, factor, len(children))
                shares = children.at(parts)
                inner = []
                for child, part in zip(self.tree.subpools[number], parts, strict=False):
                    value = self.curve(child).at(part)
                    inner.append((child, value[:columns], float(value[columns])))
            waiting += inner
            jobs[self.members[number]] = shares[len(self.tree.subpools[number]) :]
        return pools, jobs

    def _suggestions(self, number: int, factor: float, count: int) -> Floats:
        """Suggestions to the children of a pool at a fit factor."""
        if self.tree.pool(number).fifo:
            return np.clip(factor - np.arange(count), 0.0, 1.0)
        return np.minimum(1.0, factor / self.squeeze(number))

    def _split_vector(self, number: int, children: Curves, share: Floats) -> Floats:
        """Shares of a pool's children at the largest fit factor whose sum stays within `share`."""
        factor = float(cut(self.factor_curve(number), share).x[-1])
        if self.tree.pool(number).fifo:
            return children.at(self._suggestions(number, factor, len(children)))
        return _staggered_parts(children, self.squeeze(number), factor)

    def run(self) -> Shares:
        """Compute everything."""
        self.spend_volumes()
        pools, jobs = self.distribute(0, 1.0)
        pools[0] = pools[self.tree.subpools[0]].sum(0) + jobs[self.members[0]].sum(0)
        promised_pools, promised_jobs = self._promised()
        return Shares(
            self.tree, pools, jobs, self.pool_demand, self.demand, self.pool_usage, self.usage, self.limits,
            strong=np.minimum(pools, self.given.strong),
            integral=np.minimum(np.maximum(pools - self.given.strong, 0.0), self.integral),
            promised_pools=promised_pools, promised_jobs=promised_jobs, estimated=self._estimated(), volume=self.volume,
            weights=self.weights, fifo=self.fifo, fifo_effective=self.fifo_effective, errors=self.given.errors + self._nested(),
        )  # fmt: skip

    def _promised(self) -> tuple[Floats, Floats]:
        """Shares at suggestion 0 below the topmost pools that ask for them."""
        pools, jobs = np.zeros_like(self.given.strong), np.zeros_like(self.demand)
        for number in self.tree.downward[1:]:
            above = self.tree.path(number)[1:]
            if self.tree.pool(number).promised and not any(self.tree.pool(at).promised for at in above):
                more = self.distribute(number, 0.0)
                pools, jobs = pools + more[0], jobs + more[1]
        return pools, jobs

    def _nested(self) -> tuple[str, ...]:
        errors = []
        for pool in self.tree.pools:
            above = [self.tree.pool(at).name for at in self.tree.path(self.tree.numbers[pool.name])[1:]]
            over = [name for name in above if name in self.tree.numbers and self.tree.pool(self.tree.numbers[name]).promised]
            if pool.promised and over:
                errors.append(f"promised guarantee of {pool.name!r} is ignored: {over[0]!r} above it computes one")
        return tuple(errors)

    def _estimated(self) -> Floats:
        """Guarantee that each pool could count on if all had full demand, top-down by guarantee, then by weight."""
        found = np.zeros_like(self.given.strong)
        found[0] = np.where(self.tree.capacity > 0, 1.0, 0.0)
        for number in self.tree.downward:
            children = self.tree.subpools[number]
            left = found[number].copy()
            for child in children:
                found[child] = np.minimum(self.given.strong[child], left)
                left = left - found[child]
            heavy = self.weights[children]
            for child, weight in zip(children, heavy, strict=True):
                found[child] += left * weight / heavy.sum()
        return found


def _staggered(children: Curves, squeeze: Floats) -> Curve:
    """F of the improved fit factor: each breakpoint of each child is a step of 1, and only that child jumps there.

    Breakpoints are sorted by place, then by child, so that of several jumps at one place the first child's is
    tried alone before the next one's.
    """
    places, lower, upper, where, owner = _events(children, squeeze)
    jump = np.zeros((len(where), lower.shape[2]))
    jump[:] = (upper - lower)[owner, where]
    before = np.cumsum(jump, axis=0) - jump
    first = np.searchsorted(where, where, "left")
    left = lower.sum(0)[where] + before - before[first]
    x = np.repeat(np.arange(len(where), dtype=float), 2)
    y = np.empty((len(x), left.shape[1]))
    y[0::2], y[1::2] = left, left + jump
    keep = np.ones(len(x), bool)
    keep[1::2] = jump.max(1, initial=0.0) > 0
    return Curve(x[keep], y[keep])


def _events(children: Curves, squeeze: Floats) -> tuple[Floats, Floats, Floats, Integers, Integers]:
    """Breakpoints of all children by place and child: places, values at and behind them, and (place, child) of each."""
    scaled = Curves(children.x * np.repeat(squeeze, np.diff(children.starts)), children.y, children.starts)
    places, lower, upper = sides(scaled)
    at = np.searchsorted(places, scaled.x + TOLERANCE, "right") - 1
    pairs = np.unique(np.stack((at, scaled.owners()), axis=1), axis=0)
    return places, lower, upper, pairs[:, 0], pairs[:, 1]


def _staggered_parts(children: Curves, squeeze: Floats, factor: float) -> Floats:
    """Shares of the children at a fit factor of `_staggered`: those whose breakpoint was passed stand behind it."""
    places, lower, upper, where, owner = _events(children, squeeze)
    reached = min(int(np.ceil(factor - TOLERANCE)), len(where) - 1)
    low = max(reached - 1, 0)
    part = min(max(factor - low, 0.0), 1.0) if reached else 0.0
    if where[low] != where[reached]:
        start, end = upper[:, where[low]], lower[:, where[reached]]
        found: Floats = start + part * (end - start)
        return found
    found = lower[:, where[reached]].copy()
    passed = owner[(where == where[reached]) & (np.arange(len(where)) < reached)]
    found[passed] = upper[passed, where[reached]]
    return found
