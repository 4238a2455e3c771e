"""``omega bench web-submissions``."""

from typing import Any

import click

from benchmarks.command.harness import benchmark
from omega.cli import render


@click.command()
@click.option("--connections", type=click.IntRange(min=1), help="Connections that submit at once (default: 32).")
@click.option("--rate", type=click.IntRange(min=1), help="Submissions of a job per second (default: 1000).")
@click.option("--list-rate", type=click.IntRange(min=1), help="Submissions of a list per second (default: 10).")
@click.option("--jobs", type=click.IntRange(min=2), help="Jobs of a list (default: 500).")
@click.option("--seconds", type=click.FloatRange(min=0.5), help="Measured length of each run (default: 10).")
@benchmark("web_submissions")
def command(document: dict[str, Any]) -> str:
    """Measure submissions by HTTP: jobs per second, waits, and the processor time of omega serve for a job."""
    for name in ("single", "lists"):
        row = document[name]
        render.line(
            f"{name}: {row['submissions_per_second']:,.0f} submissions/s · {row['jobs_per_second']:,.0f} jobs/s · "
            f"{row['cpu_ms_per_job']} ms of processor time a job · wait {row['wait_ms']['p50']} ms, "
            f"p99 {row['wait_ms']['p99']} ms · {row['cores']} cores"
        )
    return "{connections} connections, lists of {jobs}".format_map(document["chosen"])
