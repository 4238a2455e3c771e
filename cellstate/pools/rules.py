"""Validation of a configuration of pools before it is stored; every writer of pools calls `check`.

Rules that depend on the state of the cell (jobs in a pool that is removed) are validated by the script (lua/pools.lua).
"""

from collections.abc import Mapping, Sequence
from re import compile as pattern
from typing import Any

from omega.cellstate.errors import BadInput
from omega.cellstate.plain_text import check_text
from omega.cellstate.pools import (
    MOST_DEPTH,
    MOST_POOLS,
    MOST_USERS,
    ROOT,
    Amounts,
    Integral,
    Pool,
    Pools,
    PoolTree,
    PreemptionSettings,
    Setting,
    table,
)
from omega.cellstate.resources import format_amount, shown

MOST = 2**53
_NAME = pattern(r"[A-Za-z0-9][A-Za-z0-9._/@-]{0,127}")


def check(pools: Pools, resources: Sequence[str]) -> Pools:
    """Return a configuration for a cell of these resources; raises BadInput for the first rule that it breaks."""
    trees = _check_trees(pools, resources)
    named: dict[str, Pool] = {}
    if len(pools.pools) > MOST_POOLS:
        raise BadInput(f"pools: {len(pools.pools)}; the most is {MOST_POOLS}")
    for pool in pools.pools:
        if not _NAME.fullmatch(pool.name):
            raise BadInput(f"pool name {shown(pool.name)}: use 1 to 128 letters, digits, . _ / @ -")
        if pool.name in named:
            raise BadInput(f"pool {pool.name}: is there twice; names are unique in a cell")
        named[pool.name] = pool
    for pool in pools.pools:
        _check_place(pool, named, trees)
        _check_values(f"pool {pool.name}", pool, resources)
        _check_users(pool)
    for pool in pools.pools:
        _check_path(pool, named)
    _check_sums(pools)
    for tree in pools.trees:
        _check_default_parent(tree, named, pools)
    for pool in pools.pools:
        _check_thresholds(f"pool {pool.name}", pools.preemption(pool.name))
    return pools


def _check_trees(pools: Pools, resources: Sequence[str]) -> dict[str, PoolTree]:
    if not pools.trees:
        raise BadInput("pool trees: none; a cell has at least one")
    trees: dict[str, PoolTree] = {}
    for tree in pools.trees:
        where = f"pool tree {shown(tree.name)}"
        if not _NAME.fullmatch(tree.name):
            raise BadInput(f"{where}: use 1 to 128 letters, digits, . _ / @ -")
        if tree.name in trees:
            raise BadInput(f"{where}: is there twice")
        trees[tree.name] = tree
        _check_values(where, tree, resources)
        if tree.machines:
            from omega.cellstate.constraints.grammar import parse  # noqa: PLC0415 - most cells have one tree

            try:
                parse(tree.machines)
            except BadInput as error:
                raise BadInput(f"pool tree {tree.name}: machines: {error}") from None
    rest = [tree.name for tree in pools.trees if not tree.machines]
    if len(rest) > 1:
        raise BadInput(
            f"pool trees {', '.join(rest)}: each would take the machines of no other tree; give all but one a formula"
        )
    return trees


def _check_place(pool: Pool, named: Mapping[str, Pool], trees: Mapping[str, PoolTree]) -> None:
    """Parent and tree."""
    where = f"pool {pool.name}"
    if pool.parent == ROOT:
        if pool.tree and pool.tree not in trees:
            raise BadInput(f"{where}: tree {shown(pool.tree)} is unknown; trees: {', '.join(trees)}")
        return
    if pool.parent not in named:
        others = ", ".join(sorted(named.keys() - {pool.name})) or "none"
        raise BadInput(f"{where}: its parent {shown(pool.parent)} is no pool; other pools: {others}")
    if pool.tree:
        raise BadInput(f"{where}: is in the tree of its parent {pool.parent}; leave out tree")
    if named[pool.parent].fifo:
        raise BadInput(f"{where}: its parent {pool.parent} is a FIFO pool, which holds jobs only")


def _check_path(pool: Pool, named: Mapping[str, Pool]) -> None:
    seen = [pool.name]
    while (parent := named[seen[-1]].parent) != ROOT:
        if parent in seen:
            raise BadInput(f"pool {pool.name}: is below itself: {' < '.join([*seen, parent])}")
        if len(seen) == MOST_DEPTH:
            raise BadInput(f"pool {pool.name}: is more than {MOST_DEPTH} levels deep")
        seen.append(parent)


def _check_values(
    where: str, settings: Pool | PoolTree | Integral | PreemptionSettings, resources: Sequence[str]
) -> None:
    """Check each setting by its row of the table."""
    for each in table(type(settings)):
        value = getattr(settings, each.name)
        if each.nested:
            _check_values(where, value, resources)
        elif value is not None:
            _check_value(f"{where}: {each.label}", each, value, resources)


def _check_value(where: str, each: Setting, value: Any, resources: Sequence[str]) -> None:
    for word in (value if isinstance(value, tuple) else (value,)) if each.choices else ():
        if word not in each.choices:
            raise BadInput(f"{where} {shown(word)}; one of {', '.join(each.choices)}")
    if each.amounts:
        _check_amounts(where, value, (*resources, *each.names))
    if each.bounds is not None and not each.bounds.admit(value):
        raise BadInput(f"{where} {value!r}; {each.bounds.error or f'want {each.bounds.text}'}")


def _check_users(pool: Pool) -> None:
    where = f"pool {pool.name}"
    if len(pool.users) > MOST_USERS:
        raise BadInput(f"{where}: {len(pool.users)} users; the most is {MOST_USERS}")
    for user in pool.users:
        if not check_text(user, where):
            raise BadInput(f"{where}: a user without a name")


def _check_amounts(where: str, amounts: Amounts, known: Sequence[str]) -> None:
    for name, amount in amounts.items():
        if name not in known:
            raise BadInput(f"{where}: names {shown(name)}; known: {', '.join(known)}")
        if type(amount) is not int or not 0 <= amount <= MOST:
            raise BadInput(f"{where}: {name} is {shown(amount)}; want a whole number from 0 to {MOST}")


def _check_thresholds(where: str, settings: PreemptionSettings) -> None:
    """Thresholds in force, inherited ones included."""
    plain, aggressive = settings.threshold or 0.0, settings.aggressive_threshold or 0.0
    if aggressive > plain:
        raise BadInput(
            f"{where}: aggressive_threshold {aggressive:g} is above threshold {plain:g}; aggressive preemption takes"
            " more, so its threshold is at most the plain one"
        )


def _check_sums(pools: Pools) -> None:
    """Guarantees and flows of the pools below one are together at most its own (a limit below a guarantee wins)."""
    named = pools.by_name
    for parent, below in pools.children.items():
        if parent == ROOT:
            continue
        own, main = named[parent], pools.tree_of(parent).main_resource
        for what in ("guarantee", "flow"):
            stated: Amounts = own.guarantee if what == "guarantee" else own.integral.flow
            sums: dict[str, int] = {}
            for pool in below:
                amounts = pool.guarantee if what == "guarantee" else pool.integral.flow
                for name, amount in amounts.items():
                    sums[name] = sums.get(name, 0) + amount
            for name, amount in sums.items():
                # A guarantee that is not stated is inferred from that of the main resource (docs/pool-rules.md).
                inferred = what == "guarantee" and name != main and name not in stated and stated.get(main, 0) > 0
                if amount > stated.get(name, 0) and not inferred:
                    raise BadInput(
                        f"pool {parent}: the pools below it have a {what} of {name} {format_amount(name, amount)}"
                        f" together, it has {format_amount(name, stated.get(name, 0))}; raise it or lower theirs"
                    )


def _check_default_parent(tree: PoolTree, named: Mapping[str, Pool], pools: Pools) -> None:
    if tree.default_parent == ROOT:
        return
    where = f"pool tree {tree.name}: default_parent {shown(tree.default_parent)}"
    parent = named.get(tree.default_parent)
    if parent is None:
        raise BadInput(f"{where} is no pool")
    if parent.fifo:
        raise BadInput(f"{where} is a FIFO pool, which holds jobs only")
    if pools.tree_of(parent.name).name != tree.name:
        raise BadInput(f"{where} is in another tree")
