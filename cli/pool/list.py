"""``omega pool list``, and ``watch``, which prints the list again after changes."""

import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from omega.cellstate.errors import BadInput
from omega.cli import render
from omega.cli.app import App
from omega.cli.columns import Columns, answered, columns_option
from omega.cli.pool import settings

if TYPE_CHECKING:
    from omega.queries.pool_watch import PoolWatch


@click.command()
@columns_option
@click.pass_obj
def list_(app: App, *, columns: Columns) -> None:
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
        render.records([settings.table_row(row) for row in own], settings.SPARE)
    for warning in document["warnings"]:
        render.note(f"warning: {warning}")


@click.command()
@click.option("--every", type=click.FloatRange(0.1), default=1.0, show_default=True, help="Seconds between two reads.")
@click.option("--for", "seconds", type=click.FloatRange(0), help="Seconds to watch (default: until interrupted).")
@click.option(
    "--figures", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
    help="At the end, draw pools over time to pools.svg and pools.png in DIR; Ctrl-C ends as well.",
)  # fmt: skip
@click.pass_obj
def watch(app: App, *, every: float, seconds: float | None, figures: Path | None) -> None:
    """Print the pools again whenever shares, usage or settings changed; with --json one document per line."""
    from omega.queries.pool_shares import pools_json

    cell = app.open()
    watched = None
    if figures is not None:
        from omega.queries.pool_watch import PoolWatch

        watched = PoolWatch(cell, app.now_ms())
    until = None if seconds is None else time.monotonic() + seconds
    before: object = None
    with suppress(*([KeyboardInterrupt] if watched else [])):
        while True:
            document = pools_json(cell)
            if watched is not None:
                watched.add(document, app.now_ms())
            state = [{**row, "volume": None} for row in document["pools"]]
            if state != before:
                if app.as_json:
                    render.json_line(document)
                else:
                    if before is not None:
                        render.line()
                    if document["pools"]:
                        render.line(time.strftime("%H:%M:%S"))
                    show(document)
                before = state
            if until is not None and time.monotonic() + every > until:
                break
            time.sleep(every)
    if watched is not None and figures is not None:
        _draw(watched, figures, app)


def _draw(watched: "PoolWatch", directory: Path, app: App) -> None:
    from omega.experiments.plots.pool_history import draw_history

    history = watched.history()
    if not history.samples:
        raise BadInput("the cell has no pools to draw; create one with omega pool set NAME")
    paths = [directory / f"pools{ending}" for ending in (".svg", ".png")]
    with render.busy("drawing", quiet=app.as_json):
        draw_history(history, f"cell {watched.cell.name}, live", *paths)
    for path in paths:
        render.note(str(path))
