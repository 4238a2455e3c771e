"""``omega bench all``."""

from typing import Any

import click

from benchmarks.command.harness import append_only_option, foot, measure, stated, store_option
from omega.cli import render
from omega.cli.app import App


@click.command()
@click.option("--quick", is_flag=True, help="Fewer and shorter runs: a first impression.")
@append_only_option
@store_option
@click.pass_obj
def command(app: App, /, **settings: Any) -> None:
    """Run all measurements and compare them with earlier ones.

    Takes about ten minutes. The figures are compared with those of benchmarks/ranges.toml, possibly of another
    computer: `within` shows whether a figure is within its margin.
    """
    document = measure(app, "everything", stated(**settings))
    if app.as_json:
        render.document(document)
        return
    render.table(
        ["figure", ">now", ">before", ">limit", ">to reach", "unit", "within"],
        [
            [
                row["name"],
                row["value"],
                row["measured"],
                row["limit"],
                row["target"] or "",
                row["unit"],
                "ok" if row["within"] else "no",
            ]
            for row in document["ranges"]
        ],
    )
    foot(document, f"before: {document['measured']['machine']}, {document['measured']['date']}")
