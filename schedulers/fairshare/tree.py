"""A pool tree as plain values: pools, jobs, the totals of the machines it covers, and the options of its update.

Shares are amounts ÷ totals, 0 where the total is 0. Source of the rules: the public sources of YTsaurus
(fair share library and pool tree), read as mathematics; "§n" in this package is rule n of docs/pool-rules.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from math import isfinite

import numpy as np

from omega.cellstate.errors import BadInput
from omega.cellstate.pools import ROOT, Integral, Pool, PoolTree, table
from omega.schedulers.fairshare.curves import Floats, Integers

Amounts = Mapping[str, float]
_ROOT_POOL = Pool(ROOT, parent="")
_CHOICES, _CHOICES_OF_INTEGRAL = ([each for each in table(kind) if each.choices] for kind in (Pool, Integral))


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolState:
    """What an update reads of a pool beside its settings. `volume` in resource·seconds.

    `last_share`: largest component of the integral share of the update before. `decay`: multiplier of the weight for
    what the pool used before (§8). `priority_guarantee`: the guarantee is fitted first, up to a `guarantee_donor`.
    """

    volume: Amounts = field(default_factory=dict)
    last_share: float = 0.0
    decay: float = 1.0
    priority_guarantee: bool = False
    guarantee_donor: bool = False


_NEW, _DEFAULTS = PoolState(), PoolTree()


@dataclass(frozen=True, slots=True)
class Job:
    """A leaf of the tree. `demand` holds the usage as well; amounts in the units of the totals.

    `count` equal jobs may be one leaf of a fair-share pool, if their demand is a multiple of their usage: amounts,
    weight and shares are those of each.
    """

    name: str
    parent: str
    demand: Amounts
    _: KW_ONLY
    usage: Amounts = field(default_factory=dict)
    limits: Amounts = field(default_factory=dict)
    weight: float | None = None
    gang: bool = False
    start_time: float = 0.0
    pending: int = 1
    count: int = 1
    rank: int = 0
    """Jobs of a lower rank come first in a FIFO pool, whatever its sort keys."""
    least: float = 0.0
    """The part of its demand below which a gang with a minimum does not run."""


@dataclass(frozen=True)
class Tree:
    """Pools and jobs over `totals`, by the settings of a tree. A parent may stand before or behind its children.

    `states` of pools by name; `quanta`: unit to which inferred guarantees are cut, by resource, else 1.
    Raises BadInput for names that are used twice, unknown parents, circles, children of a FIFO pool that are
    pools, weights that are not above 0, amounts below 0 and resources that the totals do not name.
    """

    totals: Amounts
    pools: Sequence[Pool]
    jobs: Sequence[Job]
    options: PoolTree = _DEFAULTS
    _: KW_ONLY
    states: Mapping[str, PoolState] = field(default_factory=dict)
    quanta: Amounts = field(default_factory=lambda: {"cpu": 0.01})

    def __post_init__(self) -> None:
        _check(self)

    @cached_property
    def resources(self) -> tuple[str, ...]:
        """Names of the resources, in the order of all vectors."""
        return tuple(self.totals)

    @cached_property
    def capacity(self) -> Floats:
        """Totals as a vector."""
        return np.array([float(self.totals[name]) for name in self.resources])

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Pool name → its number; the root is 0, the others follow in the order given."""
        return {ROOT: 0} | {pool.name: number for number, pool in enumerate(self.pools, 1)}

    @cached_property
    def parents(self) -> Integers:
        """Number of each pool's parent; −1 for the root."""
        return np.array([-1, *(self.numbers[pool.parent] for pool in self.pools)], np.int64)

    @cached_property
    def subpools(self) -> list[list[int]]:
        """Numbers of the pools directly below each pool, in the order given."""
        below: list[list[int]] = [[] for _ in self.numbers]
        for number, parent in enumerate(self.parents[1:].tolist(), 1):
            below[parent].append(number)
        return below

    @cached_property
    def downward(self) -> list[int]:
        """All pools, depth first, parents before their children."""
        order, waiting = [], [0]
        while waiting:
            order.append(waiting.pop())
            waiting.extend(reversed(self.subpools[order[-1]]))
        return order

    @cached_property
    def heights(self) -> list[int]:
        """Levels of pools below each pool."""
        levels = [0] * len(self.numbers)
        for number in reversed(self.downward[1:]):
            above = int(self.parents[number])
            levels[above] = max(levels[above], levels[number] + 1)
        return levels

    @cached_property
    def pool_of(self) -> Integers:
        """Number of each job's pool."""
        return np.array([self.numbers[job.parent] for job in self.jobs], np.int64)

    @cached_property
    def counts(self) -> Floats:
        """How many jobs each leaf stands for."""
        return np.array([job.count for job in self.jobs], float)

    def pool(self, number: int) -> Pool:
        """Return the pool of a number; the root has no settings of its own."""
        return self.pools[number - 1] if number else _ROOT_POOL

    def state(self, number: int) -> PoolState:
        """Return the state of the pool of a number."""
        return self.states.get(self.pool(number).name, _NEW)

    def vector(self, amounts: Amounts, missing: float = 0.0) -> Floats:
        """Return amounts as a vector, `missing` where a resource is not named."""
        return np.array([float(amounts.get(name, missing)) for name in self.resources])

    def table(self, rows: Sequence[Amounts], missing: float = 0.0) -> Floats:
        """Return amounts of many as an array (rows, resources)."""
        columns = [[row.get(name, missing) for row in rows] for name in self.resources]
        return np.array(columns, dtype=float).reshape(len(self.resources), len(rows)).T

    def share(self, amounts: Floats) -> Floats:
        """Return amounts ÷ totals, 0 where the total is 0."""
        safe = np.where(self.capacity > 0, self.capacity, 1.0)
        return np.where(self.capacity > 0, amounts / safe, 0.0)

    def summed(self, jobs: Floats) -> Floats:
        """Add amounts of jobs (jobs, resources) up the tree, each as often as its leaf counts: (pools, resources)."""
        pools = np.zeros((len(self.numbers), len(self.resources)))
        np.add.at(pools, self.pool_of, jobs * self.counts[:, None])
        for number in reversed(self.downward[1:]):
            pools[self.parents[number]] += pools[number]
        return pools

    def path(self, number: int) -> list[int]:
        """Return the pool and its ancestors up to the root."""
        numbers = [number]
        while numbers[-1]:
            numbers.append(int(self.parents[numbers[-1]]))
        return numbers


def _check(tree: Tree) -> None:
    if not tree.totals:
        raise BadInput("pool tree: the totals name no resource")
    for resource, total in tree.totals.items():
        if not (isfinite(total) and total >= 0):
            raise BadInput(f"pool tree: the total of {resource} is {total!r}; amounts are 0 or more")
    seen = {ROOT}
    elements: list[Pool | Job] = [*tree.pools, *tree.jobs]
    for element in elements:
        if element.name in seen:
            raise BadInput(f"pool tree: two elements are named {element.name!r}; names are unique in a tree")
        seen.add(element.name)
    known = {ROOT} | {pool.name for pool in tree.pools}
    fifo = {pool.name for pool in tree.pools if pool.fifo}
    for element in elements:
        if element.parent not in known:
            raise BadInput(f"pool tree: {element.name!r} is below {element.parent!r}, which is no pool of this tree")
        if isinstance(element, Pool) and element.parent in fifo:
            raise BadInput(
                f"pool tree: {element.name!r} is below the FIFO pool {element.parent!r}, which holds jobs only"
            )
        if element.weight is not None and not (isfinite(element.weight) and element.weight > 0):
            raise BadInput(f"pool tree: weight {element.weight!r} of {element.name!r}; weights are above 0")
        _check_amounts(tree, element, fifo)
    if len(tree.downward) != len(tree.pools) + 1:
        below = {tree.pool(number).name for number in tree.downward}
        lost = sorted(pool.name for pool in tree.pools if pool.name not in below)
        raise BadInput(f"pool tree: {', '.join(lost)} form a circle; each pool has a path to the root")


def _check_amounts(tree: Tree, element: Pool | Job, fifo: set[str]) -> None:
    if isinstance(element, Pool):
        fields: dict[str, Amounts] = {"guarantee": element.guarantee, "limits": element.limits}
        fields |= {"flow": element.integral.flow, "burst": element.integral.burst}
        for of, rows in ((element, _CHOICES), (element.integral, _CHOICES_OF_INTEGRAL)):
            for each in rows:
                given = getattr(of, each.name)
                for word in given if isinstance(given, tuple) else (given,):
                    if word not in each.choices:
                        where = f"{each.label} {word!r} of {element.name!r}"
                        raise BadInput(f"pool tree: {where}; one of {', '.join(each.choices)}")
        if element.name in tree.states:
            fields["volume"] = tree.states[element.name].volume
    else:
        fields = {"demand": element.demand, "usage": element.usage, "limits": element.limits}
    for name, amounts in fields.items():
        for resource, amount in amounts.items():
            if resource not in tree.totals:
                known = ", ".join(tree.totals)
                raise BadInput(f"pool tree: {name} of {element.name!r} names {resource!r}; the tree has {known}")
            if not (isfinite(amount) and amount >= 0):
                where = f"{name} of {element.name!r}"
                raise BadInput(f"pool tree: {where}: {resource} is {amount!r}; amounts are 0 or more")
    if isinstance(element, Job):
        if element.count > 1 and (element.gang or element.least or element.parent in fifo):
            raise BadInput(f"pool tree: {element.name!r} stands for {element.count} gangs or jobs of a FIFO pool")
        for resource, used in element.usage.items():
            if used > element.demand.get(resource, 0.0):
                raise BadInput(
                    f"pool tree: {element.name!r} uses more {resource} than its demand, which holds the usage"
                )
