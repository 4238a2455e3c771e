"""Settings of pools and trees that are accepted and have no effect, because another setting switches them off."""

from collections.abc import Iterator

from omega.cellstate.pools import Pool, Pools, PoolTree

_TIMEOUT = "aggressive_starvation_timeout has no effect while aggressive_starvation is false"


def without_effect(pools: Pools) -> dict[str, list[str]]:
    """Return the settings without effect, each with the reason, by ``pool NAME`` and ``tree NAME``."""
    timed = [tree.preemption for tree in pools.trees] + [pool.preemption for pool in pools.pools]
    aggressive = _aggressive(pools) if any(each.aggressive_starvation_timeout is not None for each in timed) else set()
    found = {f"pool {pool.name}": [*_of_pool(pools, pool, aggressive)] for pool in pools.pools}
    found |= {f"tree {tree.name}": [*_of_tree(pools, tree, aggressive)] for tree in pools.trees}
    return {where: lines for where, lines in found.items() if lines}


def warnings(pools: Pools) -> list[str]:
    """Return a line for each setting without effect."""
    return [f"{where}: {line}" for where, lines in without_effect(pools).items() for line in lines]


def _aggressive(pools: Pools) -> set[str]:
    """Return the pools that starve aggressively, or have pools below them that do."""
    switched = (pool.name for pool in pools.pools if pools.preemption(pool.name).aggressive_starvation)
    return {above.name for name in switched for above in pools.path(name)}


def _of_pool(pools: Pools, pool: Pool, aggressive: set[str]) -> Iterator[str]:
    tree = pools.tree_of(pool.name)
    if pool.preemption.aggressive_starvation_timeout is not None and pool.name not in aggressive:
        yield _TIMEOUT
    if pool.sort_keys != Pool("").sort_keys and not pool.fifo:
        yield "sort_keys has no effect while mode is fair_share"
    if pool.reorders_for_guarantee and not (pool.fifo and tree.reorder_for_guarantee and tree.gang_steps):
        yield "reorders_for_guarantee has no effect unless mode is fifo and the tree sets it and gang_steps"


def _of_tree(pools: Pools, tree: PoolTree, aggressive: set[str]) -> Iterator[str]:
    rules = tree.preemption
    switched = rules.aggressive_starvation or any(pools.tree_of(name).name == tree.name for name in aggressive)
    if rules.aggressive_starvation_timeout is not None and not switched:
        yield _TIMEOUT
    if tree.usage_exponent != PoolTree().usage_exponent and tree.usage_half_life is None:
        yield "usage_exponent has no effect without usage_half_life"
