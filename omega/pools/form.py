"""Pools in the form of a file: what differs from the defaults, amounts with units (docs/pool-settings.md)."""

import re
from collections.abc import Mapping
from typing import Any

from omega.cellstate.errors import BadInput
from omega.cellstate.pools import JOBS, TASKS, Integral, Pool, Pools, PoolTree, PreemptionSettings, stated
from omega.cellstate.resources import SLOTS, Dimensions, format_amount, parse_amount


def limits(given: Mapping[str, str | int | float], dimensions: Dimensions, what: str) -> dict[str, str | int | float]:
    """Return limits by their names in the store: ``user_slots`` are ``tasks`` in a cell without that resource."""
    if SLOTS not in given or SLOTS in dimensions.names:
        return dict(given)
    if TASKS in given:
        raise BadInput(f"{what}: {SLOTS} and {TASKS} are the same in this cell; give one of them")
    return {TASKS if name == SLOTS else name: amount for name, amount in given.items()}


def amounts(given: Mapping[str, str | int | float], dimensions: Dimensions, what: str) -> dict[str, int]:
    """Return amounts in smallest units; ``tasks`` and ``jobs`` are plain counts. Raises BadInput."""
    units = {}
    for name, amount in given.items():
        if name not in (*dimensions.names, TASKS, JOBS):
            known = ", ".join(dimensions.names)
            raise BadInput(f"{what}: unknown resource {name!r}; this cell has {known}; limits also name tasks and jobs")
        if name in (TASKS, JOBS) and not re.fullmatch(r"-?\d+", str(amount)):
            raise BadInput(f"{what}: {name}: {str(amount)!r} is not a whole number")
        try:
            units[name] = parse_amount(name, amount)
        except BadInput as error:
            raise BadInput(f"{what}: {error}") from None
    return units


def as_document(pools: Pools) -> dict[str, Any]:
    """Return pools as the value of a file: what differs from the defaults, amounts with units."""
    return {
        "version": pools.version,
        "trees": [{"name": tree.name} | _with_units(tree) for tree in pools.trees],
        "pools": [_with_units(pool) for pool in pools.pools],
    }


def _with_units(settings: Pool | PoolTree | Integral | PreemptionSettings) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for each, value in stated(settings):
        if each.nested:
            fields[each.file] = _with_units(value)
        elif each.amounts:
            fields[each.file] = {name: format_amount(name, amount) for name, amount in sorted(value.items())}
        elif each.configurable:
            fields[each.file] = list(value) if isinstance(value, tuple) else value
    return fields


def settings_of(pools: Pools, name: str) -> dict[str, Any]:
    """Return the settings of a pool that differ from the default, as in a file; empty for an ephemeral pool."""
    pool = pools.by_name.get(name)
    return {} if pool is None else _with_units(pool)


def dump(pools: Pools) -> str:
    """Return pools as YAML, which `omega.pools.file.read` reads back."""
    import yaml  # noqa: PLC0415 - only an export writes YAML

    text: str = yaml.safe_dump(as_document(pools), sort_keys=False, allow_unicode=True, width=110)
    return text
