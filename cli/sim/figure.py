"""``omega sim figure``."""

from collections.abc import Sequence
from pathlib import Path

import click

from omega.cli import render
from omega.cli.app import App
from omega.cli.several import Several
from omega.cli.sim.executor import executor_options, finish, writable
from omega.cli.sim.options import FORMS, figure_output, machines_of_figure


@click.command(cls=Several, several=("--cluster",))
@click.argument("number", type=int)
@click.option(
    "--cluster", "cells", multiple=True, metavar="A|B|C …", help="Cells of the paper (default: the figure's)."
)
@click.option(
    "--days",
    type=click.FloatRange(0, 10_000, min_open=True),
    help="Simulated days (default: a part of one, which takes minutes; the paper has 7). Error bars need two.",
)
@machines_of_figure
@figure_output
@click.option(
    "--results",
    metavar="FILE.jsonl",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File of finished simulations (default: results.jsonl beside the figures).",
)
@executor_options
@click.pass_obj
def command(
    app: App,
    *,
    number: int,
    cells: Sequence[str],
    days: float | None,
    machines: int | None,
    output: Path,
    results: Path | None,
    where: str | None,
    workers: int | None,
) -> None:
    """Simulate and draw figure NUMBER of the Omega paper: 2 to 10, 15 or 16.

    Finished simulations are not run again: figures 5 and 6 share theirs, and an interrupted command
    resumes.
    """
    from omega.experiments.figures import figure

    what = figure(number)
    form = what.sized(days, cells, machines)
    from omega.experiments.plots.draw import draw  # fails before minutes of simulation if matplotlib is missing

    writable(output / "figure")
    records = finish(what.simulations(form), results or output / "results.jsonl", where, workers, quiet=app.as_json)
    paths = [output / f"figure-{number}{ending}" for ending in FORMS]
    with render.busy("drawing", quiet=app.as_json):
        draw(what, records, form, *paths)
    if app.as_json:
        render.document(
            {
                "figure": number,
                "title": what.title,
                "clusters": list(form.cells),
                "days": form.lengths,
                "simulations": len(records),
                "files": [str(path) for path in paths],
            }
        )
        return
    for path in paths:
        render.line(str(path))
    render.note(f"{what.title}: {len(records)} simulations" if records else what.title)
