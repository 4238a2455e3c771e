"""``omega bench sim``."""

from typing import Any

import click

from cli import render
from cli.app import App
from cli.bench.harness import Listed, foot, measure, stated


@click.command()
@click.option(
    "--part", "parts", type=Listed(click.Choice(["speed", "agreement"])), metavar="PART,…",
    help="Only these: speed, agreement.",
)  # fmt: skip
@click.option("--seeds", type=click.IntRange(min=1), help="Runs of each configuration that is compared (default: 10).")
@click.option("--repeat", type=click.IntRange(min=1), help="Runs of each one that is timed (default: 3).")
@click.option("--large/--no-large", default=None, help="Also a day of 10,000 machines (default: yes).")
@click.option("--results", type=click.Path(dir_okay=False), help="Results to compare with, instead of those on record.")
@click.option(
    "--workload",
    type=click.Path(dir_okay=False),
    help="The day they are of (default: in the folder OMEGA_SHARED names).",
)
@click.pass_obj
def command(app: App, /, **settings: Any) -> None:
    """Speed of the simulator, and its figures beside those of the authors' simulator.

    Both simulate the same day under the same rules. A figure agrees when the means over the seeds are no further
    apart than three standard deviations, 1 % or 1e-5, whichever is most.
    """
    document = measure(app, "sim", stated(**settings), stored=False)
    if app.as_json:
        render.document(document)
        return
    if "speed" in document:
        render.table(
            ["architecture", "detection", "commit", ">machines", ">jobs", ">tasks", ">s", ">from", ">to",
             ">theirs, warm", ">cold"],
            [
                [row["architecture"], row["detection"], row["commit"], row["machines"], row["jobs"], row["tasks"],
                 *(f"{s:.2f}" for s in (row["wall_seconds"], *row["spread"])),
                 *(f"{row['reference'][when]:.2f}" for when in ("warm", "cold"))]
                for row in document["speed"]
            ],
        )  # fmt: skip
    if "agreement" in document:
        render.table(
            ["architecture", "commit", ">t_job service", ">figures", ">agree", "apart"],
            [
                [row["architecture"], row["commit"], row["t_job_service"], len(row["figures"]),
                 sum(figure["agrees"] for figure in row["figures"]),
                 ", ".join(figure["name"] for figure in row["figures"] if not figure["agrees"]) or "-"]
                for row in document["agreement"]
            ],
        )  # fmt: skip
        render.line(f"{document['figures_that_agree']} of {document['figures']} figures agree")
    foot(document, "")
