"""``omega pool``: fair shares of pool trees."""

import click

from cli.lazy import Lazy

TABLE = {
    "compute": ("cli.pool.compute", "Compute fair shares of a pool tree in a file; needs no store."),
}


@click.group(cls=Lazy, table=TABLE)
def command() -> None:
    """Compute fair shares of pool trees."""
