"""``omega experiment run``."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from omega.cli import render
from omega.cli.app import App
from omega.cli.sim.executor import executor_options, finish

F = TypeVar("F", bound=Callable[..., Any])


def experiment_options(function: F) -> F:
    """Add the options that `run` and `check` share."""
    for option in (
        click.option(
            "--results",
            default=Path("figures/results.jsonl"),
            show_default=True,
            metavar="FILE.jsonl",
            type=click.Path(dir_okay=False, path_type=Path),
            help="File of finished simulations, shared with omega sim figure.",
        ),
        click.option("--seeds", type=click.IntRange(1, 1_000), help="Number of seeds (default: 5; 1 with --small)."),
        click.option(
            "--days", type=click.FloatRange(0, 10_000, min_open=True), help="Simulated days (default: as the figure's)."
        ),
        click.option("--small", is_flag=True, help="Run the small form, which takes seconds; tests use it."),
        click.argument("names", nargs=-1, metavar="[NAME…]"),
    ):
        function = option(function)
    return executor_options(function)


def found(
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
        trial = carried_out(experiment, form, lambda each: finish(each, results, where, workers, quiet=app.as_json))
        finding, longer = trial.finding, trial.lengthened
        documents.append(
            {
                **experiment.as_json(),
                "verdict": str(trial.verdict),
                "measured": finding.measured,
                "reason": finding.reason,
                "seeds": finding.seeds,
                "held": finding.held,
                "lengthened": None if longer is None else str(longer.verdict),
                "simulations": len(trial.records),
                "days": form.lengths,
            }
        )
    return documents


def show(document: Mapping[str, Any]) -> None:
    """Print the result of one experiment."""
    render.facts(
        {
            "experiment": document["name"],
            "claim": f"{document['claim']} ({document['source']})",
            "expected": document["expectation"],
            "measured": document["measured"],
            "verdict": document["verdict"],
            "seeds": f"holds for {document['held']} of {document['seeds']}" if document["seeds"] > 1 else "",
            "why": document["reason"],
        }
    )
    render.line()


@click.command()
@experiment_options
@click.pass_obj
def command(app: App, /, **asked: Any) -> None:
    """Run the experiments NAME (default: all) and print their measurements."""
    documents = found(app, **asked)
    if app.as_json:
        render.document({"experiments": documents})
        return
    for document in documents:
        show(document)
