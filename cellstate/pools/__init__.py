"""Pools of a cell: settings, rules, records, and the fair shares that schedulers publish.

A pool tree divides the machines that its formula selects. Jobs belong to leaf pools; a job without a pool belongs to
the pool of its user's name, which exists while the user has jobs (an ephemeral pool). Use: docs/pools.md.
"""

from omega.cellstate.pools.hierarchy import Pools
from omega.cellstate.pools.settings import (
    DEFAULT_PREEMPTION,
    DEFAULT_TREE,
    JOBS,
    NOBODY,
    ROOT,
    TASKS,
    Integral,
    Pool,
    PoolTree,
    PreemptionSettings,
)
from omega.cellstate.pools.shares import Epoch, Leaf, PoolShare

__all__ = [
    "DEFAULT_PREEMPTION", "DEFAULT_TREE", "JOBS", "NOBODY", "ROOT", "TASKS", "Epoch", "Integral", "Leaf", "Pool",
    "PoolShare", "PoolTree", "Pools", "PreemptionSettings",
]  # fmt: skip
