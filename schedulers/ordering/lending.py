"""Guarantees that pools lend in part only: room that jobs of other pools leave free (docs/pools.md, Lending)."""

from collections.abc import Sequence

from cellstate.pools import ROOT
from cellstate.resources import Resources
from cellstate.usage import Usage
from schedulers.fairshare.standings import EpochShares, Path


def reserved(shares: EpochShares, usage: Usage, path: Path, names: Sequence[str]) -> Resources | None:
    """Return what pools outside a path keep for themselves; None when none of them lends in part.

    A pool keeps its guarantee beyond what it lends, less what it holds; `names` are the cell's resources.
    """
    lenders = [pool for pool in shares.pools.pools if pool.lending and pool.name not in path]
    tree = shares.pools.tree_of(path[-1]).name if path else ""
    lenders = [pool for pool in lenders if shares.pools.tree_of(pool.name).name == tree]
    if not lenders:
        return None
    sums = [0] * len(names)
    for pool in lenders:
        held = [usage.of_leaf(leaf) for leaf in usage.leaves() if pool.name in shares.path(leaf)]
        for d, name in enumerate(names):
            if name in pool.lending:
                kept = pool.guarantee.get(name, 0) - pool.lending[name] - sum(amounts[d] for amounts in held)
                sums[d] += max(0, kept)
    return tuple(sums)


def most_tasks(shares: EpochShares, usage: Usage, leaf: str, need: Resources, names: tuple[str, ...]) -> int | None:
    """Return how many tasks of a leaf pool fit into the room that nobody keeps for itself; None: no bound."""
    path = shares.path(leaf)
    kept = reserved(shares, usage, path, names)
    totals = shares.epoch.totals.get(shares.pools.tree_of(path[-1]).name) if path and path[-1] != ROOT else None
    if kept is None or totals is None:
        return None
    inside = [each for each in usage.leaves() if _same_tree(shares, each, path[-1])]
    held = [sum(usage.of_leaf(each)[d] for each in inside) for d in range(len(need))]
    free = [total - has - keep for total, has, keep in zip(totals, held, kept, strict=True)]
    return max(0, min((room // amount for room, amount, keep in zip(free, need, kept, strict=True) if amount and keep),
                      default=1 << 30))  # fmt: skip


def _same_tree(shares: EpochShares, leaf: str, top: str) -> bool:
    return shares.pools.tree_of(shares.path(leaf)[-1]).name == shares.pools.tree_of(top).name
