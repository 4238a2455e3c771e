"""``omega store migrate``."""

from contextlib import closing
from functools import partial
from typing import Any

import click

from omega.cli import render
from omega.cli.app import App


@click.command()
@click.argument("names", metavar="[CELL]...", nargs=-1)
@click.pass_obj
def migrate(app: App, names: tuple[str, ...]) -> None:
    """Migrate cells written by an older version (default: all cells).

    Stop schedulers and agents first. Repeat the command after an interruption; until it succeeds, no version opens
    the cell. The log of a migrated cell starts empty.
    """
    from omega.cellstate.backup.migrate import migrate as bring
    from omega.cellstate.keys import SCHEMA
    from omega.cellstate.server import connect
    from omega.cellstate.store import check_name

    chosen = [check_name(name) for name in names or ([app.cell_name] if app.cell_name else app.cells())]
    done: list[dict[str, Any]] = []
    with closing(connect(app.url, timeout=60.0)) as client, render.progress(quiet=app.as_json) as bars:
        for name in chosen:
            bar = bars.add_task(f"migrating {name}", total=None, more="records")
            old = bring(client, name, app.now_ms(), app.by, url=app.shown_url, told=partial(bars.advance, bar))
            done.append({"cell": name, "from": old or SCHEMA, "to": SCHEMA, "migrated": old is not None})
    if app.as_json:
        render.document({"cells": done})
        return
    for each in done:
        what = f"migrated from schema {each['from']} to {each['to']}" if each["migrated"] else "has the present schema"
        render.line(f"cell {each['cell']}: {what}")
