"""``omega scheduler list``, and the scheduler rows that other commands print."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from omega.cli import render, units
from omega.cli.app import App
from omega.cli.columns import Columns, answered, columns_option
from omega.queries.schedulers import FIGURES, describe


@click.command()
@click.option("--all", "everybody", is_flag=True, help="Include schedulers that left.")
@columns_option
@click.pass_obj
def command(app: App, everybody: bool, columns: Columns) -> None:
    """List the schedulers: jobs, placed tasks, waits, busyness, queued and blocked jobs.

    Conflicts: transactions with a conflict / transactions (those with ÷ those without). Waits: mean / p90.
    """
    cell = app.open()
    found = describe(cell, everybody)
    if answered(app, {"cell": cell.name, "schedulers": found}, "schedulers", columns):
        return
    if found:
        show(found)
    else:
        render.note("no schedulers; start one with omega scheduler run batch")


def show(found: Sequence[dict[str, Any]]) -> None:
    """Print a table of schedulers."""
    rows, given_up = [], any(each["abandoned"] for each in found)
    for each in found:
        wait = each["wait_seconds"]
        waits = f"{units.seconds(wait['mean'])}/{units.seconds(wait['p90'])}" if wait["mean"] is not None else ""
        numbers = {name: "" if each[name] is None else each[name] for name in FIGURES}
        share = "" if each["conflict_fraction"] is None else f" ({units.fraction(each['conflict_fraction'])})"
        conflicts = f"{each['conflicts']:,}/{each['transactions']:,}{share}" if share else ""
        busy = "" if each["busyness"] is None else f"{each['busyness']:.2f}"
        rows.append(
            (
                each["member"],
                _state(each),
                numbers["jobs"],
                numbers["tasks"],
                conflicts,
                waits,
                busy,
                numbers["queued"],
                numbers["blocked"],
                *([numbers["abandoned"]] if given_up else []),
            )
        )
    render.table(
        (
            "scheduler",
            "state",
            ">jobs",
            ">tasks",
            ">conflicts",
            ">wait/p90",
            ">busy",
            ">queued",
            ">blocked",
            *([">abandoned"] if given_up else []),
        ),
        rows,
        ("jobs", "blocked"),
    )


def _state(each: Mapping[str, Any]) -> str:
    """Return the state, of a scheduler without a lease with the time since its last heartbeat."""
    last = each["heartbeat_at_ms"]
    silent = each["state"] == "lapsed" and last is not None
    return f"lapsed {units.age((App.now_ms() - last) / 1000)}" if silent else str(each["state"])
