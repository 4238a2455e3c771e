"""``omega bench fair``."""

from typing import Any

import click

from benchmarks.command.harness import COUNTS, benchmark, table


@click.command()
@click.option(
    "--defaults",
    "preemption",
    flag_value="default",
    help="Starvation timeout 30 s, back-off 5 s, tolerance 0.8 (without: 2 s, 0.5 s, 1.0).",
)
@click.option("--schedulers", type=click.IntRange(min=1), help="Number of batch schedulers (default: 4).")
@click.option("--machines", type=click.IntRange(min=1), help="Machines in the cell (default: 1000).")
@click.option("--slots", type=click.IntRange(min=1), help="Number of tasks that a machine holds (default: 8).")
@click.option(
    "--guarantees", type=COUNTS, metavar="TASKS,…", help="Guarantee of each pool, in tasks (default: 1000,2000,1000)."
)
@click.option("--jobs", type=click.IntRange(min=1), help="Number of jobs per pool (default: 10).")
@click.option("--repeat", type=click.IntRange(min=1), help="Number of runs (default: 3).")
@benchmark("fair")
def command(document: dict[str, Any]) -> str:
    """Measure how fast pools reach their fair shares.

    The first pool holds all machines when the others submit their jobs; several schedulers evict at the same time. The
    figures come from the log of the cell, which the audit replays. Exit status 1 if a run misses the target: shares
    within 2 % or one task in 10 s (--defaults: 45 s), at most two tasks beyond them, no eviction undone within 5 s,
    each one confirmed by the audit: at its commit, and on the snapshot that it was decided on (confirmed).
    """
    columns = [
        ("target", "target"),
        (">seconds", "took"),
        (">beyond", "beyond"),
        (">evictions", "evictions"),
        (">undone", "undone"),
        (">transactions", "transactions"),
        (">share verdicts", "unfair"),
        (">lost work", "{wasted_task_seconds:,.0f} s"),
        (">confirmed", "{checked_when_decided} of {sets}"),
        (">violations", "wrong"),
    ]
    rows = [
        run
        | {
            "target": "met" if run["met"] else "missed",
            "took": "never" if run["seconds"] is None else f"{run['seconds']:.1f}",
            "beyond": max(run["overshoot"], run["undershoot"]),
            "wrong": run["violations"] + run["not_improved"],
        }
        for run in document["runs"]
    ]
    table(columns, rows)
    chosen = document["chosen"]
    return (
        f"{chosen['machines']:,} machines of {chosen['slots']} tasks, {chosen['schedulers']} batch schedulers, "
        f"pools with guarantees of {', '.join(f'{each:,}' for each in chosen['guarantees'])} tasks, "
        f"{chosen['jobs']} jobs of {chosen['tasks']:,} tasks each; target {document['target_seconds']:g} s"
    )
