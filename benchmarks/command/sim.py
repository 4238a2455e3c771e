"""``omega bench sim``."""

from typing import Any

import click

from benchmarks.command.harness import Listed, benchmark, table
from omega.cli import render


@click.command()
@click.option(
    "--part",
    "parts",
    type=Listed(click.Choice(["speed", "agreement", "slots", "full"])),
    metavar="PART,…",
    help="Parts to measure: speed, agreement, slots, full (default: speed, agreement).",
)
@click.option(
    "--seeds", type=click.IntRange(min=1), help="Number of runs of each compared configuration (default: 10)."
)
@click.option("--repeat", type=click.IntRange(min=1), help="Number of runs of each timed configuration (default: 3).")
@click.option("--large/--no-large", default=None, help="Also a day of 10,000 machines (default: yes).")
@click.option(
    "--results", type=click.Path(dir_okay=False), help="File of results to compare with (default: the recorded ones)."
)
@click.option(
    "--workload",
    type=click.Path(dir_okay=False),
    help="Workload of these results (default: in the directory OMEGA_SHARED).",
)
@benchmark("sim", stored=False)
def command(document: dict[str, Any]) -> str:
    """Measure the simulator's speed and compare its figures with those of the authors' simulator.

    Both simulate the same day under the same rules. A figure agrees when the means over the seeds differ by at most
    three standard deviations, 1 % or 1e-5, whichever is largest. The part slots measures ordering and delay scheduling
    in a full cluster of slots, in tasks per second of processor time. The part full compares a cell in which few
    machines have room with one that is 60 % full.
    """
    if "speed" in document:
        columns = [
            ("architecture", "architecture"),
            ("detection", "detection"),
            ("commit", "commit"),
            (">machines", "machines"),
            (">jobs", "jobs"),
            (">tasks", "tasks"),
            (">s", "{wall_seconds:.2f}"),
            (">from", "{spread[0]:.2f}"),
            (">to", "{spread[1]:.2f}"),
            (">theirs, warm", "{reference[warm]:.2f}"),
            (">cold", "{reference[cold]:.2f}"),
        ]
        table(columns, document["speed"])
    if "slots" in document:
        columns = [
            ("delay", "form"),
            ("durations", "durations"),
            (">tasks", "tasks"),
            (">tasks/s", "{tasks_per_second:,.0f}"),
            (">from", "{spread[0]:,.0f}"),
            (">to", "{spread[1]:,.0f}"),
            (">least", "least"),
            (">attempts per launch", "{attempts_per_launch:.2f}"),
            (">local maps", "{locality:.1%}"),
        ]
        table(columns, document["slots"])
    if "full" in document:
        names = ("schedulers", "fill", ">machines", ">jobs", ">tasks", ">attempts")
        columns = [(name, name.lstrip(">")) for name in names]
        table([*columns, (">s of processor", "{processor_seconds:.2f}")], document["full"])
    if "agreement" in document:
        columns = [
            ("architecture", "architecture"),
            ("commit", "commit"),
            (">t_job service", "t_job_service"),
            (">figures", "number"),
            (">agree", "agree"),
            ("apart", "apart"),
        ]
        rows = []
        for row in document["agreement"]:
            apart = [figure["name"] for figure in row["figures"] if not figure["agrees"]]
            number = len(row["figures"])
            rows.append(row | {"number": number, "agree": number - len(apart), "apart": ", ".join(apart) or "-"})
        table(columns, rows)
        render.line(f"{document['figures_that_agree']} of {document['figures']} figures agree")
    return ""
