"""``omega cell create`` and ``delete``."""

import sys
from typing import Any

import click

from omega.cellstate.durability import Durability
from omega.cellstate.errors import Refused
from omega.cellstate.resources import Dimensions
from omega.cli import render, units
from omega.cli.app import App
from omega.cli.machine.simulate import lives, note_offline
from omega.cli.options import amount_options, named
from omega.live.simulated import DEFAULT_EXECUTOR
from omega.queries.cells import contents, durability_json, durability_text

JOIN_CHUNK = 1_000


@click.command()
@click.argument("name")
@click.option(
    "--resources", default="cpu,memory", metavar="NAMES", help="Names of the resources (default: cpu,memory)."
)
@click.option(
    "--machines", default=0, type=click.IntRange(0, 10**6), metavar="N", help="Number of machines to add: m0, m1, …"
)
@amount_options("of each machine")
@click.option(
    "--durability",
    metavar="replicas=N[,timeout=T] | fsync | none",
    help="What a change needs before it is acknowledged: N replicas that have it within T (default 1s), or a server "
    "that syncs each write (default: none; the server's settings decide what a fault loses).",
)
@click.pass_obj
def create(
    app: App, /, name: str, resources: str, machines: int, durability: str | None, **amounts_of_each: Any
) -> None:
    """Create the cell NAME, optionally with machines. An existing cell with the same resources is left unchanged."""
    from omega.cellstate.model import MachineSpec
    from omega.cellstate.server import connect
    from omega.cellstate.store import create_cell

    dimensions = Dimensions(tuple(word.strip() for word in resources.split(",")))
    amounts = named(**amounts_of_each)
    wanted = None if durability is None else Durability.parse(durability)
    if machines and not amounts:
        raise click.UsageError("--machines needs the amounts of each machine, such as --cpu 16 --memory 64Gi")
    if amounts and not machines:
        raise click.UsageError("amounts need a number of machines; add --machines N")
    capacity = dimensions.parse_capacity(amounts)
    there = name in app.cells()
    cell = app.closing(create_cell(connect(app.url), name, dimensions, durability=wanted, url=app.url))
    specs = [MachineSpec(f"m{i}", capacity) for i in range(machines)]
    with render.progress(quiet=app.as_json) as bars:
        bar = bars.add_task("machines", total=machines or None, more="", visible=machines > JOIN_CHUNK)
        for start in range(0, machines, JOIN_CHUNK):
            joined = cell.join(DEFAULT_EXECUTOR, specs[start : start + JOIN_CHUNK], app.now_ms())
            bars.advance(bar, len(joined))
    if app.as_json:
        document = {"cell": name, "created": not there, "resources": list(dimensions.names), "machines": machines}
        render.document(document | durability_json(cell))
        return
    said = [f"cell {name} {'already exists' if there else 'created'}", ", ".join(dimensions.names)]
    if cell.durability != Durability():
        said.append(durability_text(cell))
    if machines:
        total = [machines * each for each in capacity]
        said.append(units.count(machines, "machine"))
        said += [f"{units.amount(n, v)} {n}" for n, v in zip(dimensions.names, total, strict=True) if v]
    render.line(" · ".join(said))
    if machines and not lives(cell, DEFAULT_EXECUTOR):
        note_offline(DEFAULT_EXECUTOR)


@click.command()
@click.argument("name", required=False)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.pass_obj
def delete(app: App, name: str | None, yes: bool) -> None:
    """Delete the cell NAME (or the one given by --cell) and everything in it."""
    cell = app.open(name or app.which(surely=True), any_schema=True)
    held = contents(cell)
    live, machines, jobs = held.schedulers, held.machines, held.live_jobs
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
