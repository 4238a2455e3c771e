"""The settings of a pool and of a pool tree: one table, from which every other form of them comes.

A row is a field below: name, type and default are the field's, the rest its `Setting`. Records, rules, pool files,
JSON, the options of ``omega pool set`` and the table of the pages read `table`; the calculator of fair shares takes
the settings themselves. Amounts are in the cell's smallest units; times in seconds.
"""

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, MISSING, Field, dataclass, field, fields, replace
from math import inf, isfinite
from types import NoneType
from typing import Any, NamedTuple, get_args

from omega.cellstate.job_demands import LEAST_WEIGHT, MOST_WEIGHT

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
