"""``omega scheduler list`` and ``status``, and the table of schedulers that other commands print."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from omega.cli import render
from omega.cli.app import App
from omega.cli.columns import Columns, answered, columns_option
from omega.cli.refused_writes import warn_of_refused_writes
from omega.queries import units
from omega.queries.job_fields import declarations_text
from omega.queries.schedulers import FIGURES, OVER_AND_OVER, describe, status


@click.command()
@click.option("--all", "everybody", is_flag=True, help="Include schedulers that left.")
@columns_option
@click.pass_obj
def list_(app: App, everybody: bool, columns: Columns) -> None:
    """List the schedulers: jobs, placed tasks, waits, busyness, queued and blocked jobs.

    Conflicts: transactions with a conflict / transactions (those with ÷ those without). Waits: mean / p90.
    """
    cell = app.open()
    schedulers, refused = describe(cell, everybody), warn_of_refused_writes(cell, as_json=app.as_json)
    if answered(app, {"cell": cell.name, "schedulers": schedulers, **refused}, "schedulers", columns):
        return
    if schedulers:
        show_table(schedulers)
    else:
        render.note("no schedulers; start one with omega scheduler run batch")


def show_table(schedulers: Sequence[dict[str, Any]]) -> None:
    """Print a table of schedulers."""
    rows, given_up = [], any(each["abandoned"] for each in schedulers)
    for each in schedulers:
        wait, figures = each["wait_seconds"], {name: "" if each[name] is None else each[name] for name in FIGURES}
        fraction = "" if each["conflict_fraction"] is None else f" ({units.fraction(each['conflict_fraction'])})"
        rows.append(
            {
                "scheduler": each["member"],
                "state": _state(each),
                ">jobs": figures["jobs"],
                ">tasks": figures["tasks"],
                ">conflicts": f"{each['conflicts']:,}/{each['transactions']:,}{fraction}" if fraction else "",
                ">wait/p90": ""
                if wait["mean"] is None
                else f"{units.seconds(wait['mean'])}/{units.seconds(wait['p90'])}",
                ">busy": "" if each["busyness"] is None else f"{each['busyness']:.2f}",
                ">queued": figures["queued"],
                ">blocked": figures["blocked"],
            }
            | ({">abandoned": figures["abandoned"]} if given_up else {})
        )
    render.records(rows, ("jobs", "blocked"))


def _state(each: Mapping[str, Any]) -> str:
    """Return the state, of a scheduler without a lease with the time since its last heartbeat."""
    last = each["heartbeat_at_ms"]
    silent = each["state"] == "lapsed" and last is not None
    return f"lapsed {units.age((App.now_ms() - last) / 1000)}" if silent else str(each["state"])


@click.command()
@click.argument("name", required=False)
@click.pass_obj
def command(app: App, name: str | None) -> None:
    """Show a scheduler (batch/0), all of a kind (batch), or all: busyness, waits, conflicts, queues.

    Warns about machines that reject many claims in a row: this indicates a fault, not contention.
    """
    cell = app.open()
    schedulers = status(cell, name)
    if app.as_json:
        render.document({"cell": cell.name, "schedulers": schedulers})
        return
    if not schedulers:
        render.note("no schedulers; start one with omega scheduler run batch")
    for number, each in enumerate(schedulers):
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
            "job fields": declarations_text(each["job_fields"] or ()),
            "rejections": " · ".join(_rejecting(machine) for machine in each["rejecting_machines"]),
        }
    )
    if each["failed"]:
        render.warning(f"scheduler {each['member']} ended: {each['failed']['error']}")
    for text, jobs in each["failing"].items():
        render.warning(f"scheduler {each['member']}: {text}; {units.count(jobs, 'job')} tried again later")
    for machine in each["rejecting_machines"]:
        if machine["in_a_row"] >= OVER_AND_OVER:
            told = f"machine {machine['machine']} rejected {machine['in_a_row']} claims of {each['member']} in a row"
            render.warning(f"{told}; this is a fault, not contention: see omega machine status {machine['machine']}")


def _rejecting(machine: Mapping[str, Any]) -> str:
    row = f" ({machine['in_a_row']:,} in a row)" if machine["in_a_row"] > 1 else ""
    return f"{machine['machine']} {machine['rejections']:,} ×{row}"
