"""What pools keep of their guarantees, and what is occupied of their tree because of it (docs/pools.md, Limits).

A pool that states what it lends keeps the rest of its guarantee. It occupies the larger of what it keeps and what is
occupied below it, other pools and jobs what they hold; and of a tree no more is occupied than its machines have.
`parts/pools.lua` mirrors this. Amounts by resource, in the cell's smallest units and order.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from omega.cellstate import rules
from omega.cellstate.pools import Pools, PoolTree


@dataclass(slots=True)
class Lender:
    """A pool that keeps a part of its guarantee (`bound`), or a tree of such pools with the machines' amounts.

    `bound` None: nothing is kept of the resource, or the tree is not bounded in it. `used` is what is occupied below.
    """

    bound: list[int | None]
    used: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.used = self.used or [0] * len(self.bound)

    @property
    def words(self) -> str:
        """The record in the store."""
        return " ".join(["-" if amount is None else str(amount) for amount in self.bound] + list(map(str, self.used)))


@dataclass(frozen=True, slots=True)
class Lent:
    """The lenders above a leaf, upward, and their tree."""

    keepers: Sequence[Lender]
    tree: Lender

    def occupy(self, amounts: Iterable[int]) -> None:
        """Count amounts as held by jobs of the leaf, or negative ones no longer."""
        for d, amount in enumerate(amounts):
            more = amount
            for each in self.keepers:
                kept, before = each.bound[d] or 0, each.used[d]
                each.used[d] = before + more
                more = max(kept, before + more) - max(kept, before)
            self.tree.used[d] += more

    def room(self, d: int) -> int | None:
        """Return how much of a resource the leaf may take; None: any amount."""
        bound = self.tree.bound[d]
        if bound is None:
            return None
        own = (max(0, (each.bound[d] or 0) - each.used[d]) for each in self.keepers)
        return max(0, bound - self.tree.used[d]) + sum(own)

    def admits(self, need: Sequence[int]) -> int | None:
        """Return how many tasks of a need the leaf may start; None: any number."""
        most = rules.admits([self.room(d) for d in range(len(need))], (0,) * len(need), need)
        return None if most == rules.MANY else most


def lending_trees(pools: Pools) -> list[PoolTree]:
    """Return the trees with pools that keep a part of their guarantee."""
    names = {pools.tree_of(pool.name).name for pool in pools.pools if pool.kept}
    return [tree for tree in pools.trees if tree.name in names]


def keepers(pools: Pools, leaf: str) -> list[str]:
    """Return the pools on the path of a leaf that keep a part of their guarantee, upward; "" for ephemeral pools."""
    path = pools.path(leaf) or pools.path(pools.trees[0].default_parent)
    return [pool.name for pool in path if pool.kept]


def lenders(pools: Pools, totals: Mapping[str, Sequence[int]], resources: Sequence[str]) -> dict[str, Lender]:
    """Return the lenders by pool, and under "tree" + its place the trees, as they are without jobs.

    `totals` are the amounts of the machines by tree, where they are known.
    """
    found: dict[str, Lender] = {}
    for pool in pools.pools:
        if pool.kept:
            found[f"k{pool.number}"] = Lender([pool.kept.get(name) for name in resources])
    for tree in lending_trees(pools):
        found[f"t{pools.trees.index(tree)}"] = Lender(bounds(pools, tree, totals.get(tree.name), resources))
    keep(pools, found)
    return found


def keep(pools: Pools, found: Mapping[str, Lender]) -> None:
    """Count what pools keep as occupied above them, sub-pools first; nothing is counted before."""
    for pool in sorted(pools.pools, key=lambda each: -len(pools.path(each.name))):
        if pool.kept:
            own, *above = (found[f"k{pools.by_name[name].number}"] for name in keepers(pools, pool.name))
            tree = found[f"t{pools.trees.index(pools.tree_of(pool.name))}"]
            Lent(above, tree).occupy(max(kept or 0, used) for kept, used in zip(own.bound, own.used, strict=True))


def bounds(pools: Pools, tree: PoolTree, totals: Sequence[int] | None, resources: Sequence[str]) -> list[int | None]:
    """Return what a tree has of each resource of which some pool keeps a part; None for the others, or if unknown."""
    kept = {name for pool in pools.pools if pools.tree_of(pool.name).name == tree.name for name in pool.kept}
    return [totals[d] if totals is not None and name in kept else None for d, name in enumerate(resources)]


def words_of_totals(pools: Pools, totals: Mapping[str, Sequence[int]], resources: Sequence[str]) -> str:
    """Return the totals of an epoch as ``lua/epoch.lua`` takes them."""
    found = {}
    for tree in lending_trees(pools):
        known = Lender(bounds(pools, tree, totals.get(tree.name), resources))
        found[f"t{pools.trees.index(tree)}"] = known.words
    return ";".join(f"{name} {words}" for name, words in found.items())
