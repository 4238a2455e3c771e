"""``omega pool watch``."""

import time

import click

from cli import render
from cli.app import App
from cli.pool.list import show


@click.command()
@click.option("--every", type=click.FloatRange(0.1), default=1.0, show_default=True, help="Seconds between two reads.")
@click.option("--for", "seconds", type=click.FloatRange(0), help="Seconds to watch (default: until interrupted).")
@click.pass_obj
def command(app: App, *, every: float, seconds: float | None) -> None:
    """Print the pools again whenever shares, usage or settings changed; with --json one document per line."""
    from omega.queries.pools import pools_json

    cell = app.open()
    until = None if seconds is None else time.monotonic() + seconds
    before: object = None
    while True:
        document = pools_json(cell)
        state = [{**row, "volume": None} for row in document["pools"]]
        if state != before:
            if app.as_json:
                render.json_line(document)
            else:
                if before is not None:
                    render.line()
                show(document)
            before = state
        if until is not None and time.monotonic() + every > until:
            return
        time.sleep(every)
