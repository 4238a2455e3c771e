"""Fair shares of pool trees and dominant resource fairness: pure functions over plain values.

    from omega import pools

    tree = pools.Tree({"cpu": 100}, [pools.Pool("a"), pools.Pool("b", weight=2)], [pools.Job("j", "a", {"cpu": 80})])
    pools.fair_shares(tree).pools          # array (pools, resources), row 0 is the root

Files hold the same as JSON or YAML (`read`), results are plain documents (`computed`). Every name is imported when it
is first used: the modules beside this one read and change the pools of a cell, which needs no calculator.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omega.pools.library import (
        METHODS,
        ROOT,
        Integral,
        Job,
        Options,
        Pool,
        PoolState,
        Shares,
        Tree,
        computed,
        fair_shares,
        fifo,
        fluid,
        from_document,
        partition,
        read,
        starvation,
        task_by_task,
    )  # fmt: skip

__all__ = [
    "METHODS", "ROOT", "Integral", "Job", "Options", "Pool", "PoolState", "Shares", "Tree", "computed", "fair_shares",
    "fifo", "fluid", "from_document", "partition", "read", "starvation", "task_by_task",
]  # fmt: skip


def __getattr__(name: str) -> object:
    """Import a name when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    library = import_module("omega.pools.library")
    globals().update({each: getattr(library, each) for each in __all__})
    found: object = globals()[name]
    return found
