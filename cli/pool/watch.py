"""``omega pool watch``."""

import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from omega.cellstate.errors import BadInput
from omega.cli import render
from omega.cli.app import App
from omega.cli.pool.list import show

if TYPE_CHECKING:
    from omega.queries.pool_watch import PoolWatch


@click.command()
@click.option("--every", type=click.FloatRange(0.1), default=1.0, show_default=True, help="Seconds between two reads.")
@click.option("--for", "seconds", type=click.FloatRange(0), help="Seconds to watch (default: until interrupted).")
@click.option(
    "--figures", type=click.Path(path_type=Path, file_okay=False), metavar="DIR",
    help="At the end, draw pools over time to pools.svg and pools.png in DIR; Ctrl-C ends as well.",
)  # fmt: skip
@click.pass_obj
def command(app: App, *, every: float, seconds: float | None, figures: Path | None) -> None:
    """Print the pools again whenever shares, usage or settings changed; with --json one document per line."""
    from omega.queries.pool_shares import pools_json

    cell = app.open()
    watched = None if figures is None else _watch(app)
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


def _watch(app: App) -> "PoolWatch":
    from omega.queries.pool_watch import PoolWatch

    return PoolWatch(app.open(), app.now_ms())


def _draw(watched: "PoolWatch", directory: Path, app: App) -> None:
    """Draw the pools over time."""
    from omega.experiments.plots.pool_history import draw_history

    history = watched.history()
    if not history.samples:
        raise BadInput("the cell has no pools to draw; create one with omega pool set NAME")
    paths = [directory / f"pools{ending}" for ending in (".svg", ".png")]
    with render.busy("drawing", quiet=app.as_json):
        draw_history(history, f"cell {watched.cell.name}, live", *paths)
    for path in paths:
        render.note(str(path))
