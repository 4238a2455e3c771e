"""Satisfaction of pools and jobs (§8), starvation (§9), and which tasks of a job may be evicted for others (§10).

Starvation is a state machine with timeouts and tolerances. An element becomes starving when it stays below tolerance ×
fair share for longer than its timeout. It ceases only when no further unit fits under its share: with the tolerance as
the end as well, the rest of a share would come by ends of tasks alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from math import inf

import numpy as np

from omega.schedulers.fairshare.curves import Floats, Integers
from omega.schedulers.fairshare.tree import Tree

EPSILON = 1e-9
Vector = Sequence[float] | Floats
"""Amounts by resource: of few resources, loops cost less than arrays."""
Triple = tuple[Floats, Floats, Floats]
"""Fair share, demand and usage, as shares (elements, resources)."""


def local_satisfaction(share: Floats, demand: Floats, usage: Floats) -> Floats:
    """Return usage ÷ fair share of each element as one number: (elements,), infinite where there is no share.

    The largest ratio where usage passes the share in some component; else the largest over the components whose
    share is below demand, and where there is none of these the smallest of all components with a share.
    """
    safe = np.where(share > EPSILON, share, 1.0)
    ratio = np.where(share > EPSILON, usage / safe, np.where(usage > EPSILON, np.inf, np.nan))
    over = (usage > share + EPSILON).any(1)
    open_ = share < demand - EPSILON
    with np.errstate(invalid="ignore"):
        largest = np.nanmax(np.where(np.isnan(ratio), -np.inf, ratio), axis=1)
        largest_open = np.where(open_ & ~np.isnan(ratio), ratio, -np.inf).max(1)
        smallest = np.where(np.isnan(ratio), np.inf, ratio).min(1)
    ratios = np.where(over, largest, np.where(open_.any(1), np.maximum(largest_open, 0.0), smallest))
    none: Floats = np.where((share <= EPSILON).all(1), np.inf, ratios)
    return none


def satisfaction_of(
    held: Sequence[float], at: Sequence[int], parts: Sequence[tuple[int, float]], open_: Sequence[tuple[int, float]]
) -> float:
    """Usage ÷ fair share of one pool as a number; a pool without a share comes after all that have one.

    `parts`: resources, of those `at`, with a share, and the share; `open_`: those of them with a share below demand.
    """
    if not parts:
        return 1e9 + sum([held[d] for d in at])
    ratios = [held[d] / part for d, part in parts]
    most = max(ratios)
    if most > 1.0 + EPSILON or len(parts) == 1:
        return most
    return max([held[d] / part for d, part in open_]) if open_ else min(ratios)


def satisfactions(tree: Tree, pools: Triple, jobs: Triple) -> Triple:
    """Return satisfaction of pools (the least of what is below), local satisfaction of pools, satisfaction of jobs."""
    own = local_satisfaction(*jobs)
    local = local_satisfaction(*pools)
    least = np.full(len(local), np.inf)
    np.minimum.at(least, tree.pool_of, own)
    for number in reversed(tree.downward[1:]):
        least[tree.parents[number]] = min(least[tree.parents[number]], least[number])
    return least, local, own


def least_jobs(tree: Tree, own: Floats) -> Integers:
    """Return the place of the least satisfied job below each pool, given the satisfaction of jobs; −1 without any."""
    least = np.full(len(tree.numbers), -1)
    order = np.argsort(own, kind="stable")[::-1]
    least[tree.pool_of[order]] = order
    for number in reversed(tree.downward[1:]):
        above, job = tree.parents[number], least[number]
        if job >= 0 and (least[above] < 0 or own[job] < own[least[above]]):
            least[above] = job
    return least


def below(*, bound: Vector, usage: Vector, share: Vector, demand: Vector) -> bool:
    """Whether `usage` is below `bound`: in all components whose share is below demand; where there is none, in any."""
    less = [most > has + EPSILON for most, has in zip(bound, usage, strict=True)]
    open_ = [low for low, part, wants in zip(less, share, demand, strict=True) if part < wants - EPSILON]
    return all(open_) if open_ else any(less)


def is_below_fair_share(share: Vector, demand: Vector, usage: Vector, tolerance: float, *, job: bool) -> bool:
    """Return whether an element gets less than `tolerance` of its fair share.

    The tolerance of a job whose share is its whole demand is 1.
    """
    if job and all(part + 1e-4 >= wants for part, wants in zip(share, demand, strict=True)):
        tolerance = 1.0
    bound = [min(part * tolerance, wants) for part, wants in zip(share, demand, strict=True)]
    return below(bound=bound, usage=usage, share=share, demand=demand)


def starvation(
    since: float | None, now: float, timeouts: tuple[float, float | None], *, is_below: bool
) -> tuple[str, float | None]:
    """Return the status of an element and the time since when it is below its share.

    `timeouts`: ordinary and aggressive (None: off).

    Statuses are `normal`, `starving`, `aggressively_starving`. Times in seconds; they compare strictly.
    """
    if not is_below:
        return "normal", None
    begun = now if since is None else since
    ordinary, aggressive = timeouts
    if aggressive is not None and now > begun + aggressive:
        return "aggressively_starving", begun
    return ("starving" if now > begun + ordinary else "normal"), begun


class Status(IntEnum):
    """How an element stands; the larger, the more it may evict."""

    NORMAL = 0
    STARVING = 1
    AGGRESSIVELY_STARVING = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class StarvationRules:
    """When an element starves; times in seconds, an infinite one is off. Defaults: those of YTsaurus for its root."""

    tolerance: float = 0.8
    timeout: float = 30.0
    aggressive_timeout: float = float("inf")


DEFAULTS = StarvationRules()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stand:
    """How a job or a pool stands: fair share, demand and usage, as shares, and the least unit that it wants next."""

    share: Vector
    demand: Vector
    usage: Vector
    unit: Vector
    job: bool = False


def another_fits(stand: Stand) -> bool:
    """Return whether one more unit fits under the share in every resource that it needs."""
    each = zip(stand.unit, stand.usage, stand.share, strict=True)
    fits = [has + more <= part + EPSILON for more, has, part in each if more > EPSILON]
    return bool(fits) and all(fits)


@dataclass(slots=True)
class Starvation:
    """The states of a tree's elements by name. Times compare strictly. `rules` by element, DEFAULTS for others."""

    rules: Mapping[str, StarvationRules] = field(default_factory=dict)
    _since: dict[str, float] = field(default_factory=dict, repr=False)
    _status: dict[str, Status] = field(default_factory=dict, repr=False)

    def update(self, now: float, name: str, stand: Stand) -> None:
        """Take over how one element stands at `now` (seconds)."""
        rules = self.rules.get(name, DEFAULTS)
        starves = self._status.get(name, Status.NORMAL) > Status.NORMAL
        low = is_below_fair_share(stand.share, stand.demand, stand.usage, rules.tolerance, job=stand.job)
        if not (low or (starves and another_fits(stand))):
            self.forget(name)
            return
        since = self._since.setdefault(name, now)
        if now > since + rules.aggressive_timeout:
            self._status[name] = Status.AGGRESSIVELY_STARVING
        elif starves or now > since + rules.timeout:
            self._status[name] = max(Status.STARVING, self._status.get(name, Status.STARVING))

    def forget(self, name: str) -> None:
        """Take an element as one that is not below its share."""
        self._since.pop(name, None)
        self._status.pop(name, None)

    def status(self, name: str) -> Status:
        """How an element stands."""
        return self._status.get(name, Status.NORMAL)

    def since(self, name: str) -> float | None:
        """Since when an element is below its share (seconds); None when it is not."""
        return self._since.get(name)

    def due(self, name: str) -> float | None:
        """When an element that is below its share becomes starving (seconds); None when it is not, or starves."""
        since = self._since.get(name)
        if since is None or self.status(name) is not Status.NORMAL:
            return None
        return since + self.rules.get(name, DEFAULTS).timeout

    def followed(self) -> list[str]:
        """Return the elements that are below their shares."""
        return list(self._since)


class Preemptible(IntEnum):
    """What may happen to a running task; the larger, the sooner it is evicted."""

    NO = 0
    AGGRESSIVELY = 1
    YES = 2


class Bounds:
    """What a job keeps of its usage, by its fair share and demand (shares by resource).

    A task belongs to the first list while the usage before it is within the guard or below aggressive × share, to the
    second while that is below ordinary × share; the rest is preemptible. The task that crosses a bound stays on the
    protected side. A job whose share is its whole demand has no task in the last partition.
    """

    def __init__(self, share: Floats, demand: Floats, *, ordinary: float, aggressive: float, guard: Floats) -> None:
        """Compute both bounds. `guard`: usage below which tasks are never preempted."""
        if bool((np.abs(share - demand) <= EPSILON).all()) and bool((demand > EPSILON).any()):
            ordinary = inf
        with np.errstate(invalid="ignore"):
            self._bounds = [np.nan_to_num(share * factor, nan=0.0, posinf=inf) for factor in (aggressive, ordinary)]
        self._guard, self._share, self._demand = guard, share, demand

    def kind(self, used: Floats) -> Preemptible:
        """What may happen to a task of the job, given the usage of the tasks before it."""
        return Preemptible(next((stage for stage in (0, 1) if self._stays(stage, used)), 2))

    def _stays(self, stage: int, used: Floats) -> bool:
        if stage == 0 and bool((used < self._guard).all()):
            return True
        return below(bound=self._bounds[stage], usage=used, share=self._share, demand=self._demand)

    def kept(self, least: Preemptible) -> list[tuple[Floats, bool]]:
        """Return what the job keeps when tasks of this and of later lists go: vectors, each kept in some resource.

        With True it is kept in every resource. A resource that does not count is infinite.
        """
        vectors: list[tuple[Floats, bool]] = []
        if bool((self._guard > 0).any()):
            vectors.append((self._guard, False))
        open_, bound = self._share < self._demand - EPSILON, self._bounds[least - 1]
        vectors.append((np.where(open_, bound, inf), False) if open_.any() else (bound, True))
        return vectors


def partition(
    tasks: Floats, element: Triple, thresholds: tuple[float, float], protected: Floats | None = None
) -> tuple[int, int]:
    """Split a job's running tasks, oldest first: (non-preemptible, aggressively preemptible); the rest is preemptible.

    `tasks`: share of each task (tasks, resources); `element`: fair share, demand and usage of the job, each
    (resources,); `thresholds`: aggressive and ordinary preemption satisfaction threshold; `protected`: usage (as a
    share) below which tasks are never preempted.
    """
    share, demand, _ = element
    guard = np.zeros(len(share)) if protected is None else protected
    bounds = Bounds(share, demand, ordinary=thresholds[1], aggressive=thresholds[0], guard=guard)
    kinds = [bounds.kind(used) for used in np.cumsum(np.vstack((np.zeros(len(share)), tasks)), axis=0)[:-1]]
    return kinds.count(Preemptible.NO), kinds.count(Preemptible.AGGRESSIVELY)
