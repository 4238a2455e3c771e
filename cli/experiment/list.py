"""``omega experiment list``."""

import click

from omega.cli import render
from omega.cli.app import App
from omega.cli.columns import Columns, answered, columns_option


@click.command()
@columns_option
@click.pass_obj
def command(app: App, columns: Columns) -> None:
    """List the experiments: name, figure, claim and expected result."""
    from omega.experiments.catalogue import EXPERIMENTS

    document = {"experiments": [experiment.as_json() for experiment in EXPERIMENTS.values()]}
    if answered(app, document, "experiments", columns):
        return
    render.table(
        ("name", ">figure", "claim", "expected"),
        [(each.name, str(each.figure), each.claim, each.expectation) for each in EXPERIMENTS.values()],
    )
