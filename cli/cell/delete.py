"""``omega cell delete``."""

import sys

import click

from omega.cellstate.errors import Refused
from omega.cli import render, units
from omega.cli.app import App
from omega.queries.cells import contents


@click.command()
@click.argument("name", required=False)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.pass_obj
def command(app: App, name: str | None, yes: bool) -> None:
    """Delete the cell NAME (or the one given by --cell) and everything in it."""
    cell = app.open(name or app.which(surely=True), any_schema=True)
    found = contents(cell)
    live, machines, jobs = found.schedulers, found.machines, found.live_jobs
    if live:
        raise Refused(
            f"cell {cell.name}: {units.count(len(live), 'scheduler')} running ({units.listing(live)}); stop them first "
            "(the lease of a killed one expires after a few seconds)"
        )
    what = f"cell {cell.name} with {units.count(machines, 'machine')} and {units.count(jobs, 'live job')}"
    if not yes:
        if not sys.stdin.isatty():
            raise click.UsageError(f"{what}: confirmation needed; add --yes")
        if not click.confirm(f"delete {what}?", err=True):
            render.note("not deleted")
            click.get_current_context().exit(1)
    with render.busy(f"deleting {cell.name}", quiet=app.as_json):
        cell.delete()
    if app.as_json:
        render.document({"cell": cell.name, "deleted": True, "machines": machines, "jobs": jobs})
    else:
        render.line(f"{what} deleted")
