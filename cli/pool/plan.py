"""``omega pool plan``."""

from collections.abc import Mapping
from pathlib import Path

import click

from omega.cli import render
from omega.cli.app import App
from omega.cli.pool import settings


@click.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.pass_obj
def command(app: App, *, file: Path) -> None:
    """Show the fair shares before and after an import of FILE, for the present jobs. Nothing is changed."""
    from omega.pools.changes import check_all
    from omega.pools.file import read
    from omega.queries.pool_shares import plan_json

    cell = app.open()
    wanted, _ = read(file, cell.dimensions)
    check_all(cell, wanted)
    document = plan_json(cell, wanted)
    if app.as_json:
        render.document(document)
        return

    def shown(shares: Mapping[str, float] | None) -> str:
        return "–" if shares is None else settings.percent(max(shares.values(), default=0.0))

    rows = [
        (
            "  " * row["depth"] + row["name"],
            row["change"],
            shown(row["demand"]),
            shown(row["usage"]),
            shown(row["before"]),
            shown(row["after"]),
        )
        for row in document["pools"]
    ]
    render.table(("pool", "change", ">demand", ">usage", ">fair share before", ">after"), rows)
    for name in document["in_use"]:
        render.note(f"warning: pool {name}: has live jobs and would be no leaf any more: the import will be refused")
