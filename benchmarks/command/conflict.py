"""``omega bench conflict``."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from benchmarks.command.harness import (
    COUNTS,
    SHARES,
    Listed,
    append_only_option,
    count_instructions,
    foot,
    instruction_table,
    instructions_option,
    machines_option,
    measure,
    stated,
    store_option,
)
from omega.cli import render
from omega.cli.app import App


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
@click.option("--gang", is_flag=True, help="Gang jobs: all tasks of a job or none.")
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
@append_only_option
@store_option
@instructions_option
@click.pass_obj
def command(app: App, /, gang: bool, instructions: bool, **settings: Any) -> None:
    """Measure conflict fraction and tasks per second of real schedulers.

    Scheduler processes compete for a cell with a prepared queue of jobs; every combination of the lists is run.
    --json adds waits and busyness by scheduler, and every single run.
    """
    counted = count_instructions(app, instructions)
    document = measure(app, "conflict", stated(**settings, gang=[True] if gang else None))
    if counted:
        document["instructions"] = counted
    if app.as_json:
        render.document(document)
        return
    render.table(
        [
            ">batch",
            ">service",
            "detection",
            "commit",
            ">full",
            "jobs",
            ">pools",
            ">runs",
            ">tasks/s",
            ">from",
            ">to",
            ">gangs/s",
            ">conflict fraction",
            ">from",
            ">to",
            ">server cpu",
        ],
        [_contest(row) for row in document["medians"]],
    )
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
    instruction_table(counted)
    chosen = document["chosen"]
    foot(
        document,
        f"{document['cell']['machines']:,} machines, jobs of {chosen['tasks']} tasks in {chosen['groups']} groups, "
        f"{chosen['need'][0]}m cpu and {chosen['need'][1]}Mi each for {chosen['duration_ms']} ms, "
        f"{chosen['jobs_per_call']} jobs per round trip, watched for {chosen['seconds']:g} s",
    )


def _contest(row: Mapping[str, Any]) -> Sequence[object]:
    rates, fractions = row["spread"]["tasks_per_second"], row["spread"]["conflict_fraction"]
    return [
        row["batch"],
        row["service"],
        row["detection"],
        row["commit"],
        f"{row['fullness']:.0%}",
        "gang" if row["gang"] else "",
        row["pools"] or "",
        row["repeats"],
        round(row["tasks_per_second"]),
        *map(round, rates),
        round(row["gangs_per_second"]) if row["gang"] else "",
        f"{row['conflict_fraction']:.3f}",
        *(f"{each:.3f}" for each in fractions),
        f"{row['server_cpu']:.2f}",
    ]
