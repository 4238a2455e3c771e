"""Pools as the cell stores them: settings of pools and trees, their validation, and the published fair shares.

A pool tree divides the machines that its formula selects. Jobs belong to leaf pools; a job without a pool belongs to
the pool of its user's name, which exists while the user has jobs (an ephemeral pool). Use: docs/pools.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

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
class PreemptionSettings:
    """When jobs of a pool starve and which of their tasks may be evicted.

    None: as the parent pool, below the root as the tree. Times in seconds; thresholds and tolerance as multiples of
    the fair share (docs/pool-rules.md, rules 9 and 10).
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


DEFAULT_PREEMPTION = PreemptionSettings(
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
    preemption: PreemptionSettings = field(default_factory=PreemptionSettings)
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
    (docs/fair-share-calculator.md); periods in seconds.
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
    """Seconds by which past usage counts half; None: it does not reduce weights (docs/pool-rules.md, rule 8)."""
    usage_exponent: float = 1.0
    """Weights are multiplied by 2 to the power of -(exponent × decayed usage)."""
    partition_everywhere: bool = False
    """Whether docs/pool-rules.md, rule 10 also decides between pools, instead of the rule on sets of evictions."""
    operators_from: int | None = None
    """Jobs of at least this precedence may evict across pools by precedence alone (the operators' band)."""
    preemption: PreemptionSettings = field(default_factory=PreemptionSettings)
