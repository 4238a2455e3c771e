"""``omega bench intake``."""

from typing import Any

import click

from benchmarks.command.harness import append_only_option, foot, measure, stated, store_option
from omega.cli import render
from omega.cli.app import App


@click.command()
@click.option("--jobs", type=click.IntRange(min=1), help="Number of pending jobs (default: 100000).")
@click.option("--tasks", type=click.IntRange(min=1), help="Tasks of each job (default: 10).")
@click.option("--users", type=click.IntRange(min=1), help="Users who submitted them (default: 50).")
@click.option("--schedulers", type=click.IntRange(min=1), help="Schedulers that share the jobs (default: 2).")
@click.option("--most", type=click.IntRange(min=1), help="Jobs asked for in one call (default: 32).")
@click.option("--calls", type=click.IntRange(min=1), help="Number of calls (default: 1000).")
@append_only_option
@store_option
@click.pass_obj
def command(app: App, /, **settings: Any) -> None:
    """Measure the server's time for the best jobs of a long queue.

    One scheduler asks for the next jobs of eight lanes at a time: with jobs spread evenly, and with the first jobs of
    every lane in the buckets of another scheduler that stands still.
    """
    document = measure(app, "intake", stated(**settings))
    if app.as_json:
        render.document(document)
        return
    chosen = document["chosen"]
    for name, queue in document["queues"].items():
        render.line(
            f"{name:<8} p50 {queue['p50_ms']:.2f} ms · p99 {queue['p99_ms']:.2f} ms · most {queue['most_ms']:.2f} ms · "
            f"{queue['jobs_per_call']:g} jobs a call from {queue['buckets']} of {queue['of']} buckets"
        )
    foot(document, f"{chosen['jobs']:,} jobs of {chosen['tasks']:,} tasks, {chosen['users']:,} users")
