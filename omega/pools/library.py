"""Shares of a pool tree as a plain document, and the names of `omega.pools`."""

from collections.abc import Mapping
from math import isfinite
from typing import Any

import numpy as np

from omega.cellstate.errors import BadInput
from omega.cellstate.pools import ROOT, Integral, Pool, Pools, PoolTree as Options
from omega.pools.tree_file import from_document, read
from omega.schedulers.comparisons.drf import drf, fifo, fluid, hierarchical, task_by_task
from omega.schedulers.fairshare.guarantees import guarantees, weights
from omega.schedulers.fairshare.satisfaction import partition, satisfaction_of, starvation
from omega.schedulers.fairshare.tree import Job, PoolState, Tree
from omega.schedulers.fairshare.update import Shares, fair_shares

__all__ = [
    "METHODS", "ROOT", "Integral", "Job", "Options", "Pool", "PoolState", "Pools", "Shares", "Tree", "computed",
    "fair_shares", "fifo", "fluid", "from_document", "partition", "read", "satisfaction_of", "starvation",
    "task_by_task",
]  # fmt: skip

METHODS = ("pool-tree", "drf", "naive-hdrf", "min-satisfaction-hdrf")
"""What `computed` can compute; the first is the default."""


def computed(tree: Tree, seconds: float | None = None, method: str = METHODS[0]) -> dict[str, Any]:
    """Compute shares by one of METHODS; return `{"elements": {name: {"fair_share": …, …}}, "errors": […]}`.

    Vectors are mappings resource → share of the totals. An infinite satisfaction is the text "infinite".
    """
    if method == METHODS[0]:
        return _tree_document(tree, fair_shares(tree, seconds))
    if method not in METHODS:
        raise BadInput(f"method {method!r}; one of {', '.join(METHODS)}")
    guaranteed = guarantees(tree, np.ones((len(tree.numbers), len(tree.resources))))
    heavy = weights(tree, guaranteed)
    if method == "drf":
        pools, jobs = drf(tree, heavy)
    else:
        pools, jobs = hierarchical(tree, heavy, least_satisfied=method != "naive-hdrf")
    elements = {ROOT: {"fair_share": _named(tree, pools[0]), "weight": 1.0}}
    for number, pool in enumerate(tree.pools, 1):
        elements[pool.name] = {"fair_share": _named(tree, pools[number]), "weight": float(heavy[0][number])}
    for index, job in enumerate(tree.jobs):
        elements[job.name] = {"fair_share": _named(tree, jobs[index]), "weight": float(heavy[1][index])}
    return {"method": method, "elements": elements, "errors": []}


def _tree_document(tree: Tree, shares: Shares) -> dict[str, Any]:
    least, local, own = shares.satisfaction
    elements: dict[str, Any] = {}
    of_pools = {
        "fair_share": shares.pools,
        "demand_share": shares.pool_demand,
        "usage_share": shares.pool_usage,
        "limits_share": shares.limits,
        "strong": shares.strong,
        "integral": shares.integral,
        "weight_proportional": np.maximum(shares.pools - shares.strong - shares.integral, 0.0),
        "promised": shares.promised_pools,
        "strong_guarantee_share": shares.guaranteed,
        "estimated_guarantee": shares.estimated[0],
        "promised_fair_share": shares.expected[0],
        "volume": shares.volume,
    }
    for name, number in tree.numbers.items():
        elements[name] = {field: _named(tree, vectors[number]) for field, vectors in of_pools.items()} | {
            "weight": float(shares.weights[number]),
            "satisfaction": _ratio(least[number]),
            "local_satisfaction": _ratio(local[number]),
            "dominant_resource": _dominant(tree, shares.pools[number]),
        }
    nothing = np.zeros_like(shares.jobs)
    of_jobs = {
        "fair_share": shares.jobs,
        "demand_share": shares.job_demand,
        "usage_share": shares.job_usage,
        "limits_share": shares.job_limits,
        "strong": nothing,
        "integral": nothing,
        "weight_proportional": shares.jobs,
        "promised": shares.promised_jobs,
        "estimated_guarantee": shares.estimated[1],
        "promised_fair_share": shares.expected[1],
    }
    for index, job in enumerate(tree.jobs):
        elements[job.name] = {field: _named(tree, vectors[index]) for field, vectors in of_jobs.items()} | {
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
