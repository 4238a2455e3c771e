"""``omega machine simulate``, and the hint to run it for machines whose executor does not run."""

import os

import click

from omega.cli import render
from omega.cli.app import App
from omega.cli.options import process_options
from omega.live.simulated import DEFAULT_EXECUTOR


@click.command()
@click.option("--executor", default=DEFAULT_EXECUTOR, show_default=True, metavar="NAME", help="Name of the executor.")
@click.option(
    "--speed", default=1.0, show_default=True, type=click.FloatRange(0.01), help="Speed-up of simulated tasks."
)
@process_options
@click.pass_obj
def command(app: App, executor: str, speed: float) -> None:
    """Run a simulated executor until Ctrl-C: tasks on its machines take their duration and run no command.

    Its machines, added with omega machine add, are up while it runs. Afterwards they are offline and their tasks are
    pending again.
    """
    from omega.cellstate.executors import check_executor
    from omega.live.simulated.process import run_simulated_executor
    from omega.schedulers.process.log import configure
    from omega.schedulers.process.signals import StopRequest

    configure(os.environ)
    check_executor(executor)
    app.await_store()
    cell = app.open()
    render.note(f"executor {executor} runs in cell {cell.name}; Ctrl-C stops it")
    run_simulated_executor(cell, executor, speed, StopRequest())


def note_offline(executor: str) -> None:
    """Print that machines are offline, and the command that starts their executor."""
    option = "" if executor == DEFAULT_EXECUTOR else f" --executor {executor}"
    render.note(f"offline: executor {executor} does not run; start it with omega machine simulate{option}")
