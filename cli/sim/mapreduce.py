"""``omega sim mapreduce``."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from omega.cli import render
from omega.cli.app import App

FILLS = (0.5, 1.0, 1.25)


@click.command()
@click.option("--workload", default="C", show_default=True, metavar="PRESET", help="Cell: A, B or C.")
@click.option("--days", default=0.25, show_default=True, type=click.FloatRange(0.001, 30), help="Simulated days.")
@click.option("--seed", default=0, show_default=True, metavar="N", help="Seed of all random numbers.")
@click.option(
    "--machines", type=click.IntRange(1), metavar="N", help="Number of machines of a smaller cell of the same kind."
)
@click.option(
    "--fill",
    "fills",
    multiple=True,
    type=click.FloatRange(0, 1.6),
    metavar="SHARE",
    help=f"Use by other jobs, as a multiple of the measured use; repeatable (default: {', '.join(map(str, FILLS))}).",
)
@click.option(
    "--loop",
    is_flag=True,
    help="Simulate the scheduler on single machines instead of the aggregate model: "
    "slow; use it with --days 0.05 or less.",
)
@click.pass_obj
def command(
    app: App, *, workload: str, days: float, seed: int, machines: int | None, fills: Sequence[float], loop: bool
) -> None:
    """Compare sizing policies of MapReduce jobs at several cell utilizations (Omega §6).

    A fifth of the batch jobs become MapReduce jobs. The workers they could use are fitted to figure 15 of the paper;
    the results are the policies' speed-ups, and how much of them a full cell leaves.
    """
    from omega.experiments.mapreduce import POLICIES, evaluate
    from omega.experiments.mapreduce_loop import loop_outcomes
    from omega.workload.presets import Size, draw

    if loop and fills:
        raise click.UsageError("--fill needs the aggregate model; leave out --loop")
    outcomes = []
    fills = (1.0,) if loop else fills or FILLS
    with render.progress(quiet=app.as_json) as bars:
        bar = bars.add_task("policies", total=len(POLICIES) * len(fills), more="runs")
        drawn = draw(workload, seed, days, size=Size(machines) if machines else None)
        for fill in fills:
            for outcome in loop_outcomes(drawn, seed, days) if loop else evaluate(drawn, seed, days, fill):
                outcomes.append({"fill": fill, **outcome.as_json()})
                bars.advance(bar)
    if app.as_json:
        render.document({"workload": workload, "days": days, "seed": seed, "outcomes": outcomes})
    else:
        render.table(
            ("fill", "policy", ">jobs", ">faster", ">median", ">p80", ">p95", ">cpu in use", ">memory in use"),
            [_row(each) for each in outcomes],
        )


def _row(outcome: Mapping[str, Any]) -> tuple[object, ...]:
    use = (_use(**each) for each in outcome["utilisation"].values())
    speedups = (f"{outcome[f'speedup_p{share}']:.2f}x" for share in (50, 80, 95))
    return outcome["fill"], outcome["policy"], outcome["jobs"], f"{outcome['benefit']:.0%}", *speedups, *use


def _use(mean: float, deviation: float | None = None) -> str:
    """Return a share, and its standard deviation over time in points where known."""
    return f"{mean:.0%}" + ("" if deviation is None else f" ± {100 * deviation:.1f}")
