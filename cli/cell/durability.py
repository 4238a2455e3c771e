"""``omega cell durability``."""

import click

from omega.cellstate.durability import Durability
from omega.cli import render
from omega.cli.app import App
from omega.queries import units
from omega.queries.cells import durability_json, durability_text


@click.command()
@click.argument("value", required=False, metavar="[replicas=N[,timeout=T] | fsync | none]")
@click.pass_obj
def command(app: App, value: str | None) -> None:
    """Show or change what a change of the cell needs before it is acknowledged.

    Processes that are running keep the durability that they read when they started: restart schedulers and agents.
    """
    wanted = None if value is None else Durability.parse(value)
    cell = app.open(any_schema=wanted is not None)
    if wanted is not None:
        cell.set_durability(wanted)
    if app.as_json:
        render.document({"cell": cell.name} | durability_json(cell))
        return
    render.line(f"cell {cell.name} · durability {durability_text(cell)}")
    if wanted is not None and (
        live := sorted(name for name, (_, lives, _) in cell.schedulers.members().items() if lives)
    ):
        render.note(f"restart what is running: {units.listing(live)}, agents and simulated executors")
