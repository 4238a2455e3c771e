"""``omega sim mapreduce``."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from cli import render
from cli.app import App

FILLS = (0.5, 1.0, 1.25)


@click.command()
@click.option("--workload", default="C", show_default=True, metavar="PRESET", help="The cell: A, B or C.")
@click.option("--days", default=0.25, show_default=True, type=click.FloatRange(0.001, 30), help="Simulated days.")
@click.option("--seed", default=0, show_default=True, metavar="N", help="Another draw of all that is drawn.")
@click.option("--machines", type=click.IntRange(1), metavar="N", help="A smaller cell of the same kind.")
@click.option(
    "--fill", "fills", multiple=True, type=click.FloatRange(0, 1.6), metavar="SHARE",
    help=f"What all other jobs take, as a multiple of what is measured; again for more (default: {FILLS}).",
)  # fmt: skip
@click.option("--loop", is_flag=True, help="The scheduler itself, in virtual time on single machines, instead of a "
              "model of sums: slow, for some hundredths of a day.")  # fmt: skip
@click.pass_obj
def command(
    app: App, *, workload: str, days: float, seed: int, machines: int | None, fills: Sequence[float], loop: bool
) -> None:
    """What sizing policies bring MapReduce jobs, in cells more and less full (Omega §6).

    A fifth of the batch jobs are made MapReduce jobs. How many workers they could use is fitted to the paper's
    figure 15; what comes out is how the policies compare, and how much a full cell leaves of it.
    """
    from omega.experiments.mapreduce import POLICIES, evaluate
    from omega.experiments.mapreduce_loop import loop_outcomes
    from omega.workload.presets import Size, draw

    if loop and fills:
        raise click.UsageError("--fill is of the model; with --loop the cell is as full as it was measured")
    found = []
    fills = (1.0,) if loop else fills or FILLS
    with render.progress(quiet=app.as_json) as bars:
        bar = bars.add_task("policies", total=len(POLICIES) * len(fills), more="runs")
        drawn = draw(workload, seed, days, size=Size(machines) if machines else None)
        for fill in fills:
            for outcome in loop_outcomes(drawn, seed, days) if loop else evaluate(drawn, seed, days, fill):
                found.append({"fill": fill, **outcome.as_json()})
                bars.advance(bar)
    if app.as_json:
        render.document({"workload": workload, "days": days, "seed": seed, "outcomes": found})
    else:
        render.table(
            ("fill", "policy", ">jobs", ">faster", ">median", ">p80", ">p95", ">cpu in use", ">memory in use"),
            [_row(each) for each in found],
        )


def _row(found: Mapping[str, Any]) -> tuple[object, ...]:
    use = (_use(**each) for each in found["utilisation"].values())
    speedups = (f"{found[f'speedup_p{share}']:.2f}x" for share in (50, 80, 95))
    return found["fill"], found["policy"], found["jobs"], f"{found['benefit']:.0%}", *speedups, *use


def _use(mean: float, deviation: float | None = None) -> str:
    """A share, and its standard deviation over time in points, where that is known."""
    return f"{mean:.0%}" + ("" if deviation is None else f" ± {100 * deviation:.1f}")
