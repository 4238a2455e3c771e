"""Why a pool gets its fair share, in one sentence: which bound of the division decides (docs/pool-rules.md).

The sentence follows from the numbers of ``omega pool list --json`` alone.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

from omega.queries import units

Row = Mapping[str, Any]
Bound = Literal["demand", "limit", "guarantee", "order", "weight"]
_SMALL = 1e-6
"""Shares that differ by less are equal here: amounts are rounded to whole units."""


class PoolReason(NamedTuple):
    """The bound that decides, the resource that it is about, and the sentence."""

    bound: Bound
    resource: str
    text: str


def pool_reason(row: Row, rows: Mapping[str, Row]) -> PoolReason:
    """Return why a pool of `rows`, by name, has its fair share."""
    resource = _resource(row)
    fair = row["fair_share"].get(resource, 0.0)
    share, demand = (_amount(row, field, resource) for field in ("fair_share_amounts", "demand_amounts"))
    if not any(row["demand"].values()):
        return PoolReason("demand", resource, "Its jobs demand nothing, so its fair share is 0.")
    if all(row["fair_share"][name] >= each - _SMALL for name, each in row["demand"].items()):
        return PoolReason("demand", resource, f"Gets all that its jobs demand, {share}: the demand decides.")
    got = f"Gets {share} of the {demand} that its jobs demand"
    limit = _limit(row, rows)
    if limit is not None:
        pool, name, amount = limit
        whose = "its limit" if pool == row["name"] else f"the limit of pool {pool}"
        return PoolReason("limit", name, f"{got}: {whose} of {_text(name, amount)} decides.")
    strong = row["strong"].get(resource, 0.0)
    if strong > _SMALL and fair <= strong + _SMALL:
        text = f"{got}: its guarantee decides; nothing is left beyond the guarantees."
        return PoolReason("guarantee", resource, text)
    parent = rows.get(row["parent"])
    if parent is not None and parent["mode"] == "fifo":
        return PoolReason(
            "order", resource, f"{got}: its place in the order of the FIFO pool {parent['name']} decides."
        )
    return PoolReason("weight", resource, f"{got}: {_weights(row, rows, resource, strong)}.")


def standing_text(row: Row) -> str:
    """Return what a pool holds of its fair share, and whether it starves."""
    resource = _resource(row)
    used = f"It holds {_amount(row, 'usage_amounts', resource)}"
    status = row["status"]
    if status == "normal":
        return f"{used}."
    how = "is below its fair share" if status == "below fair share" else f"is {status}: it may evict tasks of others"
    return f"{used} and {how}."


def _weights(row: Row, rows: Mapping[str, Row], resource: str, strong: float) -> str:
    """Return how the weights divide what is left among the siblings that want more."""
    beyond = " beyond its guarantee" if strong > _SMALL else ""
    rivals = [each for each in _siblings(row, rows) if _wants_more(each)]
    if len(rivals) <= 1:
        return f"the other pools get all that they demand, and what is left{beyond} is its"
    total = sum(each["weight"] for each in rivals)
    part = units.percent(row["weight"], total)
    return (
        f"its weight decides{beyond}, {row['weight']:g} of {total:g} ({part}) among {len(rivals)} pools that want more"
        f" {resource}"
    )


def _siblings(row: Row, rows: Mapping[str, Row]) -> Iterator[Row]:
    place = row["tree"], row["parent"]
    return (each for each in rows.values() if (each["tree"], each["parent"]) == place)


def _wants_more(row: Row) -> bool:
    return any(row["fair_share"][name] < each - _SMALL for name, each in row["demand"].items())


def _limit(row: Row, rows: Mapping[str, Row]) -> tuple[str, str, int] | None:
    """Return pool, resource and amount of a limit that the fair share of a pool or of one above it has reached."""
    each: Row | None = row
    while each is not None:
        for name, amount in each["limits"].items():
            held = each["fair_share_amounts"].get(name)
            if held is not None and held >= amount * (1 - _SMALL) - 0.5 and row["demand"].get(name):
                return each["name"], name, amount
        each = rows.get(each["parent"])
    return None


def _resource(row: Row) -> str:
    """Return the dominant resource of the fair share; without one that of the demand."""
    if row["dominant_resource"]:
        return str(row["dominant_resource"])
    return max(row["demand"], key=lambda name: row["demand"][name], default="")


def _amount(row: Row, field: str, resource: str) -> str:
    return _text(resource, round(row[field].get(resource, 0)))


def _text(resource: str, amount: int) -> str:
    return f"{resource} {units.amount(resource, amount)}"
