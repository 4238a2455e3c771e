"""``omega experiment``: the paper's claims as experiments."""

import click

from cli.lazy import Lazy

TABLE = {
    "list": ("cli.experiment.list", "List the claims, their sources and the expected results."),
    "run": ("cli.experiment.run", "Run experiments and print their measurements."),
    "check": ("cli.experiment.check", "Run experiments; exit 1 when a claim does not hold."),
}


@click.group(cls=Lazy, table=TABLE)
def command() -> None:
    """Check the claims of the Omega paper by simulation."""
