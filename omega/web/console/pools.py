"""The page of pools: shares on one scale, why each pool gets what it gets, evictions between pools, and changes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from omega.cellstate.errors import OmegaError
from omega.client.client import Client
from omega.queries import units
from omega.queries.pool_reasons import pool_reason, standing_text
from omega.queries.pool_shares import STARVING
from omega.web.access.visitors import Reader, required
from omega.web.console import pool_changes, timelines
from omega.web.console.page import View, back, show
from omega.web.console.render import link_of
from omega.web.reading import read_form
from omega.web.service import Served

router = APIRouter(include_in_schema=False)
VIEW = View(template="pools.html", section="pools", title="Pools", command="omega pool list --json", path="/v1/pools")
PLAN = View(
    template="pool_change.html", section="pools", title="Change pools", command="omega pool plan --json FILE",
    path="/v1/pool-file/plan", method="POST",
)  # fmt: skip
MOST_ROWS = 500
"""Pools on a page; a cell has at most 2,000 and their users."""


@router.get("/cells/{cell}/pools")
async def pools_page(request: Request, cell: str, _: Reader, resource: str = "", below: str = "") -> Response:
    """Show the pools of a cell by one resource, with `below` only a pool and those below it."""

    def read(mirror: Any) -> Mapping[str, Any]:
        document, moved = mirror.pools(), mirror.pool_flow()
        rows = {row["name"]: row for row in document["pools"]}
        names = list(document["trees"][0]["totals"])
        chosen = resource if resource in names else _most_wanted(names, rows)
        flows = [{**row, "from": row["from"] or UNKNOWN, "to": row["to"] or UNKNOWN} for row in moved["rows"]]
        return {
            "trees": [
                {**tree, "rows": _rows(tree, rows, chosen, below), "total": tree["totals"][chosen]}
                for tree in document["trees"]
            ],
            "resource": chosen, "resources": names, "below": below, "epoch": document["epoch"],
            "warnings": document["warnings"], "configured": bool(rows), "flows": flows,
            "flow": timelines.flow(flows),
        }  # fmt: skip

    return await show(request, cell, VIEW, read)


UNKNOWN = "no pool, or unknown"
"""The pool of a job that is no longer kept."""


def _most_wanted(names: Sequence[str], rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the resource of which the pools demand the largest part."""
    return max(names, key=lambda name: sum(row["demand"][name] for row in rows.values()), default="cpu")


def _rows(
    tree: Mapping[str, Any], rows: Mapping[str, Mapping[str, Any]], resource: str, below: str
) -> list[dict[str, Any]]:
    total = tree["totals"][resource]
    own = [row for row in rows.values() if row["tree"] == tree["name"] and _is_below(row, rows, below)][:MOST_ROWS]
    parts = [timelines.PoolAmounts.of(row, resource, total) for row in own]
    top = timelines.pool_scale(parts)
    return [_row(row, rows, each, top, resource) for row, each in zip(own, parts, strict=True)]


def _is_below(row: Mapping[str, Any], rows: Mapping[str, Mapping[str, Any]], pool: str) -> bool:
    if not pool:
        return True
    each: Mapping[str, Any] | None = row
    while each is not None and each["name"] != pool:
        each = rows.get(each["parent"])
    return each is not None


def _row(
    row: Mapping[str, Any],
    rows: Mapping[str, Mapping[str, Any]],
    parts: timelines.PoolAmounts,
    top: float,
    resource: str,
) -> dict[str, Any]:
    texts = {
        "fair share": row["fair_share_amounts"][resource], "usage": row["usage_amounts"][resource],
        "demand": row["demand_amounts"][resource], "guarantee": row["guarantee"].get(resource),
        "limit": row["limits"].get(resource),
    }  # fmt: skip
    known = {name: amount(resource, value) for name, value in texts.items()}
    label = ", ".join(f"{name} {text}" for name, text in known.items() if text)
    starving = row["status"] in STARVING
    return {
        **row,
        "bars": timelines.pool_bars(parts, top, f"{resource}: {label}", starving=starving),
        "shown": known,
        "starving": starving,
        "why": pool_reason(row, rows).text,
        "stands": standing_text(row),
        "scale": top,
    }


def amount(resource: str, value: float | None) -> str:
    """Return an amount as text; "" for None."""
    return "" if value is None else units.amount(resource, round(value))


@router.get("/cells/{cell}/pools/change")
async def change_page(request: Request, cell: str, visitor: Reader, served: Served, pool: str = "") -> Response:
    """Show the form for a pool and its siblings: their weights, guarantees and limits."""
    return await _change(request, cell, visitor.user, served, pool, {})


@router.post("/cells/{cell}/pools/change")
async def change(request: Request, cell: str, visitor: Reader, served: Served) -> Response:
    """Show the shares after a change of pools to everybody, or make the change for an operator."""
    form = await read_form(request)
    pool = form.get("pool", "")
    try:
        if form.get("step") == "make":
            required(request, "operator")
            version = await served.call(cell, visitor.user, pool_changes.make, form)
            return back(link_of(cell)("pools"), f"The pools were changed; they have version {version}.")
        planned = await served.call(cell, visitor.user, pool_changes.plan, form)
    except OmegaError as error:
        return await _change(request, cell, visitor.user, served, pool, form, error=str(error))
    return await _change(request, cell, visitor.user, served, pool, form, planned=planned)


async def _change(
    request: Request, cell: str, user: str, served: Served, pool: str, form: Mapping[str, str],
    *, planned: Mapping[str, Any] | None = None, error: str = "",
) -> Response:  # fmt: skip
    document = await served.call(cell, user, Client.export_pools)

    def read(mirror: Any) -> Mapping[str, Any]:
        trees = mirror.pools()["trees"]
        resources = list(trees[0]["totals"])
        rows = pool_changes.rows(document, pool, resources, form)
        version = form.get("version") or str(document["version"])
        return {
            "rows": rows,
            "version": version,
            "entered": pool_changes.entered(rows, form) | {"version": version, "pool": pool},
            "pool": pool,
            "planned": planned and pool_changes.preview(planned, resources),
        }

    view = replace(PLAN, page=link_of(cell)("pools", "change", pool=pool))
    return await show(request, cell, view, read, status=422 if error else 200, error=error)
