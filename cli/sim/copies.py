"""``omega sim copies``."""

import click

from omega.cli import render
from omega.cli.app import App

MOST = click.IntRange(1, 100_000)


@click.command()
@click.option("--jobs", type=MOST, default=100, show_default=True, help="Number of jobs.")
@click.option("--tasks", type=MOST, default=20, show_default=True, help="Tasks of each job.")
@click.option("--machines", type=MOST, default=100, show_default=True, help="Machines, with 4 slots each.")
@click.option("--stragglers", type=click.FloatRange(0, 1), default=0.02, show_default=True, help="Share of slow tasks.")
@click.option("--slower", type=click.FloatRange(1), default=10.0, show_default=True, help="Factor of their duration.")
@click.option(
    "--variation", type=click.FloatRange(0.01, 10), default=0.3, show_default=True,
    help="Coefficient of variation of durations; 1: exponential.",
)  # fmt: skip
@click.option("--factor", type=click.FloatRange(1), default=2.0, show_default=True, help="As in job files.")
@click.option("--progress", "reports", is_flag=True, help="Tasks report their progress.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of all draws.")
@click.pass_obj
def command(
    app: App, *, jobs: int, tasks: int, machines: int, stragglers: float, slower: float, variation: float,
    factor: float, reports: bool, seed: int,
) -> None:  # fmt: skip
    """Simulate jobs with slow tasks, without and with copies on other machines."""
    from omega.schedulers.speculation import Speculation
    from omega.simulation.copies import CopiesSimulation, SlowTasks

    load = SlowTasks(
        jobs=jobs, tasks=tasks, machines=machines, stragglers=stragglers, slower=slower, variation=variation,
        reports=reports, seed=seed,
    )  # fmt: skip
    without, copied = (CopiesSimulation(load, rules).run() for rules in (None, Speculation(factor=factor)))
    result = {
        "median_s": [without.quantile(0.5), copied.quantile(0.5)],
        "p99_s": [without.quantile(0.99), copied.quantile(0.99)],
        "machine_s": [without.machine_seconds, copied.machine_seconds],
        "copies": copied.copies,
        "cost": copied.cost,
    }
    if app.as_json:
        render.document(result)
        return
    rows = [(name, *(f"{seconds:,.0f} s" for seconds in result[f"{key}_s"])) for name, key in _ROWS]  # type: ignore[attr-defined]
    render.table(("", ">without copies", ">with copies"), rows)
    render.facts({"copies": f"{copied.copies:,}", "cost": f"{copied.cost:.2%} of the machine time was outrun"})


_ROWS = (("median completion", "median"), ("99th percentile", "p99"), ("machine time", "machine"))
