"""``omega sim high-fidelity``."""

import os
from pathlib import Path, PurePosixPath
from typing import Any

import click

from omega.cli import render
from omega.cli.app import App
from omega.cli.sim.claims import print_claims
from omega.cli.sim.executor import writable
from omega.cli.sim.options import executor_options, page_options, results_option
from omega.cli.sim.trace_figure import TraceChoice, simulate_figure, trace_options

SHOWN = ("hours", "seeds", "service", "copies", "factor")


@click.command()
@click.argument("trace", type=click.Path(path_type=Path))
@trace_options
@page_options("docs/high-fidelity.md")
@results_option("figures/trace-results.jsonl", "")
@click.option(
    "--revision", default="", metavar="TEXT", help="Revision of the sources to print on the page, such as a commit."
)
@executor_options
@click.pass_obj
def command(
    app: App,
    /,
    *,
    trace: Path,
    output: Path,
    figures: Path,
    results: Path,
    revision: str,
    where: str | None,
    workers: int | None,
    **of_trace: Any,
) -> None:
    """Check the claims of figures 11 to 16 of the Omega paper on TRACE; write the page and draw its figures.

    An interrupted command can be run again: finished simulations are kept. With --quick it takes about a quarter of an
    hour of processor time for seven hours of Google's trace.
    """
    from omega.experiments.plots.draw_trace import draw_trace  # fails before minutes of simulation without matplotlib
    from omega.experiments.plots.trace_sizing import TITLES, draw_sizing
    from omega.experiments.sizing_claims import judged
    from omega.experiments.trace_figures import FIGURES
    from omega.experiments.trace_mapreduce import simulated_policies
    from omega.experiments.trace_report import page

    choice = TraceChoice(trace, **of_trace)
    writable(output)
    writable(figures / "figure")
    outcomes = []
    for number in FIGURES:
        outcomes.append(simulate_figure(number, choice, results, where, workers, quiet=app.as_json))
        draw_trace(outcomes[-1], figures / f"high-fidelity-{number}.svg")
    with render.busy("figures 15 and 16", quiet=app.as_json):
        sizing = simulated_policies(choice.sizing())
        claims = judged(sizing)
        for number in TITLES:
            draw_sizing(number, sizing, figures / f"high-fidelity-{number}.svg")
    asked = ["omega sim high-fidelity DIRECTORY", *(["--quick"] if choice.quick else [])]
    asked += [f"--{name} {value}" for name in SHOWN if (value := of_trace[name])]
    asked += choice.changed
    asked += [f"--swim {choice.swim.name}"] if choice.swim else []
    seen = PurePosixPath(Path(os.path.relpath(figures, output.parent)).as_posix())
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(page(outcomes, sizing, claims, seen, " ".join(asked), revision), encoding="utf-8")
    everything = [claim.as_json() for each in outcomes for claim in each.judged] + [each.as_json() for each in claims]
    if app.as_json:
        render.document({"page": str(output), "trace": str(trace), "claims": everything})
        return
    print_claims(everything)
    render.note(str(output))
