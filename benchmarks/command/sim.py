"""``omega bench sim``."""

from typing import Any

import click

from benchmarks.command.harness import Listed, foot, measure, stated
from omega.cli import render
from omega.cli.app import App


@click.command()
@click.option(
    "--part",
    "parts",
    type=Listed(click.Choice(["speed", "agreement"])),
    metavar="PART,…",
    help="Parts to measure: speed, agreement (default: both).",
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
@click.pass_obj
def command(app: App, /, **settings: Any) -> None:
    """Measure the simulator's speed and compare its figures with those of the authors' simulator.

    Both simulate the same day under the same rules. A figure agrees when the means over the seeds differ by at most
    three standard deviations, 1 % or 1e-5, whichever is largest.
    """
    document = measure(app, "sim", stated(**settings), stored=False)
    if app.as_json:
        render.document(document)
        return
    if "speed" in document:
        render.table(
            [
                "architecture",
                "detection",
                "commit",
                ">machines",
                ">jobs",
                ">tasks",
                ">s",
                ">from",
                ">to",
                ">theirs, warm",
                ">cold",
            ],
            [
                [
                    row["architecture"],
                    row["detection"],
                    row["commit"],
                    row["machines"],
                    row["jobs"],
                    row["tasks"],
                    *(f"{s:.2f}" for s in (row["wall_seconds"], *row["spread"])),
                    *(f"{row['reference'][when]:.2f}" for when in ("warm", "cold")),
                ]
                for row in document["speed"]
            ],
        )
    if "agreement" in document:
        render.table(
            ["architecture", "commit", ">t_job service", ">figures", ">agree", "apart"],
            [
                [
                    row["architecture"],
                    row["commit"],
                    row["t_job_service"],
                    len(row["figures"]),
                    sum(figure["agrees"] for figure in row["figures"]),
                    ", ".join(figure["name"] for figure in row["figures"] if not figure["agrees"]) or "-",
                ]
                for row in document["agreement"]
            ],
        )
        render.line(f"{document['figures_that_agree']} of {document['figures']} figures agree")
    foot(document, "")
