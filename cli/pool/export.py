"""``omega pool export``."""

import click

from omega.cli import render
from omega.cli.app import App


@click.command()
@click.pass_obj
def command(app: App) -> None:
    """Print all pools and trees as YAML that omega pool import reads, with their version."""
    from omega.pools.file import as_document, dump

    pools = app.open().pools()
    if app.as_json:
        render.document(as_document(pools))
    else:
        render.page(dump(pools).rstrip("\n"))
