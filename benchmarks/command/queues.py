"""``omega bench blocked``, ``intake``, ``lists`` and ``questions``: cells with many jobs."""

from typing import Any

import click

from benchmarks.command.harness import Listed, benchmark, machines_option, table
from omega.cli import render


@click.command()
@click.option("--blocked", type=click.IntRange(min=1), help="Number of jobs that fit nowhere (default: 1000).")
@click.option("--shapes", type=click.IntRange(min=1), help="Number of different job sizes (default: 1000).")
@click.option("--seconds", type=click.FloatRange(min=0.1), help="Measured length of each run (default: 5).")
@click.option("--repeat", type=click.IntRange(min=1), help="Number of pairs of runs (default: 5).")
@machines_option
@benchmark("blocked")
def blocked(document: dict[str, Any]) -> str:
    """Measure the cost of jobs that fit nowhere for jobs that fit.

    Runs pairs of two batch schedulers on a busy cell, with and without blocked jobs; then counts the attempts after
    one machine of 10,000 blocked jobs becomes free.
    """
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
    return f"{document['cell']['machines']:,} machines, initially {chosen['fullness']:.0%} full"


@click.command()
@click.option("--jobs", type=click.IntRange(min=1), help="Number of pending jobs (default: 100000).")
@click.option("--tasks", type=click.IntRange(min=1), help="Tasks of each job (default: 10).")
@click.option("--users", type=click.IntRange(min=1), help="Users who submitted them (default: 50).")
@click.option("--schedulers", type=click.IntRange(min=1), help="Schedulers that share the jobs (default: 2).")
@click.option("--most", type=click.IntRange(min=1), help="Jobs asked for in one call (default: 32).")
@click.option("--calls", type=click.IntRange(min=1), help="Number of calls (default: 1000).")
@benchmark("intake")
def intake(document: dict[str, Any]) -> str:
    """Measure the server's time for the best jobs of a long queue.

    One scheduler asks for the next jobs of eight lanes at a time: with jobs spread evenly, and with the first jobs of
    every lane in the buckets of another scheduler that stands still.
    """
    for name, queue in document["queues"].items():
        render.line(
            f"{name:<8} p50 {queue['p50_ms']:.2f} ms · p99 {queue['p99_ms']:.2f} ms · most {queue['most_ms']:.2f} ms · "
            f"{queue['jobs_per_call']:g} jobs a call from {queue['buckets']} of {queue['of']} buckets"
        )
    return "{jobs:,} jobs of {tasks:,} tasks, {users:,} users".format_map(document["chosen"])


@click.command()
@click.option("--jobs", type=click.IntRange(min=1), help="Number of jobs, half of them running (default: 10000).")
@click.option("--machines", type=click.IntRange(min=1), help="Number of machines (default: 100000).")
@click.option("--page", type=click.IntRange(min=1), help="Rows of a page (default: 50).")
@click.option("--calls", type=click.IntRange(min=1), help="Number of calls of each question (default: 7).")
@benchmark("lists")
def lists(document: dict[str, Any]) -> str:
    """Measure pages of jobs and machines, and the state of a cell, as omega.Client returns them.

    Medians of one process without its start: time on the clock, and processor time of the client and the server.
    """
    columns = [
        ("question", "question"),
        (">ms", "milliseconds"),
        (">from", "{spread[0]}"),
        (">to", "{spread[1]}"),
        (">client cpu ms", "client_cpu_ms"),
        (">server cpu ms", "server_cpu_ms"),
    ]
    table(columns, document["questions"])
    return "{jobs:,} jobs, {machines:,} machines".format_map(document["chosen"])


@click.command()
@click.option(
    "--cell-size",
    "cells",
    type=Listed(click.Choice(["small", "reduced-running", "reduced-pending", "running", "pending"])),
    metavar="SIZE,…",
    help="small, running (100,000 machines, a million tasks), pending (840,000 jobs); default: these. reduced-running "
    "(2,000 machines, 20,000 tasks) and reduced-pending (10,000 jobs) take a minute.",
)
@click.option("--times", type=click.IntRange(min=1), help="Processes of each command (default: 3).")
@click.option("--verify", is_flag=True, default=None, help="Measure omega cell verify too, which takes minutes.")
@benchmark("questions")
def questions(document: dict[str, Any]) -> str:
    """Measure what commands cost in large cells.

    Medians of processor time of the command and of the server, and of resident memory. Each command is a process of
    its own; the first row of a cell only connects and pings.
    """
    columns = [
        ("cell", "cell"),
        ("command", "command"),
        (">client cpu ms", "client_cpu_ms"),
        (">beyond ping", "beyond_ping_ms"),
        (">server cpu ms", "server_cpu_ms"),
        (">MiB", "resident_mib"),
        (">exit", "code"),
    ]
    table(columns, document["commands"])
    return f"{document['chosen']['times']} processes of each command"
