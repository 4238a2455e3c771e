"""``omega machine down``."""

from collections.abc import Sequence

import click

from cellstate.model import MachineState
from cli.app import App
from cli.machine.change import change


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME…")
@click.pass_obj
def command(app: App, names: Sequence[str]) -> None:
    """Mark machines as failed. Their tasks are pending again at once.

    While the executor of a machine lives, it ends the tasks first: a task starts elsewhere only afterwards.
    """
    change(app, names, MachineState.DOWN, "down")
