"""``omega bench lists``."""

from typing import Any

import click

from benchmarks.command.harness import append_only_option, foot, measure, stated, store_option
from omega.cli import render
from omega.cli.app import App


@click.command()
@click.option("--jobs", type=click.IntRange(min=1), help="Number of jobs, half of them running (default: 10000).")
@click.option("--machines", type=click.IntRange(min=1), help="Number of machines (default: 100000).")
@click.option("--page", type=click.IntRange(min=1), help="Rows of a page (default: 50).")
@click.option("--calls", type=click.IntRange(min=1), help="Number of calls of each question (default: 7).")
@append_only_option
@store_option
@click.pass_obj
def command(app: App, /, **settings: Any) -> None:
    """Measure pages of jobs and machines, and the state of a cell, as omega.Client returns them.

    Medians of one process without its start: time on the clock, and processor time of the client and the server.
    """
    document = measure(app, "lists", stated(**settings))
    if app.as_json:
        render.document(document)
        return
    render.table(
        ["question", ">ms", ">from", ">to", ">client cpu ms", ">server cpu ms"],
        [
            [row["question"], row["milliseconds"], *row["spread"], row["client_cpu_ms"], row["server_cpu_ms"]]
            for row in document["questions"]
        ],
    )
    chosen = document["chosen"]
    foot(document, f"{chosen['jobs']:,} jobs, {chosen['machines']:,} machines")
