"""Figures 11 to 16 of the Omega paper from a trace: the part of ``omega sim figure`` with ``--trace``."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from omega.cellstate.errors import BadInput
from omega.cli import render
from omega.cli.app import App
from omega.cli.options import combined
from omega.cli.sim.claims import print_claims
from omega.cli.sim.executor import finish, writable
from omega.cli.sim.options import FORMS
from omega.cli.sim.sizing_figure import sizing_figure

if TYPE_CHECKING:
    from omega.experiments.results import Record
    from omega.experiments.trace_figures import TraceFigure, TraceForm
    from omega.experiments.trace_mapreduce import MapReduceForm
    from omega.experiments.trace_outcome import TraceOutcome
    from omega.experiments.trace_run import TraceRun

QUICK_SEEDS, SEEDS = 1, 3
DEFAULTS = {"constraints": "trace", "placement": "preset"}

trace_options = combined(
    click.option(
        "--hours",
        type=click.FloatRange(0, 10_000, min_open=True),
        metavar="H",
        help="Hours of the trace to use, from its beginning (default: all; for figures 15 and 16 at most a day).",
    ),
    click.option(
        "--quick",
        is_flag=True,
        help="Simulate a coarse grid and one seed, minutes instead of up to an hour.",
    ),
    click.option(
        "--seeds",
        type=click.IntRange(1, 1_000),
        metavar="N",
        help=f"Number of seeds (default: {SEEDS}; with --quick {QUICK_SEEDS}).",
    ),
    click.option(
        "--service",
        type=click.Choice(["priority", "class"]),
        help="Service jobs have priority 9 or more, or also scheduling class 2 or 3 (default: the "
        "figure's; class for figure 13).",
    ),
    click.option(
        "--copies",
        type=click.IntRange(1, 1_000),
        metavar="K",
        help="Draw K times as many service jobs from those of the trace (default: these themselves).",
    ),
    click.option(
        "--factor",
        type=click.FloatRange(0.01, 100),
        help="Capacity of machines as a multiple of the trace's (default: 1.55 for Google's).",
    ),
    click.option(
        "--constraints",
        type=click.Choice(["trace", "synthetic", "none"]),
        default="trace",
        show_default=True,
        help="Constraints of the trace, or synthetic ones on attributes of machines.",
    ),
    click.option(
        "--placement",
        type=click.Choice(["preset", "first-fit", "random", "best-fit"]),
        default="preset",
        show_default=True,
        help="Placement of batch jobs in figures 11 to 14: that of the live preset, or another one.",
    ),
    click.option(
        "--swim",
        type=click.Path(path_type=Path),
        metavar="FILE.tsv",
        help="Figures 15 and 16: MapReduce jobs of a file of SWIM (default: a fifth of the batch jobs).",
    ),
)


@dataclass(frozen=True, slots=True)
class TraceChoice:
    """Options of the runs of a trace, as given."""

    trace: Path
    hours: float | None
    quick: bool
    seeds: int | None
    service: str | None
    copies: int | None
    factor: float | None
    constraints: str
    placement: str
    swim: Path | None

    @property
    def changed(self) -> list[str]:
        """The options with a default that have another value, as given."""
        given = {"constraints": self.constraints, "placement": self.placement}
        return [f"--{name} {value}" for name, value in given.items() if value != DEFAULTS[name]]

    def sizing(self) -> "MapReduceForm":
        """Return the form of figures 15 and 16. Raises BadInput."""
        from omega.experiments.trace_mapreduce import HOURS, QUICK_STEP, STEP_SECONDS, MapReduceForm
        from omega.experiments.trace_run import TraceRun

        run = TraceRun(trace=str(self.trace), hours=self.hours or HOURS, factor=self.factor)
        step = QUICK_STEP if self.quick else STEP_SECONDS
        return MapReduceForm(run, str(self.swim) if self.swim else None, self.hours or HOURS, step)

    def form(self, figure: "TraceFigure") -> "TraceForm":
        """Return the form of a figure. Raises BadInput."""
        from omega.experiments.trace_figures import TraceForm
        from omega.experiments.trace_run import TraceRun

        start = TraceRun(
            trace=str(self.trace), hours=self.hours, cell=figure.cell, service=self.service or figure.service,
            copies=self.copies or 0, factor=self.factor, constraints=self.constraints, placement=self.placement,
        )  # fmt: skip
        return TraceForm(start, self.quick, self.seeds or (QUICK_SEEDS if self.quick else SEEDS))


def simulate_figure(
    number: int, choice: TraceChoice, results: Path, where: str | None, workers: int | None, *, quiet: bool
) -> "TraceOutcome":
    """Simulate one of figures 11 to 14; finished simulations are kept. Raises BadInput."""
    from omega.experiments.trace_figures import FIGURES
    from omega.experiments.trace_outcome import simulated_figure

    def simulate(runs: "Sequence[TraceRun]") -> "list[Record]":
        return finish(runs, results, where, workers, quiet=quiet)

    figure = FIGURES[number]
    return simulated_figure(figure, choice.form(figure), simulate)


def trace_figure(
    app: App, number: int, choice: TraceChoice, output: Path, results: Path, where: str | None, workers: int | None
) -> None:
    """Simulate and draw one of figures 11 to 16, and print its points and claims. Raises BadInput."""
    if number in (15, 16):
        if choice.service or choice.copies or choice.seeds or choice.changed:
            raise click.UsageError(
                "--service, --copies, --seeds, --constraints and --placement are for figures 11 to 14"
            )
        sizing_figure(app, number, choice.sizing(), output)
        return
    if number not in range(11, 15):
        raise BadInput(f"figure {number}: is not drawn from a trace; want 11 to 16, or leave out --trace")
    if choice.swim:
        raise click.UsageError("--swim is for figures 15 and 16")
    from omega.experiments.plots.draw_trace import draw_trace  # fails before minutes of simulation without matplotlib

    writable(output / "figure")
    outcome = simulate_figure(number, choice, results, where, workers, quiet=app.as_json)
    paths = [output / f"figure-{number}{ending}" for ending in FORMS]
    with render.busy("drawing", quiet=app.as_json):
        draw_trace(outcome, *paths)
    files = [str(path) for path in paths]
    if app.as_json:
        render.document({**outcome.as_json(), "trace": str(choice.trace), "files": files})
        return
    rows, names = [], list[str]()
    for values, jobs, metrics, full in outcome.points():
        cells = _parameters(values)
        names = [f">{name}" if name != MODE else name for name in cells]
        shown = (metrics[name].text(",.0f" if metrics[name].value >= 100 else form) for name, form in METRICS.values())
        rows.append((*cells.values(), f"{jobs:,}", *shown, "full" if full else ""))
    render.table((*names, ">jobs", *(f">{column}" for column in METRICS), ""), rows)
    for each in outcome.found:
        render.line(f"{each.schedulers} batch: saturated from between {each.low:,.4g} and {each.high:,.4g} s a job on")
    print_claims([each.as_json() for each in outcome.judged])
    for file in files:
        render.line(file)
    render.note(f"{outcome.figure.title}: {len(outcome.everything)} simulations of {outcome.kind} jobs, 95 % intervals")


METRICS = {
    "wait (s)": ("wait", ".2f"),
    "conflict fraction": ("conflict_fraction", ".3f"),
    "busyness": ("busyness", ".2f"),
}
"""Columns of the table: the metric and its format."""
NAMES = {
    "t_job_service": "t_job (s)", "t_task_service": "t_task (s)", "t_job_batch": "t_job (s)", "batch": "schedulers",
}  # a table # fmt: skip
MODE = "mode"


def _parameters(values: dict[str, Any]) -> dict[str, str]:
    """Return the parameters of a point as columns; simulator, detection and commit share one."""
    mode = [values[name] for name in ("simulator", "detection", "commit") if name in values]
    cells = {MODE: mode[0] if mode[0] == "lightweight" else ", ".join(mode[1:])} if mode else {}
    return cells | {NAMES[name]: f"{value:g}" for name, value in values.items() if name in NAMES}
