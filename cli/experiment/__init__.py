"""``omega experiment``: the paper's claims as experiments."""

import click

from cli.lazy import Lazy

TABLE = {
    "list": ("cli.experiment.list", "What is claimed, where, and what is expected."),
    "run": ("cli.experiment.run", "Simulate for experiments and say what was measured."),
    "check": ("cli.experiment.check", "The same; fails when a claim does not hold."),
}


@click.group(cls=Lazy, table=TABLE)
def command() -> None:
    """Check claims of the Omega paper by simulation."""
