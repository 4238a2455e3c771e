"""``omega bench conflict``."""

from typing import Any

import click

from benchmarks.command.harness import COUNTS, SHARES, Listed, benchmark, machines_option, table
from omega.cli import render


@click.command()
@click.option(
    "--headline",
    "preset",
    flag_value="headline",
    help="10,000 machines, 2 batch schedulers; 5 runs of jobs, 5 of gangs.",
)
@click.option(
    "--contended",
    "preset",
    flag_value="contended",
    help="90 % full, 4 schedulers, all modes; 5 runs each.",
)
@click.option("--batch", type=COUNTS, metavar="N,…", help="Number of batch schedulers (default: 1,2,4).")
@click.option("--service", type=COUNTS, metavar="N,…", help="Number of service schedulers (default: 0).")
@click.option(
    "--detection",
    type=Listed(click.Choice(["fine", "coarse"])),
    metavar="fine,coarse",
    help="Conflict detection (default: fine).",
)
@click.option(
    "--commit",
    type=Listed(click.Choice(["incremental", "gang"])),
    metavar="incremental,gang",
    help="Commit mode (default: incremental).",
)
@click.option("--fullness", type=SHARES, metavar="0,0.9,…", help="Initial share of the cell in use (default: 0).")
@click.option(
    "--gang",
    is_flag=True,
    callback=lambda _context, _option, wanted: [True] if wanted else None,
    help="Gang jobs: all tasks of a job or none.",
)
@click.option("--tasks", type=click.IntRange(min=1), help="Number of tasks per job (default: 10).")
@click.option(
    "--groups", type=click.IntRange(min=1), help="Number of task groups of different sizes per job (default: 1)."
)
@click.option("--need", type=COUNTS, metavar="MILLICORES,MIB", help="Resources of a task (default: 1000,2048).")
@click.option("--duration-ms", type=click.IntRange(min=1), help="Duration of a task (default: 600).")
@click.option(
    "--jobs-per-call",
    type=click.IntRange(min=1),
    help="Number of jobs per round trip (default: the batch scheduler's).",
)
@click.option("--seconds", type=click.FloatRange(min=0.1), help="Measured length of each run (default: 5).")
@click.option(
    "--repeat", type=click.IntRange(min=1), help="Number of alternating runs of each configuration (default: 1)."
)
@click.option(
    "--pairs", is_flag=True, default=None, help="Compare coarse with fine and gang with incremental, run by run."
)
@click.option(
    "--pools",
    type=COUNTS,
    metavar="0,60,…",
    help="Number of leaf pools that the jobs belong to, three levels deep (default: 0); 0,60 compares both.",
)
@machines_option
@benchmark("conflict", counted=True)
def command(document: dict[str, Any]) -> str:
    """Measure conflict fraction and tasks per second of real schedulers.

    Scheduler processes compete for a cell with a prepared queue of jobs; every combination of the lists is run.
    --json adds waits and busyness by scheduler, and every single run.
    """
    columns = [
        (">batch", "batch"),
        (">service", "service"),
        ("detection", "detection"),
        ("commit", "commit"),
        (">full", "{fullness:.0%}"),
        ("jobs", "jobs"),
        (">pools", "pools"),
        (">runs", "repeats"),
        (">tasks/s", "{tasks_per_second:,.0f}"),
        (">from", "{spread[tasks_per_second][0]:,.0f}"),
        (">to", "{spread[tasks_per_second][1]:,.0f}"),
        (">gangs/s", "gangs"),
        (">conflict fraction", "{conflict_fraction:.3f}"),
        (">from", "{spread[conflict_fraction][0]:.3f}"),
        (">to", "{spread[conflict_fraction][1]:.3f}"),
        (">server cpu", "{server_cpu:.2f}"),
    ]
    rows = []
    for row in document["medians"]:
        gangs = {"jobs": "gang", "gangs": round(row["gangs_per_second"])} if row["gang"] else {"jobs": "", "gangs": ""}
        rows.append(row | gangs | {"pools": row["pools"] or ""})
    table(columns, rows)
    for row in document.get("comparisons", []):
        low, high = row["spread"]
        where = ", ".join(str(row[name]) for name in ("detection", "commit") if name in row)
        render.line(
            f"{row['of']}, {where}: conflict fraction × {row['conflict_fraction_ratio']:.2f} "
            f"({low:.2f} to {high:.2f} in {row['pairs']} pairs)"
        )
    for row in document.get("pools", []):
        low, high = row["tasks_per_second_spread"]
        render.line(
            f"{row['pools']} pools{', gang jobs' if row['gang'] else ''}: tasks/s × {row['tasks_per_second']:.2f} "
            f"({low:.2f} to {high:.2f} in {row['pairs']} pairs) of those without; processor time per task: "
            f"schedulers × {row['schedulers_us_per_task']:.2f}, server × {row['server_us_per_task']:.2f}"
            + (f"; instructions per task, all processes: × {row['instructions']:.2f}" if "instructions" in row else "")
        )
    chosen = document["chosen"]
    return (
        f"{document['cell']['machines']:,} machines, jobs of {chosen['tasks']} tasks in {chosen['groups']} groups, "
        f"{chosen['need'][0]}m cpu and {chosen['need'][1]}Mi each for {chosen['duration_ms']} ms, "
        f"{chosen['jobs_per_call']} jobs per round trip, watched for {chosen['seconds']:g} s"
    )
