"""``omega bench tasks``."""

from typing import Any

import click

from benchmarks.command.harness import benchmark, table
from omega.cli import render

COUNT = click.IntRange(min=0)


@click.command()
@click.option("--small", type=COUNT, help="Tasks of 20 millicores (default: 1000).")
@click.option("--whole", type=COUNT, help="Tasks of one core (default: 500).")
@click.option("--foreign", type=COUNT, help="Sleeping processes beside the small tasks (default: 2000).")
@click.option("--sleeping", type=COUNT, help="Tasks that sleep (default: 1000).")
@benchmark("tasks")
def command(document: dict[str, Any]) -> str:
    """Measure what tasks cost on an agent: tasks of `true`, and tasks that sleep.

    Processor time is that of all processes of a kind, per task; commands count with their supervisors. HyperQueue runs
    the same tasks on the same computer where its package is installed (`pip install hyperqueue`).
    """
    rows = [{**row, "total": round(sum(row["cpu_ms"].values()), 1), **row["cpu_ms"]} for row in document["runs"]]
    columns = [("tasks of", "name"), (">per second", "per_second"), (">end to start ms", "end_to_start_p50_ms")]
    kinds = [(f">{kind} ms", kind) for kind in (rows[0]["cpu_ms"] if rows else {})]
    table([*columns, *kinds, (">total ms", "total")], rows)
    if document["sleeping"]:
        asleep = document["sleeping"]
        shares = " · ".join(f"{kind} {share:g} %" for kind, share in asleep["core_percent"].items())
        render.line(
            f"{asleep['tasks']:,} sleeping  {asleep['mib']:,} MiB · started in {asleep['started_seconds']:g} s"
            f" · of a core: {shares} · guard {asleep['guard_percent_after_restart']:g} % when the agent was restarted"
        )
    if document["hyperqueue_per_second"]:
        render.line(f"HyperQueue  {document['hyperqueue_per_second']:g} per second, one core each")
    return "{small:,} and {whole:,} tasks, {sleeping:,} asleep, {foreign:,} other processes".format_map(
        document["chosen"]
    )
