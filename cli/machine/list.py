"""``omega machine list``."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from omega.cli import render
from omega.cli.app import App
from omega.cli.columns import Columns, answered, columns_option
from omega.queries import fleet, machines, units
from omega.queries.recent import KINDS, NAMES, recently

MOST_ROWS = 50


@click.command()
@click.option("--state", type=click.Choice(fleet.STATES), help="List only machines in this state.")
@click.option(
    "--limit",
    type=click.IntRange(1),
    metavar="N",
    help=f"Maximum number of machines (default: {MOST_ROWS}; with --json or --output all).",
)
@click.option(
    "--after", type=click.IntRange(0), metavar="INDEX", help="List only machines above this index (next page)."
)
@click.option("--verbose", "-v", is_flag=True, help="Add recent errors, and how long a machine is not up.")
@columns_option
@click.pass_obj
def command(app: App, state: str | None, limit: int | None, after: int | None, verbose: bool, columns: Columns) -> None:
    """List the machines by index: state, resources in use and in total, number of tasks."""
    cell = app.open()
    past = recently(cell, app.now_ms()) if verbose else None
    most = limit if limit or app.as_json or columns else MOST_ROWS
    page = machines.page(cell, state, most, after)
    document = machines.list_machines(cell, page, past)
    if answered(app, document, "machines", columns):
        return
    if not page.total:
        render.note("no machines" + (f" that are {state}" if state else "; add some with omega machine add"))
        return
    _show(cell.dimensions.names, document["machines"], app.now_ms())
    if page.after is not None:
        render.note(f"… {units.count(page.left, 'more machine')} (--after {page.after}, --limit)")
    if past is not None:
        render.note(units.recently(past) or f"nothing went wrong in the last {units.age(past.seconds)}")


def _show(names: Sequence[str], shown: Sequence[Mapping[str, Any]], now_ms: int) -> None:
    attributed = any(each["attributes"] for each in shown)
    wrong = [name for kind in KINDS if any(each.get("recent", {}).get(name := NAMES.get(kind, kind)) for each in shown)]
    why = any(each["unfit"] for each in shown)
    rows = []
    for each in shown:
        since = each.get("state_since_ms")
        state = each["state"] + (", over" if each["over"] else "")
        state += "" if since is None else f" {units.age((now_ms - since) / 1000)}"
        attributes = " ".join(f"{key}={value}" for key, value in each["attributes"].items())
        rows.append(
            {"machine": each["name"], ">index": each["index"], "state": state}
            | {f">{name}": units.in_use(name, each["allocated"][name], each["capacity"][name]) for name in names}
            | {">tasks": each["tasks"]}
            | {f">{name}": each["recent"][name] for name in wrong}
            | ({"starts no tasks": each["unfit"] or ""} if why else {})
            | ({"attributes": attributes} if attributed else {})
        )
    render.records(rows)
