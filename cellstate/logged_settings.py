"""What an entry of the log says of settings, beside its facts: a JSON text in the field ``settings``.

The client that changes the settings knows them: scripts pass the text on. The facts of the entry have the numbers and
digests that the audit checks; recordings read the values here. Entries of older logs lack the field.
"""

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omega.cellstate.pools import Pools


def scheduler_text(settings: Mapping[str, Any]) -> str:
    """Return the text of a scheduler's settings at its registration; "" for none."""
    return _text({"scheduler": dict(settings)}) if settings else ""


def attributes_text(machines: Iterable[tuple[str, Mapping[str, str]]]) -> str:
    """Return the text of the attributes of machines, by name; "" for none.

    A machine that joins and is left out has none.
    """
    attributes = {name: dict(given) for name, given in machines}
    return _text({"attributes": attributes}) if attributes else ""


def plain_pools(pools: "Pools") -> dict[str, Any]:
    """Return all pools and trees as plain values, which `read_pools` reads."""
    from omega.cellstate.pools.records import plain  # noqa: PLC0415 - few calls change pools

    return {"pools": [plain(pool) for pool in pools.pools], "trees": [plain(tree) for tree in pools.trees]}


def pools_text(pools: "Pools") -> str:
    """Return the text of all pools and trees."""
    return _text(plain_pools(pools))


def read_pools(settings: Mapping[str, Any], version: int) -> "Pools | None":
    """Return the pools in the settings of an entry, None without any. Raises TypeError for an unknown setting."""
    from omega.cellstate.pools import Pool, Pools, PoolTree  # noqa: PLC0415
    from omega.cellstate.pools.records import settings as read  # noqa: PLC0415

    if "pools" not in settings:
        return None
    pools, trees = settings["pools"], settings["trees"]
    return Pools(tuple(read(Pool, each) for each in pools), tuple(read(PoolTree, each) for each in trees), version)


def _text(settings: Mapping[str, Any]) -> str:
    return json.dumps(settings, separators=(",", ":"), sort_keys=True)
