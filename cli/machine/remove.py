"""``omega machine remove``."""

from collections.abc import Sequence

import click

from cellstate.model import MachineState
from cli.app import App
from cli.machine.change import change


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME…")
@click.pass_obj
def command(app: App, names: Sequence[str]) -> None:
    """Remove machines from the cell; what ran on them is lost and placed again."""
    change(app, names, MachineState.GONE, "removed")
