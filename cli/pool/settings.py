"""Options of ``omega pool set``, and pools as table rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from omega.cellstate.errors import BadInput
from omega.cellstate.resources import Dimensions, format_amount, shown

if TYPE_CHECKING:
    from omega.cellstate.pools import Pool, PreemptionSettings

Command = TypeVar("Command", bound=Callable[..., Any])
NONE = "none"
YES, NO = ("true", "yes", "on"), ("false", "no", "off")


def amounts(given: Mapping[str, str], known: Mapping[str, int], dimensions: Dimensions, what: str) -> dict[str, int]:
    """Return amounts with the given ones replaced; the value none removes one."""
    from omega.pools.file import amounts as parsed
    from omega.pools.file import limits

    if what == "--limit":
        given = {name: str(amount) for name, amount in limits(given, dimensions, what).items()}
    kept = {name: amount for name, amount in known.items() if name not in given}
    parsed(dict.fromkeys(given, "0"), dimensions, what)  # reports unknown names among those to remove
    return kept | parsed({name: text for name, text in given.items() if text != NONE}, dimensions, what)


def preemption(given: Mapping[str, str], known: "PreemptionSettings") -> "PreemptionSettings":
    """Return preemption settings with the given ones replaced; the value none removes one."""
    from omega.cellstate.pools import PreemptionSettings

    kinds = {each.name: str(each.type) for each in fields(PreemptionSettings)}
    values: dict[str, Any] = {}
    for name, text in given.items():
        field = name.replace("-", "_")
        if field not in kinds or "Amounts" in kinds[field]:
            known_names = ", ".join(each for each in kinds if "Amounts" not in kinds[each])
            raise BadInput(f"--preemption: unknown setting {shown(name)}; known: {known_names}")
        values[field] = None if text == NONE else _value(name, text, kinds[field])
    return replace(known, **values)


def _value(name: str, text: str, kind: str) -> bool | int | float:
    if "bool" in kind:
        if text.lower() not in (*YES, *NO):
            raise BadInput(f"--preemption: {name}: {shown(text)} is neither true nor false")
        return text.lower() in YES
    try:
        return int(text) if "int" in kind else float(text)
    except ValueError:
        raise BadInput(f"--preemption: {name}: {shown(text)} is not a number") from None


def text_of(amounts: Mapping[str, int]) -> str:
    """Return amounts as text with units."""
    return " ".join(f"{name} {format_amount(name, amount)}" for name, amount in amounts.items())


def users_of(pool: "Pool") -> str:
    """Return the users that may submit to a pool, by its own list, as text."""
    return ", ".join(pool.users) or "all"


def percent(share: float) -> str:
    """Return a share in per cent."""
    return f"{100 * share:.1f}%"


def largest(shares: Mapping[str, float], dominant: str | None) -> float:
    """Return the share of the dominant resource, without one the largest."""
    return max(shares.values(), default=0.0) if dominant is None else shares[dominant]


def table_row(row: Mapping[str, Any]) -> Sequence[object]:
    """Return the table row of a pool (`omega pool list`)."""
    dominant, satisfaction = row["dominant_resource"], row["satisfaction"]
    return (
        "  " * row["depth"] + row["name"], f"{row['weight']:g}", text_of(row["guarantee"]) or "–",
        text_of(row["limits"]) or "–", percent(largest(row["demand"], dominant)),
        percent(largest(row["usage"], dominant)), percent(largest(row["fair_share"], dominant)),
        f"{satisfaction:.2f}" if isinstance(satisfaction, float) else satisfaction, dominant or "–", row["status"],
    )  # fmt: skip


COLUMNS = (
    "pool",
    ">weight",
    "guarantee",
    "limit",
    ">demand",
    ">usage",
    ">fair share",
    ">satisfaction",
    "dominant",
    "status",
)
SPARE = ("limit", "guarantee", "dominant", "demand")


def version_option(function: Command) -> Command:
    """Add --check VERSION: change the pools only if they were not changed since that version."""
    return click.option(
        "--check", "version", metavar="VERSION", type=click.IntRange(0),
        help="Change the pools only if they are still of this version.",
    )(function)  # fmt: skip
