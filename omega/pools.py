"""Fair shares of pool trees and dominant resource fairness: pure functions over plain values.

    from omega import pools

    tree = pools.Tree({"cpu": 100}, [pools.Pool("a"), pools.Pool("b", weight=2)], [pools.Job("j", "a", {"cpu": 80})])
    pools.fair_shares(tree).pools          # array (pools, resources), row 0 is the root

Files hold the same as JSON or YAML (`read`), results are plain documents (`computed`).
"""

from collections.abc import Mapping
from math import inf, isfinite
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cellstate.errors import BadInput
from omega.jobfile.lines import joined, parse
from schedulers.fairshare import drf
from schedulers.fairshare.drf import fifo, fluid, task_by_task
from schedulers.fairshare.guarantees import guarantees, weights
from schedulers.fairshare.satisfaction import partition, starvation
from schedulers.fairshare.tree import ROOT, Integral, Job, Options, Pool, Tree
from schedulers.fairshare.update import Shares, fair_shares

__all__ = [
    "METHODS", "ROOT", "Integral", "Job", "Options", "Pool", "Shares", "Tree", "computed", "fair_shares", "fifo",
    "fluid", "from_document", "partition", "read", "starvation", "task_by_task",
]  # fmt: skip

METHODS = ("pool-tree", "drf", "naive-hdrf", "min-satisfaction-hdrf")
"""What `computed` can compute; the first is the default."""
_LONGEST_INPUT = 64 * 1024 * 1024
Amounts = dict[str, float]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class IntegralFields(_Strict):
    """Fields of an element's `integral`."""

    type: Literal["none", "burst", "relaxed"] = "none"
    flow: Amounts = {}
    burst: Amounts = {}
    volume: Amounts = {}
    last_share: float = Field(default=0.0, ge=0)
    relaxed_share_multiplier_limit: float | None = Field(default=None, ge=1, le=10)
    can_accept_free_volume: bool = True
    should_distribute_free_volume_among_children: bool | None = None


class ElementFields(_Strict):
    """Fields of a pool or a job."""

    id: str = Field(min_length=1)
    parent: str = ROOT
    kind: Literal["pool", "job", "operation"]
    weight: float | None = None
    limits: Amounts = {}
    mode: Literal["fair_share", "fifo"] = "fair_share"
    fifo_sort_parameters: list[str] = ["weight", "start_time"]
    strong_guarantee: Amounts = {}
    integral: IntegralFields = IntegralFields()
    compute_promised_guarantee: bool = False
    fifo_reordering_for_guarantee: bool = False
    step_function_for_gang: bool = True
    enable_priority_strong_guarantee_adjustment: bool = False
    enable_priority_strong_guarantee_adjustment_donorship: bool = False
    demand: Amounts = {}
    usage: Amounts = {}
    gang: bool = False
    start_time: float = 0.0
    pending_job_count: int = 1
    best_allocation_share: Amounts = {}


class OptionFields(_Strict):
    """Fields of `options`."""

    step_function_for_gang: bool = False
    improved_fit_factor: bool = False
    fifo_reordering_for_guarantee: bool = False
    should_distribute_free_volume_among_children: bool = False
    main_resource: str = "cpu"
    integral_smooth_period: float = Field(default=60.0, gt=0)
    integral_pool_capacity_saturation_period: float = Field(default=86_400.0, gt=0)
    relaxed_share_multiplier_limit: float = Field(default=3.0, ge=1)
    infer_weight_from_guarantees_share_multiplier: float | None = Field(default=None, gt=0)


class _File(BaseModel):
    """A whole file. Fields that are not read here (a name, notes, expected values) may stand beside these."""

    model_config = ConfigDict(allow_inf_nan=False)
    total_resources: Amounts
    tree: list[ElementFields]
    options: OptionFields | None = None
    seconds_since_previous_update: float | None = Field(default=None, ge=0)


def read(path: Path) -> tuple[Tree, float | None]:
    """Read a tree and the seconds since the update before from a JSON or YAML file; raises BadInput."""
    try:
        if path.stat().st_size > _LONGEST_INPUT:
            raise BadInput(f"{path}: larger than {_LONGEST_INPUT // 2**20} MiB, which no pool tree needs")
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: cannot be read: {error}") from None
    return from_document(parse(str(path), text, "total_resources and tree").value, str(path))


def from_document(document: Any, name: str = "document") -> tuple[Tree, float | None]:
    """Check a plain document and return its tree and the seconds since the update before; raises BadInput."""
    try:
        found = _File.model_validate(document)
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, one['loc'])) or 'the document'}: {one['msg']}" for one in error.errors()]
        raise BadInput(f"{name}: {joined(problems)}; fields: see docs/pools.md") from None
    pools = [_pool(element) for element in found.tree if element.kind == "pool"]
    jobs = [_job(element, found.total_resources) for element in found.tree if element.kind != "pool"]
    return Tree(
        found.total_resources, pools, jobs, _options(found.options or OptionFields())
    ), found.seconds_since_previous_update


def _pool(element: ElementFields) -> Pool:
    integral = element.integral
    return Pool(
        element.id,
        element.parent,
        element.weight,
        element.strong_guarantee,
        element.limits,
        fifo=element.mode == "fifo",
        sort_keys=element.fifo_sort_parameters,
        integral=Integral(
            integral.type,
            integral.flow,
            integral.burst,
            integral.volume,
            integral.last_share,
            integral.relaxed_share_multiplier_limit,
            integral.can_accept_free_volume,
            integral.should_distribute_free_volume_among_children,
        ),
        promised=element.compute_promised_guarantee,
        gang_steps=element.step_function_for_gang,
        reorders_for_guarantee=element.fifo_reordering_for_guarantee,
        priority=element.enable_priority_strong_guarantee_adjustment,
        donor=element.enable_priority_strong_guarantee_adjustment_donorship,
    )


def _job(element: ElementFields, totals: Amounts) -> Job:
    limits = dict(element.limits)
    for name, share in element.best_allocation_share.items():
        limits[name] = min(limits.get(name, inf), share * totals.get(name, 0.0))
    return Job(
        element.id,
        element.parent,
        element.demand,
        element.usage,
        limits,
        element.weight,
        element.gang,
        element.start_time,
        element.pending_job_count,
    )


def _options(options: OptionFields) -> Options:
    return Options(
        gang_steps=options.step_function_for_gang,
        improved_fit_factor=options.improved_fit_factor,
        reorder_for_guarantee=options.fifo_reordering_for_guarantee,
        distribute_free_volume=options.should_distribute_free_volume_among_children,
        main_resource=options.main_resource,
        smooth_period=options.integral_smooth_period,
        saturation_period=options.integral_pool_capacity_saturation_period,
        relaxed_multiplier=options.relaxed_share_multiplier_limit,
        weight_multiplier=options.infer_weight_from_guarantees_share_multiplier,
    )


def computed(tree: Tree, seconds: float | None = None, method: str = METHODS[0]) -> dict[str, Any]:
    """Compute shares by one of METHODS; return `{"elements": {name: {"fair_share": …, …}}, "errors": […]}`.

    Vectors are mappings resource → share of the totals. An infinite satisfaction is the text "infinite".
    """
    if method == METHODS[0]:
        return _tree_document(tree, fair_shares(tree, seconds))
    if method not in METHODS:
        raise BadInput(f"method {method!r}; one of {', '.join(METHODS)}")
    found = guarantees(tree, np.ones((len(tree.numbers), len(tree.resources))))
    heavy = weights(tree, found)
    filled = {"drf": drf.drf, "naive-hdrf": drf.naive_hierarchical}.get(method, drf.least_satisfied)(tree, heavy)
    elements = {ROOT: {"fair_share": _named(tree, filled.pools[0]), "weight": 1.0}}
    for number, pool in enumerate(tree.pools, 1):
        elements[pool.name] = {"fair_share": _named(tree, filled.pools[number]), "weight": float(heavy[0][number])}
    for index, job in enumerate(tree.jobs):
        elements[job.name] = {"fair_share": _named(tree, filled.jobs[index]), "weight": float(heavy[1][index])}
    return {"method": method, "elements": elements, "errors": []}


def _tree_document(tree: Tree, shares: Shares) -> dict[str, Any]:
    least, local, own = shares.satisfaction
    elements: dict[str, Any] = {}
    for name, number in tree.numbers.items():
        rest = shares.pools[number] - shares.strong[number] - shares.integral[number]
        elements[name] = {
            "fair_share": _named(tree, shares.pools[number]),
            "demand_share": _named(tree, shares.pool_demand[number]),
            "usage_share": _named(tree, shares.pool_usage[number]),
            "limits_share": _named(tree, shares.limits[number]),
            "strong": _named(tree, shares.strong[number]),
            "integral": _named(tree, shares.integral[number]),
            "weight_proportional": _named(tree, np.maximum(rest, 0.0)),
            "promised": _named(tree, shares.promised_pools[number]),
            "strong_guarantee_share": _named(tree, shares.guaranteed[number]),
            "estimated_guarantee": _named(tree, shares.estimated[0][number]),
            "promised_fair_share": _named(tree, shares.expected[0][number]),
            "volume": _named(tree, shares.volume[number]),
            "weight": float(shares.weights[number]),
            "satisfaction": _ratio(least[number]),
            "local_satisfaction": _ratio(local[number]),
            "dominant_resource": _dominant(tree, shares.pools[number]),
        }
    for index, job in enumerate(tree.jobs):
        elements[job.name] = {
            "fair_share": _named(tree, shares.jobs[index]),
            "demand_share": _named(tree, shares.job_demand[index]),
            "usage_share": _named(tree, shares.job_usage[index]),
            "limits_share": _named(tree, shares.job_limits[index]),
            "strong": _named(tree, np.zeros(len(tree.resources))),
            "integral": _named(tree, np.zeros(len(tree.resources))),
            "weight_proportional": _named(tree, shares.jobs[index]),
            "promised": _named(tree, shares.promised_jobs[index]),
            "estimated_guarantee": _named(tree, shares.estimated[1][index]),
            "promised_fair_share": _named(tree, shares.expected[1][index]),
            "weight": float(shares.job_weights[index]),
            "satisfaction": _ratio(own[index]),
            "local_satisfaction": _ratio(own[index]),
            "dominant_resource": _dominant(tree, shares.jobs[index]),
        }
        if shares.fifo[index] >= 0:
            elements[job.name]["fifo_index"] = int(shares.fifo[index])
            place = int(shares.fifo_effective[index])
            elements[job.name]["effective_fifo_index"] = place if place >= 0 else None
    return {"method": METHODS[0], "elements": elements, "errors": list(shares.errors)}


def _named(tree: Tree, vector: Any) -> Mapping[str, float]:
    return {name: float(value) for name, value in zip(tree.resources, vector, strict=True)}


def _ratio(value: float) -> float | str:
    return float(value) if isfinite(value) else "infinite"


def _dominant(tree: Tree, share: Any) -> str:
    return tree.resources[int(np.argmax(share))] if len(share) and share.max() > 0 else ""
