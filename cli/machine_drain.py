"""``omega machine drain``."""

from collections.abc import Sequence

import click

from cellstate.model import MachineState
from cli.app import App
from cli.machine_change import change


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME…")
@click.pass_obj
def command(app: App, names: Sequence[str]) -> None:
    """Let machines finish what they run and take nothing new."""
    change(app, names, MachineState.DRAINED, "drained")
