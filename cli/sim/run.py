"""``omega sim run``."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from omega.cellstate.errors import BadInput
from omega.cli import render
from omega.cli.app import App
from omega.cli.scheduler_choice import selected, variables
from omega.cli.sim.options import configuration, configuration_options
from omega.cli.sim.temporary_cell import temporary_cell
from omega.queries import units

if TYPE_CHECKING:
    from omega.experiments.configuration import Configuration
    from omega.simulation.pool_history import PoolHistory

MOST_UNLISTED = 2
"""Schedulers of a run that need no table of their own."""


@click.command()
@configuration_options
@click.option(
    "--store",
    "url",
    metavar="URL",
    help="Keep the cell state in a temporary cell of this store; the result is the same. OMEGA_STORE is not used.",
)
@click.option(
    "--scheduler",
    "names",
    multiple=True,
    metavar="NAME",
    help="Another scheduler: an installed "
    "name, MODULE:ATTRIBUTE or FILE.toml. One of kind batch or service replaces those of its kind.",
)
@click.option(
    "--takes",
    default="batch",
    show_default=True,
    metavar="KIND",
    help="Kind of the jobs that schedulers of other kinds take over, if the workload has none of theirs.",
)
@click.option(
    "--share",
    default=0.5,
    show_default=True,
    type=click.FloatRange(0, 1, min_open=True),
    metavar="PART",
    help="Part of these jobs that they take over, in equal parts.",
)
@click.option(
    "--figures",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIRECTORY",
    help="Draw the pools over time into this directory, as pools.svg and pools.png.",
)
@click.pass_obj
def command(
    app: App,
    /,
    url: str | None,
    names: Sequence[str],
    takes: str,
    share: float,
    figures: Path | None,
    **given: Any,
) -> None:
    """Simulate one architecture on one workload.

    Prints by kind of job: the wait for the first attempt, scheduler busyness (median of the days and median absolute
    deviation), the same without conflicts, transactions with a conflict per transaction without one, and
    abandoned jobs. With pools it also prints usage, fair share, satisfaction, evictions and wasted work by pool.
    """
    chosen, own = configuration(given), [selected(variables(name)) for name in names]
    with render.busy("drawing the workload", quiet=app.as_json):
        workload = chosen.make_workload()
    if figures and not workload.pools.configured:
        raise BadInput("figures show pools, and this workload has none; add --pools FILE.yaml")
    with temporary_cell(url, workload.dimensions) as cell, render.progress(quiet=app.as_json) as bars:
        began = time.perf_counter()
        bar = bars.add_task(chosen.architecture, total=100, more=f"% of {chosen.days:g} days")

        def show(part: float) -> None:
            bars.update(bar, completed=round(100 * part))

        if own:
            from omega.schedulers.failing import as_one_line
            from omega.schedulers.foreign_errors import RAISED
            from omega.trial import run

            with as_one_line(*own, errors=RAISED):
                result = run(own, workload, chosen.settings(), takes=takes, share=share, cell=cell, progress=show)
        else:
            result = chosen.run(cell=cell, progress=show)
        seconds = time.perf_counter() - began
    paths = _draw(result.pools, chosen, figures, quiet=app.as_json) if figures else []
    document = {**result.as_json(), "wall_seconds": seconds, "workload": workload.about.strip().splitlines()}
    document["configuration"] = chosen.as_json()
    if app.as_json:
        render.document(document)
    else:
        _show(document, list(result.kinds), evictions=bool(own) or result.pools is not None)
        for path in paths:
            render.line(str(path))


def _draw(history: "PoolHistory | None", chosen: "Configuration", directory: Path, *, quiet: bool) -> list[Path]:
    from omega.experiments.plots.pool_history import draw_history

    if history is None:
        return []
    paths = [directory / f"pools{ending}" for ending in (".svg", ".png")]
    pools = f" · pools: {chosen.pools}" if chosen.pools else ""
    details = f"{chosen.workload}{pools} · {chosen.days:g} days · batch schedulers: {chosen.batch} · seed {chosen.seed}"
    with render.busy("drawing", quiet=quiet):
        draw_history(history, details, *paths)
    return paths


def _show(document: Mapping[str, Any], kinds: Sequence[str], *, evictions: bool) -> None:
    for text in document["workload"]:
        render.line(text)
    render.line()
    render.records([_row(kind, document[kind], evictions=evictions) for kind in kinds])
    if len(document["schedulers"]) > MOST_UNLISTED:
        render.line()
        render.records(
            [
                {
                    "scheduler": name,
                    ">jobs": each["jobs_scheduled"],
                    ">attempts": each["attempts"],
                    ">wait mean": units.seconds(each["wait_mean"]),
                    ">busyness": f"{each['busyness_median']:.3f}",
                    ">conflict fraction": f"{each['conflict_fraction']:.4f}",
                }
                for name, each in document["schedulers"].items()
            ]
        )
    if pools := document.get("pools"):
        render.line()
        render.records([_pool_row(name, of) for name, of in pools.items()])
    used = " · ".join(f"{share:.0%} {name}" for name, share in document["utilisation"].items())
    render.line()
    render.line(f"{document['architecture']}, {document['days']:g} days, seed {document['seed']}: in use {used}")
    render.note(
        f"{document['events']:,} events in {units.seconds(document['wall_seconds'])} · digest {document['digest']}"
    )


def _pool_row(name: str, of: Mapping[str, Any]) -> dict[str, object]:
    satisfaction = of["satisfaction_mean"]
    return {
        "pool": name,
        ">usage": f"{of['usage_mean']:.1%}",
        ">fair share": f"{of['fair_share_mean']:.1%}",
        "dominant": of["dominant_resource"],
        ">satisfaction": "–" if satisfaction is None else f"{satisfaction:.2f}",
        ">evicted": of["tasks_evicted"],
        ">wasted": units.seconds(of["wasted_seconds"]),
    }


def _row(kind: str, of: Mapping[str, Any], *, evictions: bool) -> dict[str, object]:
    return {
        "kind": kind,
        ">jobs": of["jobs_submitted"],
        ">scheduled": of["jobs_scheduled"],
        ">abandoned": of["jobs_abandoned"],
        ">tasks": of["tasks_scheduled"],
        **({">evicted": of["tasks_evicted"]} if evictions else {}),
        ">wait mean / p90": f"{units.seconds(of['wait_mean'])} / {units.seconds(of['wait_p90'])}",
        ">busyness": f"{of['busyness_median']:.4f} ± {of['busyness_mad']:.4f}",
        ">no conflict": f"{of['busyness_no_conflict_median']:.4f}",
        ">conflict fraction": f"{of['conflict_fraction']:.4f}",
    }
