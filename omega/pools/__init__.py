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
    from omega.pools.library import *  # noqa: F403 - its __all__


def __getattr__(name: str) -> object:
    """Import a name when it is first used."""
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module("omega.pools.library"), name)
    return found
