"""``omega pool remove``."""

import click

from omega.cli import render
from omega.cli.app import App
from omega.cli.pool import settings


@click.command()
@click.argument("names", metavar="NAME…", nargs=-1, required=True)
@settings.version_option
@click.pass_obj
def command(app: App, *, names: tuple[str, ...], version: int | None) -> None:
    """Remove pools without live jobs and without pools below them."""
    from omega.pools.changes import change, without

    cell = app.open(to_change=True)
    _, after = change(cell, lambda pools: without(pools, names), app.now_ms(), app.by, version)
    if app.as_json:
        render.document({"cell": cell.name, "version": after.version, "removed": list(names)})
        return
    render.note(f"removed {', '.join(names)}; the pools have version {after.version}")
