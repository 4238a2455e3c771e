"""``omega scheduler status``."""

from collections.abc import Mapping
from typing import Any

import click

from omega.cli import render, units
from omega.cli.app import App
from omega.queries.schedulers import OVER_AND_OVER, status


@click.command()
@click.argument("name", required=False)
@click.pass_obj
def command(app: App, name: str | None) -> None:
    """Show a scheduler (batch/0), all of a kind (batch), or all: busyness, waits, conflicts, queues.

    Warns about machines that reject many claims in a row: this indicates a fault, not contention.
    """
    cell = app.open()
    found = status(cell, name)
    if app.as_json:
        render.document({"cell": cell.name, "schedulers": found})
        return
    if not found:
        render.note("no schedulers; start one with omega scheduler run batch")
    for number, each in enumerate(found):
        if number:
            render.line()
        show(each)


def show(each: Mapping[str, Any]) -> None:
    """Print one scheduler."""
    if each["busyness"] is None:
        render.facts({"scheduler": f"{each['member']} · {each['state']} · no figures yet"})
        return
    wait, last = each["wait_seconds"], each["last_cycle"]
    transactions, given_up = units.count(each["transactions"], "transaction"), each["abandoned"]
    render.facts(
        {
            "scheduler": f"{each['member']} · {each['state']} · incarnation {each['incarnation']}"
            + (f" · evicts by {each.get('evicts_by') or 'a policy of its own'}" if each["evicts"] else ""),
            "busyness": f"{each['busyness']:.2f} over {units.seconds(each['seconds'])}",
            "wait": f"{units.seconds(wait['mean'])} mean, {units.seconds(wait['p90'])} p90 of "
            f"{units.count(each['jobs'], 'job')}",
            "conflicts": f"fraction {units.fraction(each['conflict_fraction'])} · "
            f"{each['conflicts']:,} of {transactions}"
            + (f" · {units.count(given_up, 'job')} given up" if given_up else ""),
            "placed": units.count(each["tasks"], "task"),
            "queue": f"{each['queued']:,} queued · {each['blocked']:,} blocked · "
            f"{each['pending_of_kind']:,} of kind {each['kind']} pending in the cell",
            "last cycle": "none yet"
            if last["seconds"] is None
            else f"took {units.seconds(last['seconds'])}, {units.age(last['ago'])} ago",
            "rejections": " · ".join(_rejecting(machine) for machine in each["rejecting_machines"]),
        }
    )
    for machine in each["rejecting_machines"]:
        if machine["in_a_row"] >= OVER_AND_OVER:
            told = f"machine {machine['machine']} rejected {machine['in_a_row']} claims of {each['member']} in a row"
            render.warning(f"{told}; this is a fault, not contention: see omega machine status {machine['machine']}")


def _rejecting(machine: Mapping[str, Any]) -> str:
    row = f" ({machine['in_a_row']:,} in a row)" if machine["in_a_row"] > 1 else ""
    return f"{machine['machine']} {machine['rejections']:,} ×{row}"
