"""``omega experiment check``."""

from collections import Counter
from typing import Any

import click

from omega.cli import render
from omega.cli.experiment.run import experiment_options, found, show


@click.command()
@experiment_options
@click.pass_context
def command(ctx: click.Context, /, **asked: Any) -> None:
    """Check the claims of the experiments NAME (default: all).

    Exits 1 when a claim does not hold. A claim that cannot be measured does not count.
    """
    documents = found(ctx.obj, **asked)
    failed = [document for document in documents if document["verdict"] == "does not hold"]
    if ctx.obj.as_json:
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
