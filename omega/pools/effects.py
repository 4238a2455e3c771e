"""Effects of settings: those that another setting switches off, and what weights divide."""

from collections.abc import Iterator

from omega.cellstate.pools import ROOT, Pool, Pools, PoolTree
from omega.cellstate.resources import format_amount

_TIMEOUT = "aggressive_starvation_timeout has no effect while aggressive_starvation is false"


def without_effect(pools: Pools) -> dict[str, list[str]]:
    """Return the settings without effect, each with the reason, by ``pool NAME`` and ``tree NAME``."""
    timed = [tree.preemption for tree in pools.trees] + [pool.preemption for pool in pools.pools]
    aggressive = _aggressive(pools) if any(each.aggressive_starvation_timeout is not None for each in timed) else set()
    found = {f"pool {pool.name}": [*_of_pool(pools, pool, aggressive)] for pool in pools.pools}
    found |= {f"tree {tree.name}": [*_of_tree(pools, tree, aggressive)] for tree in pools.trees}
    return {where: lines for where, lines in found.items() if lines}


def weight_line(pools: Pools, name: str) -> str:
    """Return what the weight of a configured pool divides, and with which siblings, in one line."""
    pool, tree = pools.by_name[name], pools.tree_of(name)
    beside = [each for each in pools.children[pool.parent] if pools.tree_of(each.name) == tree]
    guaranteed: dict[str, int] = {}
    for each in beside:
        for resource, amount in each.guarantee.items():
            guaranteed[resource] = guaranteed.get(resource, 0) + amount
    if pool.weight is None and tree.weight_multiplier is not None:
        part = "the inferred weights divide"
    else:
        weights = sum(1.0 if each.weight is None else each.weight for each in beside)
        own = 1.0 if pool.weight is None else pool.weight
        count = "no sibling" if len(beside) == 1 else f"{len(beside) - 1} sibling{'s' if len(beside) > 2 else ''}"
        part = f"{own:g} of {weights:g} with {count}; weights divide"
    whole = "the tree" if pool.parent == ROOT else pool.parent
    if not guaranteed:
        return f"{part} all of {whole}"
    amounts = " ".join(f"{resource} {format_amount(resource, amount)}" for resource, amount in guaranteed.items())
    return f"{part} what guarantees ({amounts}) leave of {whole}"


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
