"""``omega machine drain``."""

from collections.abc import Sequence

import click

from cellstate.model import MachineState
from cli.app import App
from cli.machine.change import change


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME…")
@click.option("--deadline", metavar="TIME", help="Move off what still runs after so long, such as 5m; 0 at once.")
@click.pass_obj
def command(app: App, names: Sequence[str], deadline: str | None) -> None:
    """Let machines finish what they run and take nothing new.

    With --deadline what has not ended by then is evicted and placed elsewhere, by whichever scheduler or
    agent notices first.
    """
    from omega.jobfile import parse_duration

    change(app, names, MachineState.DRAINED, "drained", None if deadline is None else parse_duration(deadline))
