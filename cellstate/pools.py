"""Pools as the cell stores them: settings of pools and trees, their validation, and the published fair shares.

A pool tree divides the machines that its formula selects. Jobs belong to leaf pools; a job without a pool belongs to
the pool of its user's name, which exists while the user has jobs (an ephemeral pool). Rules: docs/pools.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import NamedTuple

from omega.cellstate.resources import Resources

ROOT = "<Root>"
"""Name of the root of each tree; no pool may have it."""
NOBODY = "<none>"
"""The ephemeral pool of jobs without a pool and without a user."""
DEFAULT_TREE = "default"
TASKS, JOBS = "tasks", "jobs"
"""Names in limits beside the cell's resources: running tasks (user slots), and jobs with running tasks."""
MODES = ("fair_share", "fifo")
SORT_KEYS = ("weight", "start_time", "pending_job_count")
INTEGRAL = ("none", "burst", "relaxed")
RECLAIM = ("never", "guarantee", "fair-share")
MOST_POOLS = 2_000
MOST_DEPTH = 16
MOST_USERS = 1_000
Amounts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Integral:
    """An integral guarantee: amounts per second (`flow`) and at peak (`burst`), by resource, in smallest units."""

    kind: str = "none"
    flow: Amounts = field(default_factory=dict)
    burst: Amounts = field(default_factory=dict)
    relaxed_multiplier: float | None = None
    can_accept_free_volume: bool = True
    distributes_free_volume: bool | None = None


@dataclass(frozen=True, slots=True)
class Preemption:
    """When jobs of a pool starve and which of their tasks may be evicted.

    None: as the parent pool, below the root as the tree. Times in seconds; thresholds and tolerance as multiples of
    the fair share (docs/pools.md, rules 9 and 10).
    """

    starvation_tolerance: float | None = None
    starvation_timeout: float | None = None
    aggressive_starvation_timeout: float | None = None
    aggressive_starvation: bool | None = None
    threshold: float | None = None
    aggressive_threshold: float | None = None
    non_preemptible_usage: Amounts | None = None
    allocation_timeout: float | None = None
    backoff: float | None = None
    allow_regular_preemption: bool | None = None
    allow_aggressive_preemption: bool | None = None
    evict_over_capacity: bool | None = None
    evict_over_limit: bool | None = None
    minimum_runtime: float | None = None
    evictions_per_minute: int | None = None
    eviction_cost: float | None = None
    gang_timeout: float | None = None


DEFAULT_PREEMPTION = Preemption(
    starvation_tolerance=0.8, starvation_timeout=30.0, aggressive_starvation_timeout=120.0,
    aggressive_starvation=False, threshold=1.0, aggressive_threshold=0.2, non_preemptible_usage={},
    backoff=5.0, allow_regular_preemption=True,
    allow_aggressive_preemption=True, evict_over_capacity=False, evict_over_limit=False, minimum_runtime=0.0,
    eviction_cost=0.0, gang_timeout=300.0,
)  # fmt: skip
"""Defaults where neither a pool nor an ancestor nor its tree has a setting; the others have none."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Settings of a pool. Amounts by resource in the cell's smallest units.

    `number` is given by the store and never given again; 0 before that. Only a pool below the root names a `tree`; the
    others are in their parent's. `users` may submit jobs; empty means all that the parent admits. `limits` may also
    name ``tasks`` and ``jobs``. `borrowing` bounds the use beyond the guarantee, `lending` the part of the guarantee
    that others may use.
    """

    name: str
    parent: str = ROOT
    tree: str = ""
    number: int = 0
    weight: float | None = None
    guarantee: Amounts = field(default_factory=dict)
    limits: Amounts = field(default_factory=dict)
    mode: str = MODES[0]
    sort_keys: tuple[str, ...] = ("weight", "start_time")
    integral: Integral = field(default_factory=Integral)
    users: tuple[str, ...] = ()
    reclaim: str = RECLAIM[2]
    borrowing: Amounts = field(default_factory=dict)
    lending: Amounts = field(default_factory=dict)
    preemption: Preemption = field(default_factory=Preemption)
    promised: bool = False
    gang_steps: bool = True
    reorders_for_guarantee: bool = False

    @property
    def upper(self) -> Amounts:
        """The limits in force: those stated, and guarantee + borrowing where that is less."""
        most = {name: self.guarantee.get(name, 0) + amount for name, amount in self.borrowing.items()}
        return {**self.limits, **{name: min(amount, self.limits.get(name, amount)) for name, amount in most.items()}}

    @property
    def kept(self) -> Amounts:
        """What the pool does not lend of its guarantee, of the resources of which it lends a part only."""
        rest = {name: self.guarantee.get(name, 0) - amount for name, amount in self.lending.items()}
        return {name: amount for name, amount in rest.items() if amount > 0}


@dataclass(frozen=True, slots=True)
class PoolTree:
    """A tree: the machines it divides, as a formula over their attributes ("" for those of no other tree).

    `default_parent` is the pool below which ephemeral pools stand. The options are those of the calculator
    (docs/pools.md, Fields); periods in seconds.
    """

    name: str = DEFAULT_TREE
    machines: str = ""
    default_parent: str = ROOT
    gang_steps: bool = False
    improved_fit_factor: bool = False
    reorder_for_guarantee: bool = False
    distribute_free_volume: bool = False
    main_resource: str = "cpu"
    smooth_period: float = 60.0
    saturation_period: float = 86_400.0
    relaxed_multiplier: float = 3.0
    weight_multiplier: float | None = None
    usage_half_life: float | None = None
    """Seconds by which past usage counts half; None: it does not reduce weights (docs/pools.md, 8)."""
    usage_exponent: float = 1.0
    """Weights are multiplied by 2 to the power of -(exponent × decayed usage)."""
    partition_everywhere: bool = False
    """Whether docs/pools.md, 10 also decides between pools, instead of the rule on sets of evictions."""
    operators_from: int | None = None
    """Jobs of at least this precedence may evict across pools by precedence alone (the operators' band)."""
    preemption: Preemption = field(default_factory=Preemption)


@dataclass(frozen=True)
class Pools:
    """The pools of a cell: what operators configured, at `version`, the cell's version of the last change.

    Without pools nothing is configured, and jobs may name any pool. Raises nothing; `check` validates.
    """

    pools: tuple[Pool, ...] = ()
    trees: tuple[PoolTree, ...] = (PoolTree(),)
    version: int = 0

    @property
    def configured(self) -> bool:
        """Whether there is any pool."""
        return bool(self.pools)

    @cached_property
    def divided(self) -> bool:
        """Whether attributes of machines decide which tree they belong to."""
        return any(tree.machines for tree in self.trees)

    @cached_property
    def limited(self) -> bool:
        """Whether some pool carries limits; those of lending are apart (`Pool.kept`)."""
        return any(pool.upper for pool in self.pools)

    @cached_property
    def by_name(self) -> dict[str, Pool]:
        """The pools by their names."""
        return {pool.name: pool for pool in self.pools}

    @cached_property
    def children(self) -> dict[str, list[Pool]]:
        """The pools directly below each pool (or ``ROOT``) that has any."""
        below: dict[str, list[Pool]] = {}
        for pool in self.pools:
            below.setdefault(pool.parent, []).append(pool)
        return below

    @cached_property
    def leaves(self) -> set[str]:
        """Names of the pools that may hold jobs: those without pools below them."""
        inner = {pool.parent for pool in self.pools}
        return {pool.name for pool in self.pools if pool.name not in inner}

    @cached_property
    def operators_from(self) -> int | None:
        """The precedence from which jobs evict across pools by precedence alone; None unless every tree has one."""
        stated = [tree.operators_from for tree in self.trees]
        return None if not stated or None in stated else max(each for each in stated if each is not None)

    def path(self, name: str) -> list[Pool]:
        """Return the pool of that name and its ancestors, without the root; empty for an unknown name."""
        named, found = self.by_name, list[Pool]()
        while (pool := named.get(name)) is not None and len(found) < MOST_DEPTH:
            found.append(pool)
            name = pool.parent
        return found

    def tree_of(self, name: str) -> PoolTree:
        """Return the tree of a pool; the first tree for an unknown (ephemeral) one."""
        path = self.path(name)
        wanted = path[-1].tree if path else ""
        return next((tree for tree in self.trees if tree.name == wanted), self.trees[0])

    def preemption(self, name: str) -> Preemption:
        """The settings that hold for a pool, with defaults.

        None: no budget (`evictions_per_minute`), the grace of each job (`allocation_timeout`).
        """
        tree, found = self.tree_of(name), DEFAULT_PREEMPTION
        parent = self.path(name) or self.path(tree.default_parent)
        for settings in (tree.preemption, *(pool.preemption for pool in reversed(parent))):
            stated = {each.name: getattr(settings, each.name) for each in fields(Preemption)}
            found = replace(found, **{name: value for name, value in stated.items() if value is not None})
        return found

    def pool_of(self, pool: str, user: str) -> str:
        """Return the name of the pool of a job that names `pool` ("" for none) and was submitted by `user`."""
        return pool or user or NOBODY

    def parent_of(self, name: str) -> str:
        """Return the name of a pool's parent, of an ephemeral pool the default parent of the first tree."""
        pool = self.by_name.get(name)
        return pool.parent if pool is not None else self.trees[0].default_parent

    def chain(self, name: str) -> list[Pool]:
        """The pool and its ancestors that carry limits, from the pool upward; of an ephemeral pool its ancestors."""
        path = self.path(name) or self.path(self.trees[0].default_parent)
        return [pool for pool in path if pool.upper]

    def closed_to(self, name: str, user: str) -> Pool | None:
        """Return the pool whose list of users keeps a user from submitting to a pool; None: the user may submit.

        The lists of a pool and of all its ancestors hold, for an ephemeral pool those of its ancestors.
        """
        path = self.path(name) or self.path(self.trees[0].default_parent)
        return next((pool for pool in path if pool.users and user not in pool.users), None)

    def admitted(self, name: str) -> tuple[str, ...] | None:
        """Return the users that may submit to a pool ("" for any ephemeral one), in order; None: all users."""
        path = self.path(name) or self.path(self.trees[0].default_parent)
        lists = [set(pool.users) for pool in path if pool.users]
        return tuple(sorted(set.intersection(*lists))) if lists else None


@dataclass(frozen=True, slots=True)
class PoolShare:
    """A pool in an epoch. Shares by resource, in the order of the cell's resources, as parts of the tree's totals."""

    name: str
    parent: str
    tree: str
    weight: float
    fair_share: tuple[float, ...]
    demand: tuple[float, ...]
    usage: tuple[float, ...]
    guarantee: tuple[float, ...]
    """The strong guarantee after inference and adjustment."""
    integral: tuple[float, ...]
    limits: tuple[float, ...]
    promised: tuple[float, ...]
    estimated: tuple[float, ...]
    satisfaction: float
    """Usage ÷ fair share (docs/pools.md, 8); infinite without a share."""
    volume: tuple[float, ...] = ()
    """Accumulated volume of an integral guarantee, in smallest units × seconds."""
    last_share: float = 0.0
    """The charge of the next epoch to the volume: the largest component of `integral`."""
    ephemeral: bool = False
    decayed_usage: float = 0.0
    """What the pool used before, as a part of the totals, by the half-life of its tree: its weight depends on it."""


class Leaf(NamedTuple):
    """Equal jobs of a pool in an epoch: demand (usage included) and usage of each, in smallest units.

    `start` orders the jobs of FIFO pools: by precedence, then by submission; `pending` counts unplaced tasks.
    """

    pool: str
    demand: Resources
    usage: Resources
    gang: bool
    start: int
    pending: int
    jobs: list[str]


@dataclass(frozen=True)
class Epoch:
    """Fair shares, computed from the cell at `version` and published under `number` (semantics 34).

    `at_ms` is the server's time; `pools_version` the version of the pools that it was computed with; `totals` the
    amounts of each tree's machines that are up, by its name; `pools` the shares by pool, with those of ephemeral pools
    and, under ``TREE/<Root>``, of the roots; `leaf_shares` those of each job of a leaf, by tree, in the order of
    `leaves`. The rest is what it was computed from: leaves by tree, volume and last share of integral guarantees
    before, and the seconds since the epoch before (None: there was none). `published` is the cell's version right after
    the publication.
    """

    number: int
    version: int
    pools_version: int
    at_ms: int
    by: str
    totals: Mapping[str, Resources]
    pools: Mapping[str, PoolShare]
    leaf_shares: Mapping[str, Sequence[tuple[float, ...]]] = field(default_factory=dict)
    leaves: Mapping[str, Sequence[Leaf]] = field(default_factory=dict)
    before: Mapping[str, tuple[Sequence[float], float]] = field(default_factory=dict)
    seconds: float | None = None
    published: int = 0

    @cached_property
    def jobs(self) -> dict[str, tuple[float, ...]]:
        """The fair share of every job that held or wanted something, by its id."""
        return {
            job: share
            for tree, leaves in self.leaves.items()
            for leaf, share in zip(leaves, self.leaf_shares[tree], strict=True)
            for job in leaf.jobs
        }
