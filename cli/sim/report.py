"""``omega sim report``."""

import os
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import click

from cli import render
from cli.app import App
from cli.several import Several
from cli.sim.executor import executor_options, finish


@click.command(cls=Several, several=("--cluster",))
@click.option("--days", type=click.FloatRange(0, 10_000, min_open=True), help="Days of every figure (default: "
              "a part of one).")  # fmt: skip
@click.option("--cluster", "cells", multiple=True, metavar="A|B|C …", help="Only these of the paper's cells.")
@click.option(
    "--machines",
    type=click.IntRange(1),
    metavar="N",
    help="Cells of so many machines: quicker. Jobs arrive as often and run shorter in proportion.",
)
@click.option("--output", default="docs/reproduction.md", show_default=True, metavar="FILE.md",
              type=click.Path(dir_okay=False, path_type=Path), help="The page.")  # fmt: skip
@click.option("--figures", default="docs/figures", show_default=True, metavar="DIRECTORY",
              type=click.Path(file_okay=False, path_type=Path), help="Where its figures go, as SVG.")  # fmt: skip
@click.option("--results", default="figures/results.jsonl", show_default=True, metavar="FILE.jsonl",
              type=click.Path(dir_okay=False, path_type=Path), help="Where finished simulations are kept.")  # fmt: skip
@executor_options
@click.pass_obj
def command(
    app: App, *, days: float | None, cells: Sequence[str], machines: int | None, output: Path, figures: Path,
    results: Path, where: str | None, workers: int | None,
) -> None:  # fmt: skip
    """Check every claim of figures 2 to 10 of the Omega paper; write the page and draw its figures.

    It may be interrupted and run again: finished simulations are kept.
    """
    from omega.experiments.plots.draw import draw
    from omega.experiments.report import all_figures, judged, page

    asked = [f"--days {days:g}"] if days else []
    asked += [f"--cluster {' '.join(cells)}"] if cells else []
    asked += [f"--machines {machines}"] if machines else []
    parts = []
    for what in all_figures():
        form = what.sized(days if what.number > 4 else None, cells if what.number not in (9, 10) else (), machines)
        if not app.as_json:
            render.note(f"figure {what.number}: {what.title}")
        records = finish(what.simulations(form), results, where, workers, quiet=app.as_json)
        draw(what, records, form, figures / f"figure-{what.number}.svg")
        parts.append(judged(what, form, records))
    output.parent.mkdir(parents=True, exist_ok=True)
    seen = PurePosixPath(Path(os.path.relpath(figures, output.parent)).as_posix())
    output.write_text(page(parts, seen, " ".join(["omega sim report", *asked])), encoding="utf-8")
    verdicts = {name: str(finding.verdict) for part in parts for name, finding in part.findings.items()}
    if app.as_json:
        render.document({"page": str(output), "verdicts": verdicts})
        return
    for verdict in dict.fromkeys(verdicts.values()):
        render.line(f"{verdict}: {', '.join(name for name, each in verdicts.items() if each == verdict)}")
    render.note(str(output))
