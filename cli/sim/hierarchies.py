"""``omega sim hierarchies``."""

from dataclasses import asdict
from pathlib import Path

import click

from omega.cli import render
from omega.cli.app import App
from omega.cli.sim.options import FORMS, figure_output


@click.command()
@click.option("--trees", default=40, show_default=True, type=click.IntRange(1, 10_000), help="Number of random trees.")
@figure_output
@click.pass_obj
def command(app: App, *, trees: int, output: Path) -> None:
    """Compare two forms of hierarchical dominant resource fairness while tasks end and jobs restart.

    Draws how naive fairness starves a job, and prints over random trees: resources in use, the part of its promise
    that a job holds, and the part of the jobs that hold less than half of it.
    """
    from omega.experiments.hierarchies import gains
    from omega.experiments.plots.hierarchies import draw_failure

    paths = [output / f"naive-hdrf{ending}" for ending in FORMS]
    with render.busy("simulating", quiet=app.as_json):
        draw_failure(*paths)
        found = gains(trees)
    if app.as_json:
        render.document({"trees": trees, "methods": [asdict(each) for each in found], "files": [str(p) for p in paths]})
        return
    rows = [(each.method, f"{each.used:.1%}", f"{each.kept:.1%}", f"{each.starved:.1%}") for each in found]
    render.table(("method", ">in use", ">promise held", ">starved jobs"), rows)
    for path in paths:
        render.line(str(path))
