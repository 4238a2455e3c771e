"""How much room pools that lend a part of their guarantee leave to a job (docs/pools.md, Limits).

The store validates the same with each claim; a scheduler that follows it plans nothing that the store refuses.
"""

from omega.cellstate.pools import ROOT
from omega.cellstate.pools.lending import Lent, keepers, lenders
from omega.cellstate.resources import Resources
from omega.cellstate.usage import Usage
from omega.schedulers.fairshare.standings import EpochShares


def most_tasks(shares: EpochShares, usage: Usage, leaf: str, need: Resources, names: tuple[str, ...]) -> int | None:
    """Return how many tasks of a leaf pool fit into the room that no pool keeps; None: no bound."""
    pools = shares.pools
    path = shares.path(leaf)
    place = pools.trees.index(pools.tree_of(path[-1])) if path and path[-1] != ROOT else None
    found = lenders(pools, shares.epoch.totals, names)
    tree = found.get(f"t{place}")
    if tree is None:
        return None

    def lent(name: str) -> Lent:
        return Lent([found[f"k{pools.by_name[each].number}"] for each in keepers(pools, name)], tree)

    for each in usage.leaves():
        if pools.trees.index(pools.tree_of(shares.path(each)[-1])) == place:
            lent(each).occupy(usage.of_leaf(each))
    return lent(leaf).admits(need)
