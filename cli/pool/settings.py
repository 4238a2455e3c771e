"""Options of ``omega pool set``, and pools as table rows."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

import click

from omega.cellstate.errors import BadInput
from omega.cellstate.pools import Amounts, Integral, Pool, PreemptionSettings, Setting, table
from omega.cellstate.resources import Dimensions, format_amount, shown
from omega.cli.options import combined, pairs

Settings = TypeVar("Settings", Pool, Integral, PreemptionSettings)
NONE = "none"
YES, NO = ("true", "yes", "on"), ("false", "no", "off")


def amounts(given: Mapping[str, str], known: Amounts, dimensions: Dimensions, each: Setting) -> Amounts:
    """Return amounts with the given ones replaced; the value none removes one."""
    from omega.pools.form import amounts as parsed, limits

    what = f"--{each.option}"
    if each.names:
        given = {name: str(amount) for name, amount in limits(given, dimensions, what).items()}
    kept = {name: amount for name, amount in known.items() if name not in given}
    parsed(dict.fromkeys(given, "0"), dimensions, what)  # reports unknown names among those to remove
    return kept | parsed({name: text for name, text in given.items() if text != NONE}, dimensions, what)


def _with_options() -> list[Setting]:
    """Return the settings with options of their own; --preemption sets all of preemption but amounts."""
    rows = list[Setting]()
    for each in table(Pool):
        if each.value_type is Integral:
            rows += table(Integral)
        elif each.configurable and each.name != "name":
            rows.append(each)
    return rows + [each for each in table(PreemptionSettings) if each.amounts]


def _form(each: Setting) -> dict[str, Any]:
    if each.amounts or each.nested:
        none, metavar = ("none", "NAME=AMOUNT") if each.amounts else ("none for that of the parent", "NAME=VALUE")
        text = f"{each.meaning}, or {none}; repeatable."
        return {"metavar": metavar, "multiple": True, "callback": pairs, "help": text}
    if each.value_type == tuple[str, ...]:
        if each.choices:
            return {"metavar": "KEY,…", "help": f"{each.meaning}: {', '.join(each.choices)}."}
        return {"metavar": each.metavar, "multiple": True, "help": f"{each.meaning}; repeatable."}
    bounds = f", {each.bounds.text}" if each.bounds else ""
    default = f" (default: {each.without})" if each.without else ""
    kind = click.Choice(each.choices) if each.choices else each.value_type
    return {"metavar": each.metavar or None, "type": kind, "help": f"{each.meaning}{bounds}{default}."}


evict_option = click.option(
    "--evict", is_flag=True, help="Evict tasks that would be on machines of another pool tree afterwards."
)

options = combined(*(click.option(f"--{each.option}", each.name, **_form(each)) for each in _with_options()))
"""An option for each setting of a pool, in the order of the table."""


def changed(settings: Settings, given: Mapping[str, Any], dimensions: Dimensions) -> Settings:
    """Return settings with those that options give, by their names, replaced; amounts are replaced by resource."""
    values: dict[str, Any] = {}
    for each in table(type(settings)):
        known, wanted = getattr(settings, each.name), given.get(each.name)
        if each.nested:
            values[each.name] = changed(known, given, dimensions)
        elif each.amounts:
            values[each.name] = amounts(wanted, known or {}, dimensions, each) or each.default if wanted else known
        elif isinstance(wanted, str) and each.value_type == tuple[str, ...]:
            values[each.name] = tuple(word.strip() for word in wanted.split(",") if word.strip()) or known
        elif wanted is not None:
            values[each.name] = None if wanted == NONE and each.optional else wanted
    return replace(settings, **values)


def preemption(given: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of --preemption by their names; the word none stays."""
    rows = {each.name: each for each in table(PreemptionSettings) if not each.amounts}
    values: dict[str, Any] = {}
    for name, text in given.items():
        each = rows.get(name.replace("-", "_"))
        if each is None:
            raise BadInput(f"--preemption: unknown setting {shown(name)}; known: {', '.join(rows)}")
        values[each.name] = text if text == NONE else _value(name, text, each.value_type)
    return values


def _value(name: str, text: str, kind: type) -> bool | int | float:
    if kind is bool:
        if text.lower() not in (*YES, *NO):
            raise BadInput(f"--preemption: {name}: {shown(text)} is neither true nor false")
        return text.lower() in YES
    try:
        return int(text) if kind is int else float(text)
    except ValueError:
        raise BadInput(f"--preemption: {name}: {shown(text)} is not a number") from None


def text_of(amounts: Mapping[str, int]) -> str:
    """Return amounts as text with units."""
    return " ".join(f"{name} {format_amount(name, amount)}" for name, amount in amounts.items())


def percent(share: float) -> str:
    """Return a share in per cent."""
    return f"{100 * share:.1f}%"


def largest(shares: Mapping[str, float], dominant: str | None) -> float:
    """Return the share of the dominant resource, without one the largest."""
    return max(shares.values(), default=0.0) if dominant is None else shares[dominant]


def number(satisfaction: float | str) -> str:
    """Return satisfaction as text."""
    return f"{satisfaction:.2f}" if isinstance(satisfaction, float) else satisfaction


def least(job: Mapping[str, Any] | None) -> str:
    """Return name and satisfaction of the least satisfied job of a pool; empty without jobs."""
    return f"{job['name']} {number(job['satisfaction'])}" if job else ""


def table_row(row: Mapping[str, Any]) -> dict[str, object]:
    """Return the row of a pool for a table (`omega pool list`)."""
    dominant, satisfaction = row["dominant_resource"], row["satisfaction"]
    return {
        "pool": "  " * row["depth"] + row["name"],
        ">weight": f"{row['weight']:g}",
        "guarantee": text_of(row["guarantee"]) or "–",
        "limit": text_of(row["limits"]) or "–",
        ">demand": percent(largest(row["demand"], dominant)),
        ">usage": percent(largest(row["usage"], dominant)),
        ">fair share": percent(largest(row["fair_share"], dominant)),
        ">satisfaction": number(satisfaction),
        "least job": least(row["least"]) or "–",
        "dominant": dominant or "–",
        "status": row["status"],
    }


SPARE = ("limit", "guarantee", "dominant", "demand", "least job")


version_option = click.option(
    "--check",
    "version",
    metavar="VERSION",
    type=click.IntRange(0),
    help="Change the pools only if they are still of this version.",
)
