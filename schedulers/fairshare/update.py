"""One update of a pool tree: the fair share of every pool and job, as YTsaurus computes it.

Every element has a curve S(s): the share it takes at suggestion s, on top of its guarantee. A pool's share by fit
factor is the sum of its children's curves (FIFO: one behind the other); its own curve by suggestion follows from
that. The root takes suggestion 1 and hands suggestions down. Not Pareto efficient: a pool stops at its first
saturated component. At a jump the lower value holds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise

import numpy as np

from omega.cellstate.pools import Pool
from omega.schedulers.fairshare.curves import (
    SLACK,
    TOLERANCE,
    Curve,
    Curves,
    Floats,
    Integers,
    by_owner,
    by_suggestion,
    chains,
    clean,
    cut,
    join,
    largest_factor,
    sides,
    starts_of,
    totals,
)
from omega.schedulers.fairshare.guarantees import NEGLIGIBLE, Guarantees, counted_on, guarantees, volumes, weights
from omega.schedulers.fairshare.satisfaction import satisfactions
from omega.schedulers.fairshare.tree import Amounts, Tree

_LEAST_WEIGHT = 1e-9


@dataclass(frozen=True, kw_only=True)
class Shares:
    """The result of an update. Arrays by pool number (pools, resources) and by job (jobs, resources), in shares.

    `volume` is in amount·seconds; `fifo` and `fifo_effective` are places in a job's FIFO pool, −1 elsewhere;
    `fifo_effective` also where the pool reorders nothing for its guarantee. `estimated` and `expected`: of pools, jobs.
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
    estimated: tuple[Floats, Floats]
    expected: tuple[Floats, Floats]
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


class _Update:
    """State of one update: shares of the inputs, curves that were built, integral shares so far."""

    def __init__(self, tree: Tree, seconds: float | None) -> None:
        self.tree = tree
        self.demand = tree.share(tree.table([job.demand for job in tree.jobs]))
        self.usage = tree.share(tree.table([job.usage for job in tree.jobs]))
        self.pool_demand, self.pool_usage = tree.summed(self.demand), tree.summed(self.usage)
        self.limits = self._limits([tree.pool(number).limits for number in range(len(tree.numbers))])
        self.job_limits = self._limits([job.limits for job in tree.jobs])
        self.given: Guarantees = guarantees(tree, self.limits)
        self.weights, self.job_weights = weights(tree, self.given)
        self.volume = volumes(tree, self.given, seconds)
        self.integral = np.zeros_like(self.given.strong)
        self.members = self._members()
        self.fifo, self.fifo_effective = self._fifo_order()
        self.order = np.concatenate(self.members)
        self.leaves = self._leaves()
        self.pool_squeeze, self.job_squeeze = self._squeeze()
        self.by_factor: dict[int, Curve] = {}
        self.own: dict[int, Curve] = {}

    def _limits(self, rows: Sequence[Amounts]) -> Floats:
        amounts = self.tree.table(rows, missing=np.inf)
        return self.tree.share(np.minimum(amounts, self.tree.capacity))

    def _members(self) -> list[Integers]:
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
            if self._reorders(number):
                gangs = [self.tree.jobs[index].gang for index in order]
                table = (self.demand[order], self.usage[order], self.job_limits[order])
                order = [order[at] for at in for_guarantee(self.given.strong[number], gangs, table)]
            effective[order] = np.arange(len(order))
            self.members[number] = np.array(order, np.int64)
        return place, effective

    def _reorders(self, number: int) -> bool:
        """Whether the order of a FIFO pool depends on what fits into its guarantee."""
        pool = self.tree.pool(number)
        wanted = pool.fifo and pool.reorders_for_guarantee and self.tree.options.reorder_for_guarantee
        return wanted and self._has_steps(number) and bool(self.given.strong[number].any())

    def _has_steps(self, number: int) -> bool:
        return self.tree.options.gang_steps and self.tree.pool(number).gang_steps

    def _leaves(self) -> Curves:
        """Curves of all jobs, ordered by pool, within a pool as its members are."""
        order = self.order
        self.leaf_starts = starts_of([len(part) for part in self.members])
        stepped = [self._has_steps(number) for number in range(len(self.members))]
        least = [1.0 if job.gang else job.least for job in self.tree.jobs]
        steps = np.array(least, float) * np.array(stepped)[self.tree.pool_of]
        if not len(order):
            return Curves(np.zeros(0), np.zeros((0, len(self.tree.resources))), np.zeros(1, np.int64))
        return job_curves(
            demand=self.demand[order], usage=self.usage[order], limits=self.job_limits[order], steps=steps[order]
        ).times(self.tree.counts[order])

    def _squeeze(self) -> tuple[Floats, Floats]:
        """Least weight among the siblings ÷ own weight, at most 1, of pools and of jobs."""
        least = np.full(len(self.weights), np.inf)
        for above, heavy in ((self.tree.parents[1:], self.weights[1:]), (self.tree.pool_of, self.job_weights)):
            counted = heavy > _LEAST_WEIGHT
            np.minimum.at(least, above[counted], heavy[counted])
        pools = np.ones(len(self.weights))
        pools[1:] = least[self.tree.parents[1:]] / np.maximum(self.weights[1:], _LEAST_WEIGHT)
        jobs = least[self.tree.pool_of] / np.maximum(self.job_weights, _LEAST_WEIGHT)
        return np.minimum(pools, 1.0), np.minimum(jobs, 1.0)

    # Curves, bottom-up.

    def children_of(self, numbers: Sequence[int]) -> tuple[Curves, Floats, Integers]:
        """Curves by suggestion of the children of several pools, each's pools, then its jobs.

        With them how far each curve is squeezed, and the place of its pool in `numbers`.
        """
        columns, starts = len(self.tree.resources), self.leaf_starts
        sizes = [int(starts[number + 1] - starts[number]) for number in numbers]
        leaves = np.concatenate([np.arange(starts[number], starts[number + 1]) for number in numbers])
        groups = np.repeat(np.arange(len(numbers)), sizes)
        table, squeeze = self.leaves.take(leaves), self.job_squeeze[self.order[leaves]]
        pools = [child for number in numbers for child in self.tree.subpools[number]]
        if not pools:
            return table, squeeze, groups
        inner = join([Curve(self.own[child].x, self.own[child].y[:, :columns]) for child in pools])
        above = np.repeat(np.arange(len(numbers)), [len(self.tree.subpools[number]) for number in numbers])
        groups = np.concatenate((above, groups))
        order = np.argsort(groups, kind="stable")
        squeeze = np.concatenate((self.pool_squeeze[pools], squeeze))
        return join([inner, table]).take(order), squeeze[order], groups[order]

    def prepare(self, top: int) -> None:
        """Compute the curves of a pool and of all pools below it that are not known, those of one height at once."""
        waiting, below = [top], []
        while waiting:
            number = waiting.pop()
            if number not in self.own:
                below.append(number)
                waiting += self.tree.subpools[number]
        heights = self.tree.heights
        for height in sorted({heights[number] for number in below}):
            level = [number for number in below if heights[number] == height]
            self._compute_factor_curves([number for number in level if number not in self.by_factor])
            known = join([self.by_factor[number] for number in level])
            bounds = (self.given.strong + self.integral)[level]
            curves = by_suggestion(known, bounds, self.limits[level])
            self.own |= {number: curves.curve(at) for at, number in enumerate(level)}

    def _compute_factor_curves(self, numbers: Sequence[int]) -> None:
        """Compute F, the share by fit factor, of pools whose children's curves are known."""
        fifo = [number for number in numbers if self.tree.pool(number).fifo]
        fair = [number for number in numbers if not self.tree.pool(number).fifo]
        if fifo:
            children, _, groups = self.children_of(fifo)
            curves = chains(children, groups, len(fifo))
            self.by_factor |= {number: curves.curve(at) for at, number in enumerate(fifo)}
        if fair and not self.tree.options.improved_fit_factor:
            curves = totals(*self.children_of(fair), len(fair))
            self.by_factor |= {number: curves.curve(at) for at, number in enumerate(fair)}
        elif fair:
            for number in fair:
                children, squeeze, _ = self.children_of([number])
                empty = Curve(np.zeros(1), np.zeros((1, len(self.tree.resources))))
                self.by_factor[number] = staggered(children, squeeze) if len(children) else empty

    def factor_curve(self, number: int) -> Curve:
        """F of a pool: its share by fit factor."""
        if number not in self.by_factor:
            self.prepare(number)
        return self.by_factor[number]

    def limited(self, number: int, bound: Floats, limits: Floats) -> Curve:
        """S and, in the last column, M of a pool with another guarantee and other limits than its own."""
        return by_suggestion(join([self.factor_curve(number)]), bound[None], limits[None]).curve(0)

    # Integral shares (§5).

    def available(self, number: int) -> Floats:
        """How much integral share a pool and its ancestors below the root can still take."""
        path = self.tree.path(number)[:-1]
        room: Floats = np.maximum((self.limits - self.given.strong - self.integral)[path].min(0), 0.0)
        return room

    def grant(self, number: int, share: Floats) -> None:
        """Add integral share to a pool and all its ancestors; drop curves built from the old one."""
        for at in self.tree.path(number):
            self.integral[at] += share
            if at:
                self.integral[at] = np.minimum(self.integral[at], self.limits[at] - self.given.strong[at])
            self.own.pop(at, None)
            if at != number:
                self.by_factor.pop(at, None)

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
        taken = self.limited(number, strong + peak, self.limits[number]).y[0][:-1]
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
            curves.append(self.limited(number, strong + self.integral[number], bound))

        def taken(factor: float) -> Floats:
            parts = [
                curve.at(min(1.0, factor * rate / rates.min()))[:-1] for curve, rate in zip(curves, rates, strict=True)
            ]
            extra: Floats = np.maximum(np.array(parts) - self.given.strong[relaxed], 0.0)
            return extra

        steps = [curve.x[:-1][np.diff(curve.x) == 0] * rates.min() / rate
                 for curve, rate in zip(curves, rates, strict=True)]  # fmt: skip
        factor = largest_factor(lambda part: taken(part).sum(0), room, np.concatenate(steps))
        for number, share in zip(relaxed, taken(factor), strict=True):
            self.grant(number, np.minimum(share, self.available(number)))

    # Distribution, top-down (§6).

    def distribute(self, top: int, suggestion: float) -> tuple[Floats, Floats]:
        """Hand `suggestion` to a pool and everything below: shares of pools and of jobs, zero elsewhere."""
        self.prepare(top)
        if self.tree.options.improved_fit_factor:
            return self._hand_vectors_down(top, suggestion)
        columns = len(self.tree.resources)
        shares = np.zeros((len(self.weights), columns + 1))
        shares[top] = self.own[top].at(suggestion)
        reached = np.zeros(len(self.weights), bool)
        level = [top]
        while level:
            reached[level] = True
            level = [child for number in level for child in self.tree.subpools[number]]
            if level:
                parts = np.minimum(1.0, shares[self.tree.parents[level], -1] / self.pool_squeeze[level])
                shares[level] = join([self.own[number] for number in level]).at(parts)
        factor = shares[self.tree.pool_of, -1]
        fair = np.minimum(1.0, factor / self.job_squeeze)
        parts = np.where(self.fifo_effective < 0, fair, np.clip(factor - self.fifo_effective, 0.0, 1.0))
        jobs = np.zeros_like(self.demand)
        if len(jobs):
            jobs[self.order] = self.leaves.at(parts[self.order]) / self.tree.counts[self.order, None]
            jobs[~reached[self.tree.pool_of]] = 0.0
        return shares[:, :columns], jobs

    def _hand_vectors_down(self, top: int, suggestion: float) -> tuple[Floats, Floats]:
        """Distribute with the improved fit factor: pools hand shares down instead of suggestions."""
        pools = np.zeros_like(self.given.strong)
        jobs = np.zeros_like(self.demand)
        pools[top] = self.own[top].at(suggestion)[:-1]
        waiting = [top]
        while waiting:
            number = waiting.pop()
            children, squeeze, _ = self.children_of([number])
            if not len(children):
                continue
            factor = float(cut(self.factor_curve(number), pools[number]).x[-1])
            if self.tree.pool(number).fifo:
                shares = children.at(np.clip(factor - np.arange(len(children)), 0.0, 1.0))
            else:
                shares = staggered_parts(children, squeeze, factor)
            below, members = self.tree.subpools[number], self.members[number]
            pools[below] = shares[: len(below)]
            jobs[members] = shares[len(below) :] / self.tree.counts[members, None]
            waiting += below
        return pools, jobs

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
        reordered = np.array([self._reorders(number) for number in range(len(self.weights))])
        return Shares(
            tree=self.tree, pools=pools, jobs=jobs, pool_demand=self.pool_demand, job_demand=self.demand,
            pool_usage=self.pool_usage, job_usage=self.usage, limits=self.limits, job_limits=self.job_limits,
            guaranteed=self.given.strong, strong=strong,
            integral=np.minimum(np.maximum(pools - strong, 0.0), self.integral),
            promised_pools=promised_pools, promised_jobs=promised_jobs,
            estimated=counted_on(self.tree, self.given, heavy, self.given.strong[0]),
            expected=counted_on(self.tree, self.given, heavy, whole), volume=self.volume,
            weights=self.weights, job_weights=self.job_weights, fifo=self.fifo,
            fifo_effective=np.where(reordered[self.tree.pool_of], self.fifo_effective, -1),
            errors=self.given.errors + self._nested(),
        )  # fmt: skip

    def _promised(self) -> tuple[Floats, Floats]:
        """Shares at suggestion 0 below the topmost pools that ask for them."""
        pools, jobs = np.zeros_like(self.given.strong), np.zeros_like(self.demand)
        wanted = [number for number in self.tree.downward[1:] if self.tree.pool(number).promised]
        for number in wanted:
            if not any(self.tree.pool(at).promised for at in self.tree.path(number)[1:]):
                more = self.distribute(number, 0.0)
                pools, jobs = pools + more[0], jobs + more[1]
        return pools, jobs

    def _nested(self) -> tuple[str, ...]:
        errors = []
        promised = [(number, pool) for number, pool in enumerate(self.tree.pools, 1) if pool.promised]
        for number, pool in promised:
            above = [self.tree.pool(at) for at in self.tree.path(number)[1:]]
            over = [other.name for other in above if other.promised]
            if over:
                errors.append(f"promised guarantee of {pool.name!r} is ignored: {over[0]!r} above it computes one")
        return tuple(errors)


def fifo_order(tree: Tree, pool: Pool, members: Sequence[int], weight: Floats) -> list[int]:
    """Return the numbers of a pool's jobs by rank, then by its sort keys; ties keep the order given."""

    def key(index: int) -> list[float]:
        job = tree.jobs[index]
        values = {
            "weight": -float(weight[index]),
            "start_time": job.start_time,
            "pending_job_count": float(job.pending),
        }
        return [float(job.rank), *(values[name] for name in pool.sort_keys)]

    return sorted(members, key=key)


def for_guarantee(strong: Floats, gangs: Sequence[bool], jobs: tuple[Floats, Floats, Floats]) -> list[int]:
    """Return the places of jobs such that gangs which pack into the guarantee come before those that do not fit.

    `strong`: guarantee of the pool as a share; `jobs`: demand, usage and limits as shares (jobs, resources), in
    FIFO order. A gang without usage that does not fit is deferred. A job that is no gang and does not fit ends the
    packing: it comes next, behind it the deferred gangs and the rest in FIFO order. A gang that its limits forbid
    costs nothing.
    """
    demand, usage, limits = jobs
    places = list(range(len(gangs)))
    used = np.zeros(len(strong))
    first: list[int] = []
    deferred: list[int] = []
    for at in places:
        possible = not gangs[at] or bool((demand[at] <= limits[at] + SLACK).all())
        cost = np.minimum(demand[at], limits[at]) if possible else np.zeros(len(strong))
        fits = bool((used + cost <= strong + NEGLIGIBLE).all())
        if not fits and not gangs[at]:
            return [*first, at, *deferred, *places[at + 1 :]]
        if not fits and not usage[at].any():
            deferred.append(at)
            continue
        first.append(at)
        used = used + cost
    return first + deferred


def job_curves(*, demand: Floats, usage: Floats, limits: Floats, steps: Floats) -> Curves:
    """Return S of each job on [0, 1]. Arguments are shares (jobs, resources).

    `steps` is the part of its demand that a gang holds at least, 0 for other jobs.

    By fit factor a job first regains its usage, equal in all components, then rises linearly to its demand:
    F(f) = min(usage, f·max usage) for f ≤ 1, from usage to demand for f in [1, 2]. A gang is 0 below its
    step, from there on it rises linearly to its demand or to its limits. S(s) is F at the largest f that the suggestion
    and the limits allow.
    """
    count, width = demand.shape
    peak = usage.max(1, initial=0.0)
    factors = _corners(demand, usage, peak)
    factors = np.sort(
        np.minimum(factors, _ceiling(demand=demand, usage=usage, limits=limits, peak=peak)[:, None]), axis=1
    )
    early = np.minimum(usage[:, None, :], factors[:, :, None] * peak[:, None, None])
    late = usage[:, None, :] + (factors[:, :, None] - 1.0) * (demand - usage)[:, None, :]
    shares = np.where((factors <= 1.0)[:, :, None], early, late)
    heights = np.maximum.accumulate(shares.max(2), axis=1)
    if steps.any():
        _add_steps(heights, shares, demand=demand, limits=limits, steps=steps)
    owner = np.repeat(np.arange(count), factors.shape[1])
    x, y = heights.reshape(-1), shares.reshape(-1, width)
    first = np.searchsorted(owner * 4.0 + np.minimum(x, 2.0), np.arange(count) * 4.0 + TOLERANCE, "right") - 1
    started = np.arange(len(x)) >= np.repeat(first, factors.shape[1])
    x = np.where(x <= TOLERANCE, 0.0, x)
    below = started & (x < 1.0 - TOLERANCE)
    edge = started & ~below
    edge[1:] &= below[:-1] | (owner[1:] != owner[:-1]) | ~started[:-1]  # the value at 1 is the lower one
    kept = below | edge
    owner, x, y = clean(owner[kept], x[kept], y[kept])
    return by_owner(owner, x, y, count)


def _add_steps(heights: Floats, shares: Floats, *, demand: Floats, limits: Floats, steps: Floats) -> None:
    """Replace the corners of gangs: nothing up to the step, a jump, then a line to the demand or the limits."""
    bound = np.where(demand > limits + SLACK, limits / np.where(demand > 0, demand, 1.0), 1.0).min(1, initial=1.0)
    gangs, runs = steps > 0, (steps > 0) & (bound >= steps)
    shares[gangs] = 0.0
    heights[gangs] = 0.0
    top = demand.max(1, initial=0.0)
    heights[runs, 1:] = (steps * top)[runs, None]
    shares[runs, 2:] = (steps[:, None] * demand)[runs, None, :]
    heights[runs, -1] = (bound * top)[runs]
    shares[runs, -1] = (bound[:, None] * demand)[runs]


def _corners(demand: Floats, usage: Floats, peak: Floats) -> Floats:
    """Return fit factors between which both the shares and their maximum are linear: (jobs, corners)."""
    count, width = demand.shape
    safe = np.where(peak > 0, peak, 1.0)
    rise = demand - usage
    columns = [np.zeros(count), np.ones(count), np.full(count, 2.0)]
    columns += [usage[:, column] / safe for column in range(width)]
    if peak.any():
        for one, other in combinations(range(width), 2):
            ahead, gain = usage[:, one] - usage[:, other], rise[:, other] - rise[:, one]
            part = ahead / np.where(gain != 0, gain, 1.0)
            columns.append(1.0 + np.where((gain != 0) & (part > 0) & (part < 1), part, 0.0))
    factors = np.stack(columns, axis=1)
    return np.where((peak > 0)[:, None], factors, np.maximum(factors, 1.0))


def _ceiling(*, demand: Floats, usage: Floats, limits: Floats, peak: Floats) -> Floats:
    """Return the largest fit factor at which no component passes its limit: (jobs,)."""
    safe = np.where(peak > 0, peak, 1.0)[:, None]
    early = np.where(usage > limits + SLACK, limits / safe, np.inf)
    rise = demand - usage
    late = np.where(
        demand > limits + SLACK, 1.0 + np.maximum(limits - usage, 0.0) / np.where(rise > 0, rise, 1.0), np.inf
    )
    largest: Floats = np.minimum(np.minimum(early, late).min(1, initial=np.inf), 2.0)
    return largest


def staggered(children: Curves, squeeze: Floats) -> Curve:
    """F of the improved fit factor: each breakpoint of each child is a step of 1, and only that child jumps there.

    Breakpoints are sorted by place, then by child, so that of several jumps at one place the first child's is
    tried alone before the next one's.
    """
    lower, upper, where, owner = _events(children, squeeze)
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
    return Curve(np.append(x[keep], float(len(where))), np.concatenate((y[keep], y[-1:])))


def _events(children: Curves, squeeze: Floats) -> tuple[Floats, Floats, Integers, Integers]:
    """Return the values of the children at and behind all breakpoints, and place and child of each breakpoint."""
    scaled = Curves(children.x * np.repeat(squeeze, np.diff(children.starts)), children.y, children.starts)
    places, lower, upper = sides(scaled)
    at = np.searchsorted(places, scaled.x + TOLERANCE, "right") - 1
    pairs = np.unique(np.stack((at, scaled.owners()), axis=1), axis=0)
    return lower, upper, pairs[:, 0], pairs[:, 1]


def staggered_parts(children: Curves, squeeze: Floats, factor: float) -> Floats:
    """Return shares of the children at a fit factor of `staggered`; past a breakpoint the upper value holds."""
    lower, upper, where, owner = _events(children, squeeze)
    reached = int(np.ceil(factor - TOLERANCE))
    if reached >= len(where):
        return upper[:, -1]
    low = max(reached - 1, 0)
    part = min(max(factor - low, 0.0), 1.0) if reached else 0.0
    if where[low] != where[reached]:
        start, end = upper[:, where[low]], lower[:, where[reached]]
        shares: Floats = start + part * (end - start)
        return shares
    shares = lower[:, where[reached]].copy()
    passed = owner[(where == where[reached]) & (np.arange(len(where)) < reached)]
    shares[passed] = upper[passed, where[reached]]
    return shares
