"""``omega cell``: make, see, check and delete cells."""

import click

from cli.lazy import Lazy

TABLE = {
    "create": ("cli.cell.create", "Make a cell, perhaps with machines."),
    "list": ("cli.cell.list", "The cells on the store."),
    "status": ("cli.cell.status", "State at a glance: machines, use, jobs, schedulers, limits, conflicts."),
    "verify": ("cli.cell.verify", "Check every invariant; exits 1 on a violation."),
    "limits": ("cli.cell.limits", "What all jobs of a kind may hold together."),
    "delete": ("cli.cell.delete", "Remove a cell and everything in it."),
}


@click.group(cls=Lazy, table=TABLE)
def command() -> None:
    """Make, see, check and delete cells."""
