"""``omega experiment``: the paper's claims as experiments."""

import click

from omega.cli.lazy import Lazy

TABLE = {
    "list": ("omega.cli.experiment.list", "List the claims, their sources and the expected results."),
    "run": ("omega.cli.experiment.run", "Run experiments and print their measurements."),
    "check": ("omega.cli.experiment.check", "Run experiments; exit 1 when a claim does not hold."),
}


@click.group(cls=Lazy, table=TABLE)
def command() -> None:
    """Check the claims of the Omega paper by simulation."""
