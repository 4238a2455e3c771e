"""``omega experiment list``."""

import click

from cli import render
from cli.app import App


@click.command()
@click.pass_obj
def command(app: App) -> None:
    """List the experiments: name, figure, claim and expected result."""
    from omega.experiments.catalogue import EXPERIMENTS

    if app.as_json:
        render.document({"experiments": [experiment.as_json() for experiment in EXPERIMENTS.values()]})
        return
    render.table(
        ("name", ">figure", "claim", "expected"),
        [(each.name, str(each.figure), each.claim, each.expectation) for each in EXPERIMENTS.values()],
    )
