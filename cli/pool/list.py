"""``omega pool list``."""

from collections.abc import Mapping
from typing import Any

import click

from omega.cli import render
from omega.cli.app import App
from omega.cli.columns import Columns, answered, columns_option
from omega.cli.pool import settings


@click.command()
@columns_option
@click.pass_obj
def command(app: App, *, columns: Columns) -> None:
    """List the pools with demand, usage, fair share and status.

    Shares are parts of the tree's machines, of the pool's dominant resource. Fair shares are those of the published
    epoch; demand and usage are current.
    """
    from omega.queries.pool_shares import pools_json

    cell = app.open()
    document = pools_json(cell)
    if answered(app, document, "pools", columns):
        return
    show(document)


def show(document: Mapping[str, Any]) -> None:
    """Print the table, a heading for each tree where there are several."""
    rows, trees = document["pools"], document["trees"]
    if not rows:
        render.note("no pools; create one with omega pool set NAME, or several with omega pool import FILE")
        return
    for tree in trees:
        own = [row for row in rows if row["tree"] == tree["name"]]
        if len(trees) > 1:
            render.line(f"tree {tree['name']}: {tree['machines'] or 'machines of no other tree'}")
        render.table(settings.COLUMNS, [settings.table_row(row) for row in own], settings.SPARE)
    for warning in document["warnings"]:
        render.note(f"warning: {warning}")
