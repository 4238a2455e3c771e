"""Shares of a pool tree as a plain document, and the names of `omega.pools`."""

from collections.abc import Mapping
from math import isfinite
from typing import Any

import numpy as np

from omega.cellstate.errors import BadInput
from omega.cellstate.pools import ROOT, Integral, Pool
from omega.cellstate.pools import PoolTree as Options
from omega.pools.tree_file import from_document, read
from omega.schedulers.fairshare import drf
from omega.schedulers.fairshare.drf import fifo, fluid, task_by_task
from omega.schedulers.fairshare.guarantees import guarantees, weights
from omega.schedulers.fairshare.partition import partition
from omega.schedulers.fairshare.satisfaction import starvation
from omega.schedulers.fairshare.tree import Job, PoolState, Tree
from omega.schedulers.fairshare.update import Shares, fair_shares

__all__ = [
    "METHODS", "ROOT", "Integral", "Job", "Options", "Pool", "PoolState", "Shares", "Tree", "computed", "fair_shares",
    "fifo", "fluid", "from_document", "partition", "read", "starvation", "task_by_task",
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
