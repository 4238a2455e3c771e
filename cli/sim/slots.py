"""``omega sim slots``."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

import click

from omega.cli import render
from omega.cli.app import App
from omega.cli.sim.executor import writable
from omega.cli.sim.options import page_options


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME…]")
@click.option("--seeds", type=click.IntRange(1, 1_000), default=5, show_default=True, help="Number of seeds per claim.")
@page_options("docs/delay-scheduling.md")
@click.pass_obj
def command(app: App, *, names: Sequence[str], seeds: int, output: Path, figures: Path) -> None:
    """Check the claims of the paper on delay scheduling; write the page and draw its figures.

    With names of claims it only prints their results. All take a few minutes of processor time.
    """
    from omega.experiments.catalogue import find
    from omega.experiments.report import ExperimentRun
    from omega.experiments.slot_claims import EXPERIMENTS

    chosen = find(names, EXPERIMENTS)
    if not names:
        from omega.experiments.plots.slots import draw  # fails before minutes of simulation if matplotlib is missing

        writable(output)
        writable(figures / "figure")
    runs = list[ExperimentRun]()
    for experiment in chosen:
        with render.busy(experiment.name, quiet=app.as_json):
            form = replace(experiment.form, seeds=seeds)
            runs.append(ExperimentRun(experiment, form, (), experiment.evaluate((), form)))
    if not names:
        from omega.experiments.slot_report import page

        with render.busy("drawing", quiet=app.as_json):
            draw(figures, range(seeds))
        seen = PurePosixPath(Path(os.path.relpath(figures, output.parent)).as_posix())
        asked = "omega sim slots" + (f" --seeds {seeds}" if seeds != 5 else "")
        output.write_text(page(runs, seen, asked), encoding="utf-8")
    if app.as_json:
        documents = [
            {**run.experiment.as_json(), "verdict": str(run.verdict), "measured": run.finding.measured} for run in runs
        ]
        render.document({"page": None if names else str(output), "experiments": documents})
        return
    rows = [(run.experiment.name, str(run.verdict), run.finding.measured) for run in runs]
    render.table(("claim", "verdict", "measured"), rows)
    if not names:
        render.note(str(output))
