"""``omega bench instructions``."""

from typing import Any

import click

from benchmarks.command.harness import Listed, foot, instruction_table, measure, stated
from omega.cli import render
from omega.cli.app import App


@click.command()
@click.option(
    "--form",
    "forms",
    type=Listed(click.STRING),
    metavar="FORM,…",
    help="packed, spread, one per call, gangs (default: all).",
)
@click.option("--machines", type=click.IntRange(min=10), help="Machines in the cell (default: 1000).")
@click.option("--jobs", type=click.IntRange(min=1), help="Jobs of each form (default: 320).")
@click.pass_obj
def command(app: App, /, **settings: Any) -> None:
    """Count the instructions that the server executes for a job of ten tasks.

    Needs valgrind. The count includes the calls of a scheduler and an executor from the job's receipt to its
    end, and varies by a few per mille on the same server program, however busy the computer is.
    """
    document = measure(app, "instructions", stated(**settings), stored=False)
    if app.as_json:
        render.document(document)
        return
    instruction_table(document["forms"])
    foot(document, f"{document['chosen']['machines']:,} machines, jobs of {document['chosen']['tasks_per_job']} tasks")
