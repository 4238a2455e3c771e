"""``omega sim report``."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import click

from omega.cli import render
from omega.cli.app import App
from omega.cli.sim.executor import finish, writable
from omega.cli.sim.options import Several, executor_options, machines_of_figure, page_options, results_option
from omega.queries import units

if TYPE_CHECKING:
    from omega.experiments.catalogue import PaperFigure
    from omega.experiments.configuration import Configuration
    from omega.experiments.experiment import Experiment, Extent


def _simulations(
    figures: "Mapping[PaperFigure, Extent]", experiments: "Mapping[Experiment, Extent]"
) -> "list[Configuration]":
    """Return each simulation of the figures and experiments once, those of lengthened experiments too."""
    wanted = [each for what, form in figures.items() for each in what.sweep(form)]
    for experiment, form in experiments.items():
        wanted += [each for one in (form, experiment.lengthened(form)) if one for each in experiment.simulations(one)]
    return list(dict.fromkeys(wanted))


@click.command(cls=Several, several=("--cluster",))
@click.option(
    "--days",
    type=click.FloatRange(0, 10_000, min_open=True),
    help="Simulated days of every figure (default: a part of one).",
)
@click.option(
    "--scale",
    default=1.0,
    show_default=True,
    type=click.FloatRange(0.01, 10_000),
    metavar="FACTOR",
    help="Factor on the days of each figure; busyness has error bars from two days on.",
)
@click.option(
    "--cluster", "cells", multiple=True, metavar="A|B|C …", help="Cells of the paper to include (default: all)."
)
@machines_of_figure
@page_options("docs/reproduction.md")
@results_option("figures/results.jsonl", "")
@click.option("--seeds", type=click.IntRange(1, 1_000), help="Number of seeds per claim (default: 5).")
@click.option(
    "--revision", default="", metavar="TEXT", help="Revision of the sources to print on the page, such as a commit."
)
@executor_options
@click.pass_obj
def command(
    app: App,
    *,
    days: float | None,
    scale: float,
    cells: Sequence[str],
    machines: int | None,
    output: Path,
    figures: Path,
    results: Path,
    where: str | None,
    workers: int | None,
    seeds: int | None,
    revision: str,
) -> None:
    """Check every claim of figures 2 to 10, 15 and 16 of the Omega paper; write the page and draw its figures.

    An interrupted command can be run again: finished simulations are kept. Without options it takes about
    20 minutes of processor time.
    """
    from omega.experiments.catalogue import FIGURES, of_figure
    from omega.experiments.plots.draw import draw
    from omega.experiments.report import ReportSection, carried_out, page

    writable(output)
    writable(figures / "figure")
    asked = [f"--days {days:g}"] if days else []
    asked += [f"--cluster {' '.join(cells)}"] if cells else []
    asked += [f"--machines {machines}"] if machines else []
    asked += [f"--scale {scale:g}"] if scale != 1 else []
    asked += [f"--seeds {seeds}"] if seeds else []
    chosen = {what: cells if len(what.form.cells) > 1 else () for what in FIGURES.values()}  # where there is a choice
    forms = {what: what.sized(days, chosen[what], machines, scale) for what in chosen}
    sized = {each: each.sized(days, cells, machines, seeds, scale) for what in forms for each in of_figure(what.number)}
    wanted = _simulations(forms, sized)
    if not app.as_json:
        number = units.count(len(wanted), "simulation")
        render.note(f"{number}, kept in {results}; after Ctrl-C, run it again to resume")
    records_of = dict(zip(wanted, finish(wanted, results, where, workers, quiet=app.as_json), strict=True))
    parts = []
    for what, form in forms.items():
        records = [records_of[each] for each in what.sweep(form)]
        with render.busy(f"figure {what.number}", quiet=app.as_json):
            draw(what, records, form, figures / f"figure-{what.number}.svg")
            runs = [
                carried_out(each, sized[each], lambda simulations: [records_of[one] for one in simulations])
                for each in of_figure(what.number)
            ]
            parts.append(ReportSection(what, form, records, runs))
    output.parent.mkdir(parents=True, exist_ok=True)
    seen = PurePosixPath(Path(os.path.relpath(figures, output.parent)).as_posix())
    text = page(parts, seen, " ".join(["omega sim report", *asked]), revision)
    output.write_text(text, encoding="utf-8")
    verdicts = {run.experiment.name: str(run.verdict) for part in parts for run in part.runs}
    if app.as_json:
        render.document({"page": str(output), "verdicts": verdicts})
        return
    for verdict in dict.fromkeys(verdicts.values()):
        render.line(f"{verdict}: {', '.join(name for name, each in verdicts.items() if each == verdict)}")
    render.note(str(output))
