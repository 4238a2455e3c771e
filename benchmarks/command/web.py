"""``omega bench web``."""

from typing import Any

import click

from benchmarks.command.harness import benchmark, table
from omega.cli import render


@click.command()
@click.option("--machines", type=click.IntRange(min=1), help="Number of machines (default: 100000).")
@click.option("--jobs", type=click.IntRange(min=2), help="Number of jobs, half of them running (default: 100000).")
@click.option("--changes", type=click.IntRange(min=1), help="Changes of the cell per second (default: 1000).")
@click.option("--seconds", type=click.FloatRange(min=0.5), help="Measured length of each run (default: 20).")
@click.option("--calls", type=click.IntRange(min=2), help="Number of calls of each document (default: 9).")
@benchmark("web")
def command(document: dict[str, Any]) -> str:
    """Measure the mirror behind the web console: memory, documents, and its cost to the store.

    A process of its own mirrors a filled cell. Documents are taken after a reading and again (processor time); then the
    cell changes at a fixed rate, in turn with and without the mirror.
    """
    load, quiet, busy = (document[name] for name in ("load", "quiet", "busy"))
    render.line(f"first reading: {load['cpu_seconds']} s of processor time · {load['resident_mib']} MiB resident")
    for name, row in (("quiet", quiet), ("busy", busy)):
        render.line(
            f"{name}: {row['versions_per_second']:,.0f} versions/s · {row['readings_per_second']} readings/s of "
            f"{row['reading_ms']} ms · {row['cores']} cores · store {row['store_cores']} cores · "
            f"{row['resident_mib']} MiB"
        )
    rows = [{"document": name, **row} for name, row in document["documents"].items()]
    columns = [("document", "document"), (">first ms", "first_ms"), (">ms", "ms"), (">from", "{spread[0]}")]
    table([*columns, (">to", "{spread[1]}")], rows)
    return "{machines:,} machines, {jobs:,} jobs".format_map(document["chosen"])
