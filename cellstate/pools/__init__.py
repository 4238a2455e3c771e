"""Pools of a cell: settings, rules, records, and the fair shares that schedulers publish.

A pool tree divides the machines that its formula selects. Jobs belong to leaf pools; a job without a pool belongs to
the pool of its user's name, which exists while the user has jobs (an ephemeral pool). Use: docs/pools.md.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, MISSING, Field, dataclass, field, fields, replace
from functools import cached_property
from math import inf, isfinite
from types import NoneType
from typing import Any, NamedTuple, get_args

from omega.cellstate.job_demands import LEAST_WEIGHT, MOST_WEIGHT
from omega.cellstate.resources import Resources

# The settings of a pool and of a pool tree: one table, from which every other form of them comes.
#
# A row is a field below: name, type and default are the field's, the rest its `Setting`. Records, rules, pool files,
# JSON, the options of ``omega pool set`` and the table of the pages read `table`; the calculator of fair shares takes
# the settings themselves. Amounts are in the cell's smallest units; times in seconds.

ROOT = "<Root>"
"""Name of the root of each tree; no pool may have it."""
NOBODY = "<none>"
"""The ephemeral pool of jobs without a pool and without a user."""
DEFAULT_TREE = "default"
TASKS, JOBS = "tasks", "jobs"
"""Names in limits beside the cell's resources: running tasks (user slots), and jobs with running tasks."""
MOST_POOLS = 2_000
MOST_DEPTH = 16
MOST_USERS = 1_000
Amounts = Mapping[str, Any]
"""Amounts by resource: whole numbers in a cell (`rules.check`), any numbers in a tree that is computed only."""


class Bounds(NamedTuple):
    """Bounds of a number, `least` excluded if `above`; `error`: what a message says instead of the bounds."""

    least: float = 0.0
    most: float = inf
    above: bool = False
    error: str = ""

    def admit(self, value: float) -> bool:
        """Whether a number is within the bounds."""
        return isfinite(value) and self.least <= value <= self.most and not (self.above and value == self.least)

    @property
    def text(self) -> str:
        """The bounds in words."""
        if self.most < inf:
            return f"{self.least:,g} to {self.most:,.0f}"
        return f"more than {self.least:g}" if self.above else f"{self.least:g} or more"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A row of the table.

    `counts`: where it counts (tree, shares, claims, epochs, submissions, evictions; "": the store sets it).
    `inherited`: default where nothing above states one; `without`: what no value means. `file`: its name in files and
    JSON, `compute`: in files of ``omega pool compute``, `option` and `metavar`: of ``omega pool set``, `label`: in
    messages. `names`: what amounts may name beside resources.
    """

    meaning: str
    counts: str
    unit: str = ""
    bounds: Bounds | None = None
    choices: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    inherited: Any = None
    without: str = ""
    compute: str = ""
    name: str = ""
    file: str = ""
    option: str = ""
    metavar: str = ""
    label: str = ""
    default: Any = None
    value_type: Any = None
    """The type of a value, without None."""
    optional: bool = False

    @property
    def configurable(self) -> bool:
        """Whether operators set it."""
        return bool(self.counts)

    @property
    def nested(self) -> bool:
        """Whether the value is a group of settings."""
        return self.value_type in (Integral, PreemptionSettings)

    @property
    def amounts(self) -> bool:
        """Whether the value is amounts by resource."""
        return bool(self.value_type == Amounts)


_TABLES: dict[type, tuple[Setting, ...]] = {}


def setting(default: Any, meaning: str, counts: str, **more: Any) -> Any:
    """Return a field of the table; `default` may be a class of values."""
    metadata = {"setting": Setting(meaning=meaning, counts=counts, **more)}
    if isinstance(default, type):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


def table(kind: type) -> tuple[Setting, ...]:
    """Return the settings of a pool, of a tree, or of a group of them, in the order of records."""
    if kind not in _TABLES:
        _TABLES[kind] = tuple(map(_row, fields(kind)))
    return _TABLES[kind]


def _row(each: "Field[Any]") -> Setting:
    row: Setting = each.metadata["setting"]
    types = get_args(each.type) if NoneType in get_args(each.type) else (each.type,)
    default = each.default_factory() if each.default_factory is not MISSING else each.default
    return replace(
        row, name=each.name, file=row.file or each.name, label=row.label or each.name, default=default,
        option=row.option or each.name.replace("_", "-"), value_type=types[0], optional=len(types) > 1,
    )  # fmt: skip


def stated(settings: "Pool | PoolTree | Integral | PreemptionSettings") -> Iterator[tuple[Setting, Any]]:
    """Yield the settings that differ from the defaults."""
    for each in table(type(settings)):
        value = getattr(settings, each.name)
        if value != each.default:
            yield each, value


ANY, POSITIVE, MULTIPLIER = Bounds(), Bounds(above=True), Bounds(1, 10)
SECONDS: dict[str, Any] = {"unit": "seconds", "bounds": ANY}
PART = Bounds(0, 1, error="want a part of the fair share, at most 1")
MULTIPLE = Bounds(0, 1_000, error="want a multiple of the fair share, at most 1000")
WEIGHT = Bounds(LEAST_WEIGHT, MOST_WEIGHT, error="weights are from 0.001 to 100,000")


@dataclass(frozen=True, slots=True)
class Integral:
    """An integral guarantee: amounts per second (`flow`) and at peak (`burst`), by resource."""

    kind: str = setting(
        "none", "Type of integral guarantee", "shares", choices=("none", "burst", "relaxed"), file="type",
        compute="type", option="integral", label="integral guarantee",
    )  # fmt: skip
    _: KW_ONLY
    flow: Amounts = setting(
        dict, "Amount per second that an integral guarantee accumulates", "shares", unit="per second", compute="flow"
    )
    burst: Amounts = setting(dict, "Amount that a burst guarantee may use at once", "shares", compute="burst")
    relaxed_multiplier: float | None = setting(
        None, "Most that a relaxed guarantee takes at once, as a multiple of its flow", "shares", bounds=MULTIPLIER,
        without="that of the tree", compute="relaxed_share_multiplier_limit",
    )  # fmt: skip
    can_accept_free_volume: bool = setting(
        True, "Take volume that overflows from siblings", "shares", compute="can_accept_free_volume"
    )
    distributes_free_volume: bool | None = setting(
        None, "Give volume that overflows to the pools below", "shares", without="that of the tree",
        compute="should_distribute_free_volume_among_children",
    )  # fmt: skip


def _evicts(meaning: str, inherited: Any = None, **more: Any) -> Any:
    return setting(None, meaning, "evictions", inherited=inherited, **more)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionSettings:
    """When jobs of a pool starve and which of their tasks may be evicted.

    None: as the parent pool, below the root as the tree (docs/pool-rules.md, rules 9 and 10).
    """

    starvation_tolerance: float | None = _evicts(
        "Part of its fair share below which a pool or job starves (rule 9)", 0.8, unit="× fair share", bounds=PART
    )
    starvation_timeout: float | None = _evicts("Time below that part until it starves", 30.0, **SECONDS)
    aggressive_starvation_timeout: float | None = _evicts(
        "Time below that part until it starves aggressively", 120.0, **SECONDS
    )
    aggressive_starvation: bool | None = _evicts("Starve aggressively at all", False)
    threshold: float | None = _evicts(
        "Share up to which tasks of a job are protected from starving jobs (rule 10)",
        1.0,
        unit="× fair share",
        bounds=MULTIPLE,
    )
    aggressive_threshold: float | None = _evicts(
        "Share up to which tasks of a job are protected from aggressively starving jobs; at most threshold",
        0.2,
        unit="× fair share",
        bounds=MULTIPLE,
    )
    non_preemptible_usage: Amounts | None = _evicts(
        "Usage up to which a job of the pool loses no tasks within it", {}, option="non-preemptible"
    )
    allocation_timeout: float | None = _evicts(
        "Time from the warning of an evicted task to its end", **SECONDS, without="the grace of its job"
    )
    backoff: float | None = _evicts("Rest of a machine after an accepted eviction", 5.0, **SECONDS)
    allow_regular_preemption: bool | None = _evicts("Let jobs of the pool lose tasks to starving ones (rule 11)", True)
    allow_aggressive_preemption: bool | None = _evicts(
        "Let jobs of the pool lose tasks to aggressively starving ones", True
    )
    evict_over_capacity: bool | None = _evicts(
        "Evict tasks from a machine that has held more than its capacity for 10 s", False
    )
    evict_over_limit: bool | None = _evicts("Evict what the pool holds above its limits", False)
    minimum_runtime: float | None = _evicts("Run time before which a task is not evicted", 0.0, **SECONDS)
    evictions_per_minute: int | None = _evicts(
        "Most tasks of the pool that a scheduler evicts per minute", bounds=ANY, without="no bound"
    )
    eviction_cost: float | None = _evicts(
        "Least that a set of evictions starts, as a multiple of what it evicts", 0.0, bounds=ANY
    )
    gang_timeout: float | None = _evicts(
        "Time for which the rest of a gang that lost tasks waits for these to be placed again", 300.0, **SECONDS
    )


DEFAULT_PREEMPTION = PreemptionSettings(**{each.name: each.inherited for each in table(PreemptionSettings)})
"""Defaults where neither a pool nor an ancestor nor its tree has a setting; None: there is none."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Settings of a pool.

    `number` is given by the store and never given again; 0 before that. Only a pool below the root names a `tree`; the
    others are in their parent's.
    """

    name: str = setting(MISSING, "Name, unique in the cell", "tree", compute="id")
    parent: str = setting(ROOT, "Parent pool; <Root> for the root of a tree", "tree", metavar="POOL", compute="parent")
    _: KW_ONLY
    tree: str = setting("", "Tree of a pool below the root", "tree", metavar="TREE", without="the first one")
    number: int = setting(0, "Number that the store gives", "")
    weight: float | None = setting(
        None, "Part among the siblings", "shares", bounds=WEIGHT, without="1, or inferred by weight_multiplier",
        compute="weight",
    )  # fmt: skip
    guarantee: Amounts = setting(dict, "Guaranteed amount of a resource", "shares", compute="strong_guarantee")
    limits: Amounts = setting(
        dict, "Upper bound of a resource, of running tasks (tasks) or of running jobs (jobs)", "claims",
        names=(TASKS, JOBS), compute="limits", option="limit",
    )  # fmt: skip
    mode: str = setting(
        "fair_share", "How jobs and sub-pools share the pool", "shares", choices=("fair_share", "fifo"), compute="mode"
    )
    sort_keys: tuple[str, ...] = setting(
        ("weight", "start_time"), "Order in a FIFO pool, among jobs of one precedence (priority)", "shares",
        choices=("weight", "start_time", "pending_job_count"), label="sort key", compute="fifo_sort_parameters",
    )  # fmt: skip
    integral: Integral = setting(Integral(), "Integral guarantee", "shares", compute="integral")
    users: tuple[str, ...] = setting(
        (), "User who may submit jobs", "submissions", metavar="USER", option="user", without="all users"
    )
    reclaim: str = setting(
        "fair-share", "Share up to which the pool may evict tasks of others", "evictions",
        choices=("never", "guarantee", "fair-share"),
    )  # fmt: skip
    borrowing: Amounts = setting(dict, "Amount that the pool may hold beyond its guarantee", "claims")
    lending: Amounts = setting(dict, "Amount of its guarantee that others may hold", "epochs")
    preemption: PreemptionSettings = setting(PreemptionSettings(), "Preemption setting", "evictions")
    promised: bool = setting(
        False,
        "Promise the jobs of the pool what they get at suggestion 0, and start them first below that",
        "shares",
        compute="compute_promised_guarantee",
    )
    gang_steps: bool = setting(
        True, "Take part in the option gang_steps of the tree", "shares", compute="step_function_for_gang"
    )
    reorders_for_guarantee: bool = setting(
        False, "Take part in the option reorder_for_guarantee of the tree", "shares",
        compute="fifo_reordering_for_guarantee",
    )  # fmt: skip

    @property
    def fifo(self) -> bool:
        """Whether jobs share the pool in an order."""
        return self.mode == "fifo"

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
    """A tree: the machines it divides, as a formula over their attributes ("" for those of no other tree)."""

    name: str = setting(DEFAULT_TREE, "Name, unique in the cell", "tree")
    machines: str = setting("", "Formula over attributes of machines", "tree", without="machines of no other tree")
    _: KW_ONLY
    default_parent: str = setting(ROOT, "Pool below which ephemeral pools stand", "tree")
    gang_steps: bool = setting(
        False, "Give a gang its demand or nothing (rule 4)", "shares", compute="step_function_for_gang"
    )
    improved_fit_factor: bool = setting(
        False, "Try jumps at one place child by child (rule 4)", "shares", compute="improved_fit_factor"
    )
    reorder_for_guarantee: bool = setting(
        False, "Reorder FIFO pools for their guarantees (rule 7)", "shares", compute="fifo_reordering_for_guarantee"
    )
    distribute_free_volume: bool = setting(
        False, "Give volume that overflows to siblings (rule 3)", "shares",
        compute="should_distribute_free_volume_among_children",
    )  # fmt: skip
    main_resource: str = setting(
        "cpu", "Resource from which missing guarantees are inferred (rule 2)", "shares", compute="main_resource"
    )
    smooth_period: float = setting(
        60.0, "Time over which a burst guarantee spends its volume (rule 5)", "shares", unit="seconds",
        bounds=POSITIVE, compute="integral_smooth_period",
    )  # fmt: skip
    saturation_period: float = setting(
        86_400.0, "Time of flow that a volume holds at most (rule 3)", "shares", unit="seconds", bounds=POSITIVE,
        compute="integral_pool_capacity_saturation_period",
    )  # fmt: skip
    relaxed_multiplier: float = setting(
        3.0, "Most that a relaxed guarantee takes at once, as a multiple of its flow", "shares", bounds=MULTIPLIER,
        compute="relaxed_share_multiplier_limit",
    )  # fmt: skip
    weight_multiplier: float | None = setting(
        None, "Infer weights from guarantees with this multiplier (rule 8)", "shares", bounds=POSITIVE,
        without="no inference", compute="infer_weight_from_guarantees_share_multiplier",
    )  # fmt: skip
    usage_half_life: float | None = setting(
        None, "Time by which past usage counts half (rule 8)", "shares", unit="seconds", bounds=POSITIVE,
        without="past usage does not count",
    )  # fmt: skip
    usage_exponent: float = setting(
        1.0, "Weights are multiplied by 2 to the power of −(this × decayed usage)", "shares", bounds=POSITIVE
    )
    partition_everywhere: bool = setting(
        False, "Apply rule 10 between pools as well, instead of the rule on sets of evictions", "evictions"
    )
    operators_from: int | None = setting(
        None, "Precedence from which jobs evict across pools by precedence alone", "evictions", without="none"
    )
    preemption: PreemptionSettings = setting(PreemptionSettings(), "Settings of all pools of the tree", "evictions")


# The pools and trees of a cell together: parents, leaves, the settings that a pool inherits, who may submit.


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
        """Whether trees divide the machines: attributes of a machine decide which tree it belongs to."""
        return self.configured and any(tree.machines for tree in self.trees)

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

    def tree_number(self, name: str) -> int:
        """Return the place in the list of trees of the tree of a pool; the first for an unknown (ephemeral) one."""
        return self.trees.index(self.tree_of(name))

    def preemption(self, name: str) -> PreemptionSettings:
        """The settings that hold for a pool, with defaults.

        None: no budget (`evictions_per_minute`), the grace of each job (`allocation_timeout`).
        """
        tree, found = self.tree_of(name), DEFAULT_PREEMPTION
        parent = self.path(name) or self.path(tree.default_parent)
        for settings in (tree.preemption, *(pool.preemption for pool in reversed(parent))):
            found = replace(found, **{each.name: value for each, value in stated(settings)})
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


# The fair shares that schedulers publish: an epoch, its pools and leaves.


@dataclass(frozen=True, slots=True, kw_only=True)
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
    """Usage ÷ fair share of the pool itself (docs/pool-rules.md, rule 8); infinite without a share."""
    volume: tuple[float, ...] = ()
    """Accumulated volume of an integral guarantee, in smallest units × seconds."""
    last_share: float = 0.0
    """The charge of the next epoch to the volume: the largest component of `integral`."""
    ephemeral: bool = False
    decayed_usage: float = 0.0
    """What the pool used before, as a part of the totals, by the half-life of its tree: its weight depends on it."""
    least_job: str = ""
    """Id of the least satisfied job of the pool or of a pool below it; empty without jobs."""
    least_satisfaction: float = inf


class Leaf(NamedTuple):
    """Equal jobs of a pool in an epoch: demand (usage included) and usage of each, in smallest units.

    `start` orders them, by precedence, then by submission; `pending` counts unplaced tasks. `most`: amounts that each
    could hold at once if nothing else ran; empty: its demand. `weight`: of each, among the jobs of its pool.
    `least`: the part of its demand below which a gang with a minimum does not run.
    """

    pool: str
    demand: Resources
    usage: Resources
    gang: bool
    start: int
    pending: int
    jobs: list[str]
    most: Resources = ()
    weight: float = 1.0
    least: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """Fair shares, computed from the cell at `version` and published under `number` (semantics 34).

    `at_ms` is the server's time; `pools_version` the version of the pools that it was computed with; `totals` the
    amounts of each tree's machines that are up, by its name; `pools` the shares by pool, with those of ephemeral pools
    and, under ``TREE/<Root>``, of the roots; `leaf_shares` those of each job of a leaf, by tree, in the order of
    `leaves`. The rest is what it was computed from: leaves by tree, volume and last share of integral guarantees
    before, and the seconds since the epoch before (None: there was none). `published` is the cell's version right after
    the publication, `took_ms` the processor time that computing them took. `asked` is what the jobs of each leaf pool
    (`fairness.leaf_of`) held and wanted, as lanes count it: also what could not run, which is no demand.
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
    took_ms: int = 0
    asked: Mapping[str, Resources] = field(default_factory=dict)
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
