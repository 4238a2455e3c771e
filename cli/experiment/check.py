"""``omega experiment check``."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click

from omega.cli import render
from omega.cli.app import App
from omega.cli.experiment.run import experiment_options, found, show


@click.command()
@experiment_options
@click.pass_context
def command(
    ctx: click.Context,
    names: Sequence[str],
    small: bool,
    days: float | None,
    seeds: int | None,
    results: Path,
    where: str | None,
    workers: int | None,
) -> None:
    """Check the claims of the experiments NAME (default: all).

    Exits 1 when a claim does not hold. A claim that cannot be measured does not count.
    """
    app: App = ctx.obj
    documents = found(app, names, days, seeds, results, where, workers, small=small)
    failed = [document for document in documents if document["verdict"] == "does not hold"]
    if app.as_json:
        render.document({"ok": not failed, "experiments": documents})
    else:
        render.table(
            ("experiment", "verdict", "measured"), [(d["name"], d["verdict"], d["measured"]) for d in documents]
        )
        render.line()
        for document in failed:
            show(document)
        counts = Counter(document["verdict"] for document in documents)
        render.line(" · ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    ctx.exit(1 if failed else 0)
