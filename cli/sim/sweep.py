"""``omega sim sweep``."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from omega.cli import render
from omega.cli.app import App
from omega.cli.columns import Columns, answered, columns_option
from omega.cli.sim.executor import finish, writable
from omega.cli.sim.options import Several, configuration, configuration_options, executor_options, results_option

if TYPE_CHECKING:
    from omega.experiments.results import Record

METRICS = ("wait", "busyness", "conflict_fraction", "jobs_abandoned")


@click.command(cls=Several, several=("--metric", "--vary"))
@click.option(
    "--vary",
    "varied",
    multiple=True,
    required=True,
    metavar="PARAMETER=VALUES",
    help="Parameter and values: batch=1,2,4, rate=1..10 (steps of 1) or t_job_service=0.01..100:9 (9 values, evenly "
    "spaced logarithmically). Repeatable: every combination is run.",
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="NAME",
    help="Metrics to print: wait, wait_p90, busyness, wasted, conflict_fraction, abandoned, utilisation, …, of "
    "both kinds of job or of one (batch.wait).",
)
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.svg|FILE.png",
    help="Draw the metrics over the first parameter.",
)
@results_option("omega-sweep.jsonl", ", which are not run again")
@columns_option
@executor_options
@configuration_options
@click.pass_obj
def command(
    app: App,
    /,
    varied: Sequence[str],
    metrics: Sequence[str],
    plot: Path | None,
    results: Path,
    columns: Columns,
    where: str | None,
    workers: int | None,
    **given: Any,
) -> None:
    """Simulate every combination of the values of some parameters.

    The parameters are the options below, with _ or -. Finished simulations are written to a JSON lines file at once,
    so that an interrupted sweep resumes.
    """
    from omega.experiments.sweep import axis, grid

    if plot is not None and plot.suffix not in (".svg", ".png"):
        raise click.UsageError(f"--plot {plot}: must end in .svg or .png")
    axes: dict[str, list[Any]] = {}
    for text in varied:
        name, values = axis(text)
        if name in axes:
            raise click.UsageError(f"--vary {name} is given twice; give all values in one option")
        axes[name] = values
    points = grid(configuration(given), axes)
    if plot is not None:  # fails before minutes of simulation
        from omega.experiments.plots.sweep import draw_sweep

        writable(plot)

    def check(record: "Record") -> None:
        _rows([record], list(axes), metrics or METRICS)

    records = finish(points, results, where, workers, quiet=app.as_json, check=check)
    rows = _rows(records, list(axes), metrics or METRICS)
    if plot is not None:
        draw_sweep(records, list(axes), metrics or METRICS, plot)
    document = {"results": str(results), "plot": str(plot) if plot else None, "points": rows}
    if answered(app, document, "points", columns):
        return
    names = list(rows[0])
    render.table(
        [name if name in axes else f">{name}" for name in names],
        [[f"{row[name]:.4g}" if isinstance(row[name], float) else row[name] for name in names] for row in rows],
    )
    render.note(f"{len(rows)} points in {results}" + (f", drawn in {plot}" if plot else ""))


def _rows(records: "Sequence[Record]", names: Sequence[str], metrics: Sequence[str]) -> list[dict[str, Any]]:
    from omega.experiments.metrics import chosen

    rows = []
    for record in records:
        row = {name: record["configuration"][name] for name in names}
        for metric in metrics:
            row |= {column: value for column, _, _, value in chosen(record, metric)}
        rows.append(row)
    return rows
