"""``omega pool import``, ``export`` and ``plan``: pools as files."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import click

from omega.cli import render
from omega.cli.app import App
from omega.cli.pool import settings


@click.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@settings.evict_option
@settings.version_option
@click.pass_obj
def import_(app: App, *, file: Path, version: int | None, evict: bool) -> None:
    """Replace all pools and trees by those of FILE (YAML or JSON; docs/pool-settings.md lists the fields).

    If FILE names a version, or --check does, the import is refused when the pools have another one.
    """
    from omega.pools.file import read
    from omega.pools.one import import_pools

    cell = app.open(to_change=True)
    wanted, named = read(file, cell.dimensions)
    document = import_pools(cell, wanted, app.now_ms(), app.by, named if version is None else version, evict=evict)
    for line in document["warnings"]:
        render.warning(line)
    if app.as_json:
        render.document(document)
        return
    said = ", ".join(f"{document[what]} {what}" for what in ("added", "changed", "removed"))
    render.note(f"{said}; the pools have version {document['version']}")


@click.command()
@click.pass_obj
def export(app: App) -> None:
    """Print all pools and trees as YAML that omega pool import reads, with their version."""
    from omega.pools.form import as_document, dump

    pools = app.open().pools.get()
    if app.as_json:
        render.document(as_document(pools))
    else:
        render.page(dump(pools).rstrip("\n"))


@click.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.pass_obj
def plan(app: App, *, file: Path) -> None:
    """Show the fair shares before and after an import of FILE, for the present jobs. Nothing is changed."""
    from omega.pools.changes import check_all
    from omega.pools.file import read
    from omega.pools.leaving import text_of
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

    shares = ("demand", "usage", "before", "after")
    rows = [
        ("  " * row["depth"] + row["name"], row["change"], *(shown(row[name]) for name in shares))
        for row in document["pools"]
    ]
    render.table(("pool", "change", ">demand", ">usage", ">fair share before", ">after"), rows)
    for line in document["warnings"]:
        render.warning(line)
    if document["leaving"]:
        said = text_of(Counter(document["leaving"]))
        render.warning(f"{said} would be on machines of another pool tree: the import needs --evict")
    for name in document["in_use"]:
        render.note(f"warning: pool {name}: has live jobs and would be no leaf any more: the import will be refused")
