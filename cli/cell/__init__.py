"""``omega cell``: create, list, verify and delete cells."""

import click

from omega.cli.lazy import Lazy

TABLE = {
    "create": ("omega.cli.cell.create", "Create a cell, optionally with machines."),
    "list": ("omega.cli.cell.list", "List the cells of the store."),
    "status": ("omega.cli.cell.status", "Summarize a cell: machines, use, jobs, schedulers, limits, conflicts."),
    "verify": ("omega.cli.cell.verify", "Check every invariant; exit 1 on a violation."),
    "limits": ("omega.cli.cell.limits", "Show or set limits on all jobs of a kind."),
    "delete": ("omega.cli.cell.delete", "Delete a cell and everything in it."),
}


@click.group(cls=Lazy, table=TABLE)
def command() -> None:
    """Create, list, verify and delete cells."""
