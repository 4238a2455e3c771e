"""``omega machine drain``."""

from collections.abc import Sequence

import click

from omega.cellstate.model import MachineState
from omega.cli.app import App
from omega.cli.machine.change import change


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME…")
@click.option("--deadline", metavar="TIME", help="Time after which tasks that still run are evicted, such as 5m or 0.")
@click.pass_obj
def command(app: App, names: Sequence[str], deadline: str | None) -> None:
    """Drain machines: running tasks finish, no new tasks are placed.

    With --deadline, tasks still running at the deadline are evicted by any scheduler or agent of the cell, and
    placed elsewhere.
    """
    from omega.jobfile.reader import parse_duration

    change(app, names, MachineState.DRAINED, "drained", None if deadline is None else parse_duration(deadline))
