"""``omega sim delay``."""

import click

from omega.cli import render
from omega.cli.app import App

MOST = click.IntRange(1, 1_000_000)


@click.command()
@click.option(
    "--locality",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Wanted share of local tasks, such as 0.95.",
)
@click.option("--skips", type=click.IntRange(0, 10**9), help="Offers that a job refuses, instead of --locality.")
@click.option("--tasks", type=MOST, default=20, show_default=True, help="Tasks of the job, each with its own data.")
@click.option("--machines", type=MOST, default=100, show_default=True, help="Machines of the cell.")
@click.option("--replicas", type=MOST, default=3, show_default=True, help="Machines with the data of one task.")
@click.option("--slots", type=MOST, default=8, show_default=True, help="Tasks that run at once on each machine.")
@click.pass_obj
def command(
    app: App, *, locality: float | None, skips: int | None, tasks: int, machines: int, replicas: int, slots: int
) -> None:
    """Compute how many offers a job should refuse to reach a locality, by the analysis of the delay scheduling paper.

    It assumes that slots become free on random machines. Nothing is simulated.
    """
    from omega.schedulers.comparisons.delay_analysis import job_locality, predicted_locality, skips_needed, wait_share

    if (locality is None) == (skips is None):
        raise click.UsageError("give --locality or --skips; for example omega sim delay --locality 0.95")
    found = skips if skips is not None else skips_needed(locality or 0.0, tasks, machines, replicas)
    result = {
        "skips": found,
        "wait": wait_share(found, machines, slots),
        "locality": job_locality(tasks, machines, replicas, skips=found),
        "last_task": predicted_locality(replicas / machines, found),
    }
    if app.as_json:
        render.document(result)
        return
    render.facts(
        {
            "skips": f"{found:,} offers ({found / machines:.2f} of the machines)",
            "wait": f"{result['wait']:.1%} of the mean duration of a task, at most, with all slots busy",
            "locality": f"{result['locality']:.1%} of the job's {tasks:,} tasks",
            "last task": f"{result['last_task']:.1%}",
        }
    )
