"""``omega bench latency``."""

from typing import Any

import click

from benchmarks.command.harness import benchmark, table
from omega.cli import render


@click.command()
@click.option("--machines", type=click.IntRange(min=1), help="Machines in the cell (default: 1000).")
@click.option("--submissions", type=click.IntRange(min=1), help="Jobs of one task, one after another (default: 100).")
@benchmark("latency")
def command(document: dict[str, Any]) -> str:
    """Measure the time from a submission until its task runs and has ended, on an agent of a quiet cell.

    Each part in milliseconds: the client's call; from its begin until a scheduler sends its decision; from there until
    the command runs; from there until the end is stored; and from the begin of the call until the command runs.
    """
    table([("part", "part"), (">p50 ms", "p50_ms"), (">p99 ms", "p99_ms")], document["parts"])
    render.line("cpu of a task  " + " · ".join(f"{role} {spent:g} ms" for role, spent in document["cpu_ms"].items()))
    return "{machines:,} machines, {submissions:,} submissions".format_map(document["chosen"])
