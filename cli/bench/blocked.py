"""``omega bench blocked``."""

from typing import Any

import click

from cli import render
from cli.app import App
from cli.bench.harness import append_only_option, foot, machines_option, measure, stated, store_option


@click.command()
@click.option("--blocked", type=click.IntRange(min=1), help="Jobs that fit nowhere (default: 1000).")
@click.option("--shapes", type=click.IntRange(min=1), help="Of so many different sizes (default: 1000).")
@click.option("--seconds", type=click.FloatRange(min=0.1), help="How long each run is watched (default: 5).")
@click.option("--repeat", type=click.IntRange(min=1), help="Pairs of runs (default: 5).")
@machines_option
@append_only_option
@store_option
@click.pass_obj
def command(app: App, /, **settings: Any) -> None:
    """What jobs that fit nowhere cost those that do.

    Pairs of runs of two batch schedulers on a busy cell, with and without blocked jobs; and the attempts that one
    freed machine costs beside 10,000 of them.
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
    foot(document, f"{document['cell']['machines']:,} machines, {chosen['fullness']:.0%} full beforehand")
