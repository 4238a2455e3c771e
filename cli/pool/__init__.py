"""``omega pool``: pools of a cell and fair shares of pool trees."""

import click

from omega.cli.lazy import Lazy

TABLE = {
    "list": ("omega.cli.pool.list", "List pools with demand, usage, fair share and status."),
    "show": ("omega.cli.pool.show", "Show the settings, shares and volume of a pool."),
    "set": ("omega.cli.pool.set", "Create a pool or change its settings."),
    "remove": ("omega.cli.pool.remove", "Remove pools without jobs."),
    "plan": ("omega.cli.pool.plan", "Show fair shares before and after an import."),
    "import": ("omega.cli.pool.import_file", "Replace all pools by those of a file."),
    "export": ("omega.cli.pool.export", "Print all pools as YAML."),
    "watch": ("omega.cli.pool.watch", "Print the pools whenever something changes."),
    "compute": ("omega.cli.pool.compute", "Compute fair shares of a pool tree in a file; needs no store."),
}


@click.group(cls=Lazy, table=TABLE)
def command() -> None:
    """Configure pools and compute fair shares of pool trees."""
