"""``omega pool set`` and ``remove``."""

from typing import Any

import click

from omega.cli import render
from omega.cli.app import App
from omega.cli.over_limit import over_option
from omega.cli.pool import settings
from omega.queries import units


@click.command()
@click.argument("name")
@settings.options
@click.option("--everybody", is_flag=True, help="Let all users submit jobs that the parent admits.")
@over_option
@settings.evict_option
@settings.version_option
@click.pass_obj
def command(
    app: App, /, *, name: str, version: int | None, over: str, everybody: bool, evict: bool, **given: Any
) -> None:
    """Create the pool NAME, or change those of its settings that are given.

    A pool that moves takes its running jobs along. A limit below the present use ends nothing unless --over evict is
    given: the least important tasks of the pool are then evicted until the use is within the limit.
    """
    from omega.pools.one import set_pool

    cell = app.open(to_change=True)
    if given["users"] and everybody:
        raise click.UsageError("--everybody removes the list of users; leave out --user")
    given |= settings.preemption(given["preemption"]) | {"users": given["users"] or (() if everybody else None)}
    document, what, warnings = set_pool(
        cell, name, lambda known: settings.changed(known, given, cell.dimensions), app.now_ms, app.by,
        version=version, evict=evict, over=over == "evict",
    )  # fmt: skip
    pool = document["pool"]
    if pool["evicted"]:
        render.note(f"pool {name}: {units.count(pool['evicted'], 'task')} evicted; they are pending again")
    for text in warnings:
        render.warning(text)
    if app.as_json:
        render.document(document)
        return
    render.note(f"pool {name}: {what}; the pools have version {document['version']}")
    if given["weight"] or given["guarantee"]:
        render.note(f"  weight {pool['weight_divides']}")


@click.command()
@click.argument("names", metavar="NAME…", nargs=-1, required=True)
@settings.version_option
@click.pass_obj
def remove(app: App, *, names: tuple[str, ...], version: int | None) -> None:
    """Remove pools without live jobs and without pools below them, so no task has to leave its machine."""
    from omega.pools.one import remove_pools

    document = remove_pools(app.open(to_change=True), names, app.now_ms(), app.by, version)
    if app.as_json:
        render.document(document)
        return
    render.note(f"removed {', '.join(names)}; the pools have version {document['version']}")
