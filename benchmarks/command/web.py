"""``omega bench web``."""

from typing import Any

import click

from benchmarks.command.harness import benchmark, table
from omega.cli import render


@click.command()
@click.option("--machines", type=click.IntRange(min=1), help="Number of machines (default: 100000).")
@click.option("--jobs", type=click.IntRange(min=2), help="Number of jobs, half of them running (default: 100000).")
@click.option("--changes", type=click.IntRange(min=1), help="Changes of the cell per second (default: 1000).")
@click.option("--rounds", type=click.IntRange(min=1), help="Number of measured readings (default: 15).")
@click.option("--calls", type=click.IntRange(min=2), help="Number of calls of each document (default: 9).")
@click.option(
    "--hostile", is_flag=True, default=None, help="Measure only how long hostile bodies keep the server from answering."
)
@benchmark("web")
def command(document: dict[str, Any]) -> str:
    """Measure the mirror behind the web console: memory, documents, and its cost to the store.

    A process of its own mirrors a filled cell. Documents are taken after a reading and again; then the cell changes as
    much as in half a second before each reading. All times are processor time. With --hostile, a small cell is served,
    and bodies of hostile clients are sent: the longest gap between two turns of the server's loop counts.
    """
    if "bodies" in document:
        rows = [{"body": name, **row} for name, row in document["bodies"].items()]
        table([("body", "body"), (">KiB", "kib"), (">longest gap ms", "longest_gap_ms")], rows)
        return "longest gap of the loop {longest_gap_ms} ms of processor time, target {target_ms:g}".format_map(
            document
        )
    load, quiet, busy = (document[name] for name in ("load", "quiet", "busy"))
    render.line(f"first reading: {load['cpu_seconds']} s of processor time · {load['resident_mib']} MiB resident")
    for name, row in (("quiet", quiet), ("busy", busy)):
        render.line(
            f"{name}: {row['versions_per_reading']:g} versions a reading of {row['reading_cpu_ms']} ms, "
            f"{row['store_cpu_ms']} ms of the store · {row['cores']} cores, store {row['store_cores']} cores · "
            f"{row['resident_mib']} MiB"
        )
    rows = [{"document": name, **row} for name, row in document["documents"].items()]
    columns = [("document", "document"), (">first ms", "first_ms"), (">ms", "ms"), (">from", "{spread[0]}")]
    table([*columns, (">to", "{spread[1]}")], rows)
    return "{machines:,} machines, {jobs:,} jobs".format_map(document["chosen"])
