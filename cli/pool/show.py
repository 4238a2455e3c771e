"""``omega pool show``."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from omega.cli import render
from omega.cli.app import App
from omega.cli.pool import settings


@click.command()
@click.argument("name")
@click.pass_obj
def command(app: App, *, name: str) -> None:
    """Show the settings, shares and volume of a pool."""
    from omega.pools.one import pool_json

    cell = app.open()
    document = pool_json(cell, name)
    if app.as_json:
        render.document(document)
        return
    row, own = document["pool"], document["pool"]["settings"]
    pool = cell.pools.get().by_name.get(name)

    def shares(field: str) -> str:
        parts = row[field].items() if field not in ("strong", "integral") or any(row[field].values()) else ()
        return "  ".join(f"{resource} {settings.percent(share)}" for resource, share in parts)

    facts = {
        "pool": name, "parent": row["parent"], "tree": row["tree"],
        "mode": "fair_share (ephemeral)" if row["ephemeral"] else row["mode"],
        "weight": row["weight_divides"] or f"{row['weight']:g}",
        "guarantee": settings.text_of(row["guarantee"]), "limits": _limits(row),
        "users": (", ".join(pool.users) or "all") if pool else "", "reclaim": row["reclaim"],
    }  # fmt: skip
    facts |= {field.replace("_", " "): _said(own[field]) for field in own if field not in ("name", *facts)}
    facts |= {
        "fair share": shares("fair_share"), "guaranteed share": shares("strong"), "integral share": shares("integral"),
        "usage": shares("usage"), "demand": shares("demand"),
        "satisfaction": settings.number(row["satisfaction"]), "least satisfied job": settings.least(row["least"]),
        "dominant resource": row["dominant_resource"] or "", "status": row["status"],
        "not in effect": row["not_in_effect"].replace(": not in effect", ""),
        "volume": _volume(row) if pool and pool.integral.kind != "none" else "",
    }  # fmt: skip
    render.facts(facts)


def _said(value: object) -> str:
    """Return a setting as in a file of pools, on one line."""
    if isinstance(value, Mapping):
        return "  ".join(f"{name} {_said(each)}" for name, each in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(_said, value))
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _limits(row: Mapping[str, Any]) -> str:
    from omega.cellstate.resources import format_amount

    held = row["limited_use"] or {}
    return "  ".join(
        f"{name} {format_amount(name, held.get(name, 0))} of {format_amount(name, limit)}"
        + (f" (over by {format_amount(name, held[name] - limit)})" if held.get(name, 0) > limit else "")
        for name, limit in row["limits"].items()
    )


def _volume(row: Mapping[str, Any]) -> str:
    """Return the volume in resource × seconds."""
    from omega.cellstate.resources import format_amount

    return "  ".join(f"{name} {format_amount(name, round(amount))}·s" for name, amount in row["volume"].items())
