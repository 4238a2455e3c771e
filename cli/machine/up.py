"""``omega machine up``."""

from collections.abc import Sequence

import click

from cellstate.model import MachineState
from cli.app import App
from cli.machine.change import change


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME…")
@click.pass_obj
def command(app: App, names: Sequence[str]) -> None:
    """Mark machines as up: they take tasks again."""
    change(app, names, MachineState.UP, "up")
