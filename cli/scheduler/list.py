"""``omega scheduler list``, and the rows about schedulers that other commands show."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from cli import render, words
from cli.app import App
from cli.columns import Columns, answered, columns_option

if TYPE_CHECKING:
    from cellstate.redis import RedisCell

PLAIN = ("jobs", "tasks", "transactions", "accepted", "conflicts", "queued", "asleep", "abandoned")


@click.command()
@click.option("--all", "everybody", is_flag=True, help="Those that left, too.")
@columns_option
@click.pass_obj
def command(app: App, everybody: bool, columns: Columns) -> None:
    """The schedulers: jobs taken up, tasks placed, commits and conflicts, waits, busyness, what they have queued."""
    cell = app.open()
    found = describe(cell, everybody)
    if answered(app, {"cell": cell.name, "schedulers": found}, "schedulers", columns):
        return
    if found:
        show(found)
    else:
        render.note("no schedulers; start one with omega scheduler run batch")


def describe(cell: "RedisCell", everybody: bool = False) -> list[dict[str, Any]]:
    """Every scheduler as plain values; `everybody` includes those that left. Times in seconds.

    The figures are those of its last heartbeat, null before the first.
    """
    members, figures = cell.members(), cell.figures() if everybody else {}
    return [
        as_plain(member, *members.get(member, (None, False, figures.get(member, {}))))
        for member in sorted({*members, *figures})
    ]


def as_plain(member: str, incarnation: int | None, alive: bool, own: Mapping[str, Any]) -> dict[str, Any]:
    """A scheduler as plain values; `own` are the figures it left, `incarnation` is None when it left itself."""
    state = "live" if alive else "lapsed" if incarnation is not None else "left"
    return {
        "member": member, "state": state, "alive": alive, "incarnation": incarnation,
        **{name: own.get(name) for name in PLAIN},
        "conflict_fraction": own.get("conflict_fraction"),
        "wait_seconds": {"mean": own.get("wait_mean"), "p90": own.get("wait_p90")},
        "busyness": own.get("busyness"), "seconds": own.get("seconds"), "metrics": own.get("metrics"),
        "pid": own.get("pid"), "host": own.get("host"),
    }  # fmt: skip


def show(found: Sequence[dict[str, Any]]) -> None:
    """Print a table of schedulers."""
    rows, given_up = [], any(each["abandoned"] for each in found)
    for each in found:
        wait = each["wait_seconds"]
        waits = f"{words.seconds(wait['mean'])}/{words.seconds(wait['p90'])}" if wait["mean"] is not None else ""
        numbers = {name: "" if each[name] is None else each[name] for name in PLAIN}
        share = "" if each["conflict_fraction"] is None else f" ({words.fraction(each['conflict_fraction'])})"
        busy = "" if each["busyness"] is None else f"{each['busyness']:.2f}"
        rows.append((
            each["member"], each["state"], numbers["jobs"], numbers["tasks"], numbers["transactions"],
            f"{numbers['conflicts']}{share}", waits, busy, numbers["queued"], numbers["asleep"],
            *([numbers["abandoned"]] if given_up else []),
        ))  # fmt: skip
    render.table(
        ("scheduler", "state", ">jobs", ">tasks", ">commits", ">conflicts", ">wait mean/p90", ">busy", ">queued",
         ">asleep", *([">abandoned"] if given_up else [])), rows, ("commits", "jobs", "asleep"),
    )  # fmt: skip
