"""``omega machine remove``."""

from collections.abc import Sequence

import click

from omega.cellstate.model import MachineState
from omega.cli.app import App
from omega.cli.machine.change import change


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME…")
@click.pass_obj
def command(app: App, names: Sequence[str]) -> None:
    """Remove machines from the cell. Their tasks are pending again at once.

    While the executor of a machine lives, it ends the tasks first: a task starts elsewhere only afterwards.
    """
    change(app, names, MachineState.GONE, "removed")
