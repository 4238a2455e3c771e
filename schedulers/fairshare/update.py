"""One update of a pool tree: the fair share of every pool and job, as YTsaurus computes it.

Every element has a curve S(s): the share it takes at suggestion s, on top of its guarantee. A pool's share by fit
factor is the sum of its children's curves (FIFO: one behind the other); its own curve by suggestion follows from
that. The root takes suggestion 1 and hands suggestions down. Not Pareto efficient: a pool stops at its first
saturated component. At a jump the lower value holds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from schedulers.fairshare.curves import (
    SLACK,
    Curve,
    Curves,
    Floats,
    Integers,
    append,
    by_suggestion,
    chain,
    cut,
    join,
    total,
)
from schedulers.fairshare.fifo import fifo_order, for_guarantee
from schedulers.fairshare.guarantees import Guarantees, counted_on, guarantees, weights
from schedulers.fairshare.leaves import job_curves
from schedulers.fairshare.satisfaction import satisfactions
from schedulers.fairshare.staggered import staggered, staggered_parts
from schedulers.fairshare.tree import Amounts, Tree
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
    job_limits: Floats
    guaranteed: Floats
    strong: Floats
    integral: Floats
    promised_pools: Floats
    promised_jobs: Floats
    estimated: Floats
    expected: Floats
    volume: Floats
    weights: Floats
    job_weights: Floats
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
    """Add amounts of jobs (jobs, resources) up the tree, each as often as its leaf counts: (pools, resources)."""
    pools = np.zeros((len(tree.numbers), len(tree.resources)))
    np.add.at(pools, tree.pool_of, jobs * tree.counts[:, None])
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
        self.weights, self.job_weights = weights(tree, self.given)
        self.volume = volumes(tree, self.given, seconds)
        self.integral = np.zeros_like(self.given.strong)
        self.members = self._members()
        self.fifo, self.fifo_effective = self._fifo_order()
        self.leaves = self._leaves()
        self.by_factor: dict[int, Curve] = {}
        self.children: dict[int, Curves] = {}
        self.own: dict[int, Curve] = {}

    def _limits(self, rows: Sequence[Amounts]) -> Floats:
        amounts = self.tree.table(rows, missing=np.inf)
        return self.tree.share(np.minimum(amounts, self.tree.capacity))

    def _members(self) -> list[Integers]:
        """Jobs of each pool, in the order given."""
        order = np.argsort(self.tree.pool_of, kind="stable")
        bounds = np.searchsorted(self.tree.pool_of[order], np.arange(len(self.tree.numbers) + 1))
        return [order[low:high] for low, high in pairwise(bounds)]

    def _fifo_order(self) -> tuple[Integers, Integers]:
        """Sort the members of FIFO pools; return places before and after reordering for guarantees, −1 elsewhere."""
        place = np.full(len(self.tree.jobs), -1)
        effective = place.copy()
        for number in range(1, len(self.members)):
            pool = self.tree.pool(number)
            if not pool.fifo:
                continue
            order = fifo_order(self.tree, pool, self.members[number].tolist(), self.job_weights)
            place[order] = np.arange(len(order))
            if pool.reorders_for_guarantee and self.tree.options.reorder_for_guarantee and self._has_steps(number):
                gangs = [self.tree.jobs[index].gang for index in order]
                table = (self.demand[order], self.usage[order], self.job_limits[order])
                order = [order[at] for at in for_guarantee(self.given.strong[number], gangs, table)]
            effective[order] = np.arange(len(order))
            self.members[number] = np.array(order, np.int64)
        return place, effective

    def _has_steps(self, number: int) -> bool:
        return self.tree.options.gang_steps and self.tree.pool(number).gang_steps

    def _leaves(self) -> Curves:
        """Curves of all jobs, ordered by pool, within a pool as its members are."""
        order = np.concatenate(self.members) if self.tree.jobs else np.zeros(0, np.int64)
        self.leaf_starts = np.concatenate(([0], np.cumsum([len(part) for part in self.members])))
        stepped = [self._has_steps(number) for number in range(len(self.members))]
        steps = np.array([job.gang and stepped[self.tree.numbers[job.parent]] for job in self.tree.jobs], bool)
        if not len(order):
            return Curves(np.zeros(0), np.zeros((0, len(self.tree.resources))), np.zeros(1, np.int64))
        return job_curves(self.demand[order], self.usage[order], self.job_limits[order], steps[order]).times(
            self.tree.counts[order]
        )

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
                curve = staggered(children, self.squeeze(number))
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
        """Add integral share to a pool and all its ancestors; drop curves built from the old one."""
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
        """Give burst pools their share depth first, then the rest to relaxed pools."""
        kinds = [self.tree.pool(number).integral.kind for number in range(len(self.tree.numbers))]
        for number in self.tree.downward:
            if kinds[number] == "burst":
                peak = min(float(self.given.burst[number]), self.accumulated(number))
                self._burst(number, np.minimum(peak, self.available(number)))
        relaxed = [
            number for number in self.tree.downward if kinds[number] == "relaxed" and self.accumulated(number) > 0
        ]
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
            most = min(
                rate, (self.tree.options.relaxed_multiplier if own is None else own) * float(self.given.flow[number])
            )
            strong = self.given.strong[number]
            bound = np.minimum(self.limits[number], strong + most)
            curves.append(by_suggestion(self.factor_curve(number), strong + self.integral[number], bound))

        def taken(factor: float) -> Floats:
            parts = [
                curve.at(min(1.0, factor * rate / rates.min()))[:-1] for curve, rate in zip(curves, rates, strict=True)
            ]
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
            members = self.members[number]
            jobs[members] = shares[len(self.tree.subpools[number]) :] / self.tree.counts[members, None]
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
        return staggered_parts(children, self.squeeze(number), factor)

    def run(self) -> Shares:
        """Compute everything."""
        self.spend_volumes()
        pools, jobs = self.distribute(0, 1.0)
        loose = self.members[0]
        pools[0] = pools[self.tree.subpools[0]].sum(0) + (jobs[loose] * self.tree.counts[loose, None]).sum(0)
        promised_pools, promised_jobs = self._promised()
        strong = np.minimum(pools, self.given.strong)
        strong[0] = strong[self.tree.subpools[0]].sum(0)
        heavy = (self.weights, self.job_weights)
        whole = np.where(self.tree.capacity > 0, 1.0, 0.0)
        return Shares(
            self.tree, pools, jobs, self.pool_demand, self.demand, self.pool_usage, self.usage, self.limits,
            self.job_limits, self.given.strong,
            strong=strong, integral=np.minimum(np.maximum(pools - strong, 0.0), self.integral),
            promised_pools=promised_pools, promised_jobs=promised_jobs,
            estimated=counted_on(self.tree, self.given, heavy, self.given.strong[0]),
            expected=counted_on(self.tree, self.given, heavy, whole), volume=self.volume,
            weights=self.weights, job_weights=self.job_weights, fifo=self.fifo, fifo_effective=self.fifo_effective,
            errors=self.given.errors + self._nested(),
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
        for number, pool in enumerate(self.tree.pools, 1):
            above = [self.tree.pool(at) for at in self.tree.path(number)[1:]]
            over = [other.name for other in above if other.promised]
            if pool.promised and over:
                errors.append(f"promised guarantee of {pool.name!r} is ignored: {over[0]!r} above it computes one")
        return tuple(errors)
