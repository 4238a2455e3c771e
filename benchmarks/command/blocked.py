"""``omega bench blocked``."""

from typing import Any

import click

from benchmarks.command.harness import append_only_option, foot, machines_option, measure, stated, store_option
from omega.cli import render
from omega.cli.app import App


@click.command()
@click.option("--blocked", type=click.IntRange(min=1), help="Number of jobs that fit nowhere (default: 1000).")
@click.option("--shapes", type=click.IntRange(min=1), help="Number of different job sizes (default: 1000).")
@click.option("--seconds", type=click.FloatRange(min=0.1), help="Measured length of each run (default: 5).")
@click.option("--repeat", type=click.IntRange(min=1), help="Number of pairs of runs (default: 5).")
@machines_option
@append_only_option
@store_option
@click.pass_obj
def command(app: App, /, **settings: Any) -> None:
    """Measure the cost of jobs that fit nowhere for jobs that fit.

    Runs pairs of two batch schedulers on a busy cell, with and without blocked jobs; then counts the attempts after
    one machine of 10,000 blocked jobs becomes free.
    """
    document = measure(app, "blocked", stated(**settings))
    if app.as_json:
        render.document(document)
        return
    chosen, medians, wake = document["chosen"], document["medians"], document["wake"]
    low, high = document["spread"]
    render.line(f"without blocked jobs      {medians['without']:>9,} tasks/s")
    render.line(
        f"beside {chosen['blocked']:>6,} of them    {medians['beside']:>9,} tasks/s · × {document['ratio']:.3f} "
        f"({low:.3f} to {high:.3f} in {chosen['repeat']} pairs)"
    )
    low, high = document["cpu_spread"]
    render.line(f"{'':26}{'':>9} per second of cpu time × {document['cpu_ratio']:.3f} ({low:.3f} to {high:.3f})")
    render.line(
        f"one freed machine beside {wake['sleepers']:,} blocked jobs: {wake['attempts']:,} attempts, "
        f"{wake['placed']:,} placed, {wake['milliseconds']} ms"
    )
    foot(document, f"{document['cell']['machines']:,} machines, initially {chosen['fullness']:.0%} full")
