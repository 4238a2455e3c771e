"""``omega machine up``."""

from collections.abc import Sequence

import click

from omega.cellstate.model import MachineState
from omega.cli.app import App
from omega.cli.machine.change import change


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME…")
@click.pass_obj
def command(app: App, names: Sequence[str]) -> None:
    """Mark machines as up: they take tasks again."""
    change(app, names, MachineState.UP, "up")
