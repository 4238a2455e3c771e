"""``omega bench place`` and ``omega bench sync``."""

from typing import Any

import click

from benchmarks.command.harness import NUMBERS, Listed, append_only_option, foot, measure, stated, store_option
from omega.cli import render
from omega.cli.app import App


def _place(app: App, **settings: Any) -> None:
    document = measure(app, "place", stated(**settings))
    if app.as_json:
        render.document(document)
        return
    if "placement" in document:
        fields = ("policy", "machines", "tasks_per_job", "p50_us", "p99_us")
        render.table(
            ["policy", ">machines", ">tasks", ">p50 µs", ">p99 µs"],
            [[row[name] for name in fields] for row in document["placement"]],
        )
    if "sync" in document:
        render.table(
            [">machines", ">changed", ">ms", ">from", ">to"],
            [[r["machines"], r["changed"], r["milliseconds"], *r["spread"]] for r in document["sync"]],
        )
    if memory := document.get("memory"):
        for row in memory["server"]:
            used = f"{row['megabytes_per_100000']} MB per 100,000 running tasks"
            how = "on a machine each" if row["form"] == "spread" else "beside one another"
            parts = ", ".join(f"{name} {size}" for name, size in row["by_key"].items())
            ids = "ids of 12 characters" if row["ids"] == "own" else "ids of about 25 characters"
            render.line(f"server: {used} in jobs of {row['tasks_per_job']:,}, {how}, {ids} ({parts})")
        row = memory["scheduler"]
        beside = f"{row['machines']:,} machines and {row['running_tasks']:,} tasks"
        render.line(f"scheduler: {row['resident_mib']} MiB resident beside {beside}")
    if shares := document.get("fair_shares"):
        render.table(
            ["one update of", ">pools", ">jobs", ">ms", ">from", ">to"],
            [[row["shape"], row["pools"], row["jobs"], row["milliseconds"], *row["spread"]] for row in shares],
        )
    if rows := document.get("pools"):
        fields = ("machines", "pools", "jobs", "tasks_per_second", "microseconds_per_attempt")
        render.table(
            [">machines", ">pools", ">jobs", ">tasks/s", ">µs an attempt"],
            [[row[name] for name in fields] for row in rows],
        )
    if lanes := document.get("lanes"):
        render.table(
            ["ordering", ">jobs", ">lanes", ">ms an attempt of 8 jobs"],
            [[row["ordering"], row["jobs"], row["lanes"], row["milliseconds"]] for row in lanes],
        )
    if epochs := document.get("epochs"):
        columns = {
            "pools": ">pools",
            "jobs": ">jobs",
            "reading_server_ms": ">reading, server ms",
            "server_ms": ">epoch, server ms",
            "own_cpu_ms": ">publisher ms",
            "longest_pause_ms": ">longest pause ms",
            "longest_pause_without_ms": ">without",
        }
        render.table(list(columns.values()), [[row[name] for name in columns] for row in epochs])
    foot(document, "")


_parts = click.option(
    "--part",
    "parts",
    type=Listed(click.Choice(["placement", "sync", "memory", "fair-shares", "pools", "lanes", "epochs"])),
    metavar="PART,…",
    help="Parts to measure: placement, sync, memory, fair-shares, pools, lanes, epochs (default: all).",
)
_sizes = click.option("--machines", type=NUMBERS, metavar="N,…", help="Cell sizes (default: 1000,10000,100000).")


@click.command()
@_parts
@_sizes
@append_only_option
@store_option
@click.pass_obj
def command(app: App, parts: Any, machines: Any, append_only: bool, store: str | None) -> None:
    """Measure placements, syncs, memory, fair shares, scheduling by pools, lanes, and epochs.

    Placement by policy and cell size; syncs by number of changed machines; memory of a scheduler and of the
    server; fair shares by size of the pool tree; scheduling by number of pools, in processor time; attempts by
    number of lanes (users, precedences); epochs by the server's time and by what they take from the attempts
    of the scheduler that publishes them.
    """
    _place(app, parts=parts, machines=machines, append_only=append_only, store=store)
