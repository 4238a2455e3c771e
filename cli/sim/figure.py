"""``omega sim figure`` and ``hierarchies``."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from omega.cellstate.errors import BadInput
from omega.cli import render
from omega.cli.app import App
from omega.cli.sim.executor import finish, writable
from omega.cli.sim.options import FORMS, Several, executor_options, figure_output, machines_of_figure, results_option
from omega.cli.sim.trace_figure import DEFAULTS, TraceChoice, trace_figure, trace_options

TRACED = range(11, 15)
"""Figures that only a trace has."""


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
@click.option(
    "--trace",
    type=click.Path(path_type=Path),
    metavar="DIRECTORY",
    help="Simulate a trace with the high-fidelity simulator.",
)
@trace_options
@figure_output
@results_option(None, " (default: results.jsonl beside the figures)")
@executor_options
@click.pass_obj
def command(
    app: App,
    /,
    *,
    number: int,
    cells: Sequence[str],
    days: float | None,
    machines: int | None,
    trace: Path | None,
    output: Path,
    results: Path | None,
    where: str | None,
    workers: int | None,
    **of_trace: Any,
) -> None:
    """Simulate and draw figure NUMBER of the Omega paper: 2 to 10, 15 or 16, or with --trace 11 to 16.

    Finished simulations are not run again: figures 5 and 6 share theirs, and an interrupted command
    resumes. The options from --hours to --swim are for traces.
    """
    if trace is not None:
        if cells or days or machines:
            raise click.UsageError("--cluster, --days and --machines are for figures without --trace; use --hours")
        choice = TraceChoice(trace, **of_trace)
        trace_figure(app, number, choice, output, results or output / "trace-results.jsonl", where, workers)
        return
    if number in TRACED:
        raise BadInput(f"figure {number}: is drawn from a trace; give --trace DIRECTORY")
    if given := [name for name, value in of_trace.items() if value and value != DEFAULTS.get(name)]:
        raise click.UsageError(f"--{given[0]} is for runs of a trace; give --trace DIRECTORY")
    from omega.experiments.catalogue import figure

    what = figure(number)
    form = what.sized(days, cells, machines)
    from omega.experiments.plots.draw import draw  # fails before minutes of simulation if matplotlib is missing

    writable(output / "figure")
    records = finish(what.sweep(form), results or output / "results.jsonl", where, workers, quiet=app.as_json)
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


@click.command()
@click.option("--trees", default=40, show_default=True, type=click.IntRange(1, 10_000), help="Number of random trees.")
@figure_output
@click.pass_obj
def hierarchies(app: App, *, trees: int, output: Path) -> None:
    """Compare two forms of hierarchical dominant resource fairness while tasks end and jobs restart.

    Draws how naive fairness starves a job, and prints over random trees: resources in use, the part of its promise
    that a job holds, and the part of the jobs that hold less than half of it.
    """
    from omega.experiments.hierarchies import gains
    from omega.experiments.plots.hierarchies import draw_failure

    paths = [output / f"naive-hdrf{ending}" for ending in FORMS]
    with render.busy("simulating", quiet=app.as_json):
        draw_failure(*paths)
        results = gains(trees)
    if app.as_json:
        render.document(
            {"trees": trees, "methods": [asdict(each) for each in results], "files": [str(p) for p in paths]}
        )
        return
    rows = [(each.method, f"{each.used:.1%}", f"{each.kept:.1%}", f"{each.starved:.1%}") for each in results]
    render.table(("method", ">in use", ">promise held", ">starved jobs"), rows)
    for path in paths:
        render.line(str(path))
