"""``omega bench place`` and ``omega bench sync``."""

from typing import Any

import click

from benchmarks.command.harness import NUMBERS, Listed, benchmark, table
from omega.cli import render

TABLES = {
    "placement": [
        ("policy", "policy"),
        (">machines", "machines"),
        (">tasks", "tasks_per_job"),
        (">p50 µs", "p50_us"),
        (">p99 µs", "p99_us"),
    ],
    "sync": [
        (">machines", "machines"),
        (">changed", "changed"),
        (">ms", "milliseconds"),
        (">from", "{spread[0]}"),
        (">to", "{spread[1]}"),
    ],
    "fair_shares": [
        ("one update of", "shape"),
        (">pools", "pools"),
        (">jobs", "jobs"),
        (">ms", "milliseconds"),
        (">from", "{spread[0]}"),
        (">to", "{spread[1]}"),
    ],
    "pools": [
        (">machines", "machines"),
        (">pools", "pools"),
        (">jobs", "jobs"),
        (">tasks/s", "tasks_per_second"),
        (">µs an attempt", "microseconds_per_attempt"),
    ],
    "lanes": [
        ("ordering", "ordering"),
        (">jobs", "jobs"),
        (">lanes", "lanes"),
        (">ms an attempt of 8 jobs", "milliseconds"),
    ],
    "epochs": [
        (">pools", "pools"),
        (">jobs", "jobs"),
        (">reading, server ms", "reading_server_ms"),
        (">epoch, server ms", "server_ms"),
        (">publisher ms", "own_cpu_ms"),
        (">longest pause ms", "longest_pause_ms"),
        (">without", "longest_pause_without_ms"),
    ],
}
"""The columns of each part of the document but memory."""


@click.command()
@click.option(
    "--part",
    "parts",
    type=Listed(click.Choice(["placement", "sync", "memory", "fair-shares", "pools", "lanes", "epochs"])),
    metavar="PART,…",
    help="Parts to measure: placement, sync, memory, fair-shares, pools, lanes, epochs (default: all).",
)
@click.option("--machines", type=NUMBERS, metavar="N,…", help="Cell sizes (default: 1000,10000,100000).")
@benchmark("place")
def command(document: dict[str, Any]) -> str:
    """Measure placements, syncs, memory, fair shares, scheduling by pools, lanes, and epochs.

    Placement by policy and cell size; syncs by number of changed machines; memory of a scheduler and of the
    server; fair shares by size of the pool tree; scheduling by number of pools, in processor time; attempts by
    number of lanes (users, precedences); epochs by the server's time and by what they take from the attempts
    of the scheduler that publishes them.
    """
    for part, columns in TABLES.items():
        if part in document:
            table(columns, document[part])
        if part == "sync" and "memory" in document:
            _memory(document["memory"])
    return ""


def _memory(memory: dict[str, Any]) -> None:
    for row in memory["server"]:
        used = f"{row['megabytes_per_100000']} MB per 100,000 running tasks"
        how = "on a machine each" if row["form"] == "spread" else "beside one another"
        parts = ", ".join(f"{name} {size}" for name, size in row["by_key"].items())
        ids = "ids of 12 characters" if row["ids"] == "own" else "ids of about 25 characters"
        render.line(f"server: {used} in jobs of {row['tasks_per_job']:,}, {how}, {ids} ({parts})")
    row = memory["scheduler"]
    beside = f"{row['machines']:,} machines and {row['running_tasks']:,} tasks"
    render.line(f"scheduler: {row['resident_mib']} MiB resident beside {beside}")
