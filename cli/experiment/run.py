"""``omega experiment run``, ``check`` and ``list``."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from omega.cli import render
from omega.cli.app import App
from omega.cli.columns import Columns, answered, columns_option
from omega.cli.options import combined
from omega.cli.sim.executor import finish
from omega.cli.sim.options import executor_options, results_option

experiment_options = combined(
    executor_options,
    click.argument("names", nargs=-1, metavar="[NAME…]"),
    click.option("--small", is_flag=True, help="Run the small form, which takes seconds: figures, no verdict."),
    click.option(
        "--days", type=click.FloatRange(0, 10_000, min_open=True), help="Simulated days (default: as the figure's)."
    ),
    click.option("--seeds", type=click.IntRange(1, 1_000), help="Number of seeds (default: 5; 1 with --small)."),
    results_option("figures/results.jsonl", ", shared with omega sim figure"),
)


def _documents(
    app: App,
    *,
    names: Sequence[str],
    days: float | None,
    seeds: int | None,
    results: Path,
    where: str | None,
    workers: int | None,
    small: bool,
) -> list[dict[str, Any]]:
    """Run experiments and return a document for each."""
    from omega.experiments.catalogue import find
    from omega.experiments.report import carried_out

    documents = []
    for experiment in find(names):
        form = experiment.small.but(days, seeds=seeds) if small else experiment.sized(days, seeds=seeds)
        run = carried_out(
            experiment,
            form,
            lambda each: finish(each, results, where, workers, quiet=app.as_json),
            verdict=False if small else None,
        )
        finding, longer = run.finding, run.lengthened
        documents.append(
            {
                **experiment.as_json(),
                "verdict": str(run.verdict),
                "measured": finding.measured,
                "reason": finding.reason,
                "seeds": finding.seeds,
                "held": finding.held,
                "lengthened": None if longer is None else str(longer.verdict),
                "simulations": len(run.records),
                "days": form.lengths,
            }
        )
    return documents


def show(document: Mapping[str, Any]) -> None:
    """Print the result of one experiment."""
    decided = document["seeds"] > 1 and document["verdict"] in ("holds", "does not hold")
    render.facts(
        {
            "experiment": document["name"],
            "claim": f"{document['claim']} ({document['source']})",
            "expected": document["expectation"],
            "measured": document["measured"],
            "verdict": document["verdict"],
            "seeds": f"holds for {document['held']} of {document['seeds']}" if decided else "",
            "why": document["reason"],
        }
    )
    render.line()


def _figures(document: Mapping[str, Any]) -> str:
    """Return what was measured, or why nothing could be."""
    return str(document["reason"] if document["verdict"] == "not measurable" else document["measured"])


@click.command()
@experiment_options
@click.pass_obj
def run(app: App, /, **asked: Any) -> None:
    """Run the experiments NAME (default: all) and print their measurements."""
    documents = _documents(app, **asked)
    if app.as_json:
        render.document({"experiments": documents})
        return
    for document in documents:
        show(document)


@click.command()
@experiment_options
@click.pass_context
def check(ctx: click.Context, /, **asked: Any) -> None:
    """Check the claims of the experiments NAME (default: all).

    Exits 1 when a claim does not hold. A claim that cannot be measured is listed with the reason and does not count.
    Neither does a run with fewer days or machines than the claim's own: it prints figures and no verdict.
    """
    documents = _documents(ctx.obj, **asked)
    failed = [document for document in documents if document["verdict"] == "does not hold"]
    if ctx.obj.as_json:
        render.document({"ok": not failed, "experiments": documents})
    else:
        render.table(("experiment", "verdict", "measured"), [(d["name"], d["verdict"], _figures(d)) for d in documents])
        render.line()
        for document in failed:
            show(document)
        counts = Counter(document["verdict"] for document in documents)
        render.line(" · ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    ctx.exit(1 if failed else 0)


@click.command()
@columns_option
@click.pass_obj
def list_(app: App, columns: Columns) -> None:
    """List the experiments: name, figure, claim and expected result."""
    from omega.experiments.catalogue import EXPERIMENTS

    document = {"experiments": [experiment.as_json() for experiment in EXPERIMENTS.values()]}
    if answered(app, document, "experiments", columns):
        return
    render.table(
        ("name", ">figure", "claim", "expected"),
        [(each.name, str(each.figure), each.claim, each.expectation) for each in EXPERIMENTS.values()],
    )
