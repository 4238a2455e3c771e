"""One pool of a cell: shown, set and removed, as plain values."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from omega.cellstate.errors import BadInput, NotFound
from omega.cellstate.pools import Pool, Pools
from omega.pools.changes import change, new_pool, with_pool, without
from omega.pools.effects import warnings, weight_line
from omega.pools.form import settings_of

if TYPE_CHECKING:
    from omega.cellstate.cell import Cell


def pool_json(cell: "Cell", name: str, listed: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a pool with its settings, shares and volume. Raises NotFound when it is neither configured nor in use.

    `listed`: the document of all pools, for a caller that has it.
    """
    from omega.queries.pool_shares import not_in_effect, pools_json

    document = pools_json(cell) if listed is None else listed
    row = next((row for row in document["pools"] if row["name"] == name), None)
    if row is None:
        raise NotFound(f"pool {name!r}: neither configured nor in use; see omega pool list")
    pools = cell.pools.get()
    row = row | {
        "not_in_effect": not_in_effect(cell, pools, name),
        "weight_divides": weight_line(pools, name) if name in pools.by_name else "",
        "settings": settings_of(pools, name),
    }
    return {"cell": cell.name, "version": document["version"], "epoch": document["epoch"], "pool": row}


def set_pool(
    cell: "Cell",
    name: str,
    make: Callable[[Pool], Pool],
    now_ms: Callable[[], int],
    by: str,
    *,
    version: int | None = None,
    evict: bool = False,
    over: bool = False,
) -> tuple[dict[str, Any], str, list[str]]:
    """Create or change a pool: `make` gets it as it is.

    Return the document, the word ``created``, ``changed`` or ``unchanged``, and warnings.
    `evict`: tasks that would be on machines of another tree leave; `over`: tasks above a lowered limit are evicted.
    Raises Overtaken when the pools are of another version than `version`, and what `omega.pools.changes.change` does.
    """
    from omega.limits import excess_of_pool, jobs_of_pool, settle
    from omega.queries.pool_shares import not_in_effect

    def made(pools: Pools) -> Pools:
        return with_pool(pools, make(pools.by_name.get(name) or new_pool(cell, pools, name)))

    before, after = change(cell, made, now_ms(), by, version, evict=evict)
    excess, belongs = partial(excess_of_pool, cell, name, after if cell.dry else None), jobs_of_pool(after, name)
    settled = settle(cell, f"pool {name}", excess, belongs if over else None, now_ms, by)
    unread = not_in_effect(cell, after, name)
    document = settings_of(after, name)
    document |= {
        "number": after.by_name[name].number,
        "over": settled.over,
        "evicted": settled.evicted,
        "not_in_effect": unread,
    }
    document |= {"weight_divides": weight_line(after, name)}
    warned = [*([settled.warning] if settled.warning else []), *([f"pool {name}: {unread}"] if unread else [])]
    what = "created" if name not in before.by_name else "changed"
    if before.by_name.get(name) == after.by_name[name]:
        what = "unchanged"
    return {"cell": cell.name, "version": after.version, "pool": document}, what, warned


def with_values(pool: Pool, values: Mapping[str, Any], cell: "Cell") -> Pool:
    """Return a pool with settings of the form of a file replaced; None sets one to its default.

    Amounts and preemption are replaced name by name. Raises BadInput.
    """
    from omega.pools.file import from_values

    if "name" in values and values["name"] != pool.name:
        raise BadInput(f"pool {pool.name}: cannot be renamed; make another one")
    now = settings_of(Pools((pool,)), pool.name)
    whole = now | {name: _merged(now.get(name, {}), value) for name, value in values.items()}
    fields = {name: value for name, value in whole.items() if value is not None}
    made = from_values({"pools": [fields | {"name": pool.name}]}, cell.dimensions)[0].pools[0]
    return replace(made, number=pool.number)


def _merged(now: Any, value: Any) -> Any:
    """Return a value that is set, of amounts and groups of settings with those of `now` that it does not name."""
    if not isinstance(value, Mapping) or not isinstance(now, Mapping):
        return value
    return {key: each for key, each in {**now, **value}.items() if each is not None}


def remove_pools(
    cell: "Cell", names: Sequence[str], now_ms: int, by: str, version: int | None = None
) -> dict[str, Any]:
    """Remove pools without live jobs and without pools below them. Raises NotFound, Refused, Overtaken."""
    # The store refuses to remove a pool with jobs, so no task can be in another tree afterwards.
    _, after = change(cell, lambda pools: without(pools, tuple(names)), now_ms, by, version, evict=True)
    return {"cell": cell.name, "version": after.version, "removed": list(names)}


def import_pools(
    cell: "Cell", wanted: Pools, now_ms: int, by: str, version: int | None, *, evict: bool
) -> dict[str, Any]:
    """Replace all pools and trees; return the version and the numbers of pools that differ."""
    before, after = change(
        cell, lambda pools: replace(wanted, version=pools.version), now_ms, by, version, evict=evict, repair=True
    )
    old, new = before.by_name, after.by_name
    return {
        "cell": cell.name,
        "version": after.version,
        "added": len(new.keys() - old.keys()),
        "changed": sum(name in old and replace(old[name], number=pool.number) != pool for name, pool in new.items()),
        "removed": len(old.keys() - new.keys()),
        "warnings": warnings(after),
    }
