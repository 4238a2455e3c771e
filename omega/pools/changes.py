"""Changes of a cell's pools, checked against its machines and sent with the version that was read."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from omega.cellstate.errors import NotFound, Overtaken, Refused, Unreadable
from omega.cellstate.pools import ROOT, Pool, Pools
from omega.cellstate.pools.rules import check
from omega.pools.leaving import after_pools, check as check_leaving

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell

ATTEMPTS = 5


def change(
    cell: "Cell", make: Callable[[Pools], Pools], now_ms: int, by: str, version: int | None = None,
    *, evict: bool = False, repair: bool = False,
) -> tuple[Pools, Pools]:  # fmt: skip
    """Set the pools that `make` returns for the present ones; returns the pools before and afterwards.

    With `version` only if these are of that version (Overtaken); otherwise another change in between repeats it.
    Refused when tasks would be on machines of another tree afterwards, unless `evict` is set. With `repair` a
    record that cannot be read counts as no pools, and is replaced. In a dry run the version stays.
    """
    for attempt in range(ATTEMPTS):
        try:
            before, unreadable = cell.pools.get(), False
        except Unreadable:
            if not repair:
                raise
            before, unreadable = Pools(), True
        wanted = make(before)
        check_all(cell, wanted)
        check_leaving(after_pools(cell, before, wanted), "pools", evict=evict)
        expected = None if unreadable else before.version if version is None else version
        try:
            after = cell.pools.set(wanted, expected, now_ms, by)
            return before, replace(after, version=before.version) if cell.dry else after
        except Overtaken:
            if version is not None or attempt == ATTEMPTS - 1:
                raise
    raise RuntimeError("out of attempts")


def check_all(cell: "Cell", pools: Pools) -> None:
    """Raise BadInput for pools that break a rule, also one about the cell's machines."""
    check(pools, cell.dimensions.names)
    if any(tree.machines for tree in pools.trees):
        from omega.cellstate.array_snapshot import ArraySnapshot
        from omega.cellstate.transaction import Position
        from omega.schedulers.pool_machines import check_machines, fetch_attributes

        snapshot = ArraySnapshot(len(cell.dimensions))
        snapshot.apply(cell.schedulers.sync(Position()))
        fetch_attributes(pools, snapshot, cell)
        check_machines(pools, snapshot)


def with_pool(pools: Pools, pool: Pool) -> Pools:
    """Return pools with one added or replaced."""
    others = tuple(pool if each.name == pool.name else each for each in pools.pools)
    return replace(pools, pools=others if pool.name in pools.by_name else (*pools.pools, pool))


def new_pool(cell: "Cell", pools: Pools, name: str) -> Pool:
    """Return a pool that is not configured yet: below the root; a live ephemeral pool keeps its parent."""
    parent = pools.parent_of(name)
    if parent == ROOT or all(
        pools.pool_of(lane.pool, lane.user) != name for _, lane in cell.schedulers.lanes().values()
    ):
        return Pool(name)
    return Pool(name, parent)


def without(pools: Pools, names: "tuple[str, ...]") -> Pools:
    """Return pools without some. Refused when one is unknown, or has pools below it that stay."""
    for name in names:
        if name not in pools.by_name:
            raise NotFound(f"pool {name!r}: not configured; see omega pool list")
        below = [each.name for each in pools.children.get(name, []) if each.name not in names]
        if below:
            raise Refused(f"pool {name}: has pools below it: {', '.join(below)}; remove or move them first")
    kept = tuple(pool for pool in pools.pools if pool.name not in names)
    trees = tuple(replace(t, default_parent="<Root>") if t.default_parent in names else t for t in pools.trees)
    return replace(pools, pools=kept, trees=trees)
